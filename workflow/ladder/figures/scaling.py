"""Draw throughput, and throughput relative to the reference, against the size of the problem."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ladder.core.stats import tied
from ladder.figures.data import GRAY, RATE, RATIO, SIZE, WIDTH, View, edge, ends, marks_of, three
from ladder.figures.labels import LETTER, halo, name_ends, name_points
from ladder.figures.layout import finish, inches, logarithmic, panels, rows_of

LIMIT = "#b22222"
NEAR = (75.0, 125.0)
"""The range of the figure `ratio`, in percent."""
ALIKE = (98.0, 102.0)
"""The gray band in it."""
FEW = 6
"""The most problems of a panel in which points have names."""
MANY = 12
"""The most problems that are not squares in a panel beside that of the squares. Of more, the panel
is below it.
"""


@dataclass(frozen=True)
class Quantity:
    """A quantity to draw against size: a column of `best.csv` and the ends of its interval,
    multiplied by `scale`.
    """

    title: str
    columns: tuple[str, str, str]
    label: str
    scale: float
    near: tuple[float, float] | None = None
    """The range of the linear panels; None for logarithmic ones."""


def points(axes: Axes, x: Any, y: Any, rows: pd.DataFrame, color: Any, size: float) -> None:
    """Draw markers whose edges show the marks of their rows."""
    every = rows[["marks"]].to_dict("records")
    widths = [0.16 * size if marks_of(row) else 0.08 * size for row in every]
    axes.scatter(
        x, y, s=size**2, color=color, edgecolors=list(map(edge, every)), linewidths=widths, zorder=4
    )


def _drawing_order(data: View) -> list[str]:
    """Return all kernels and baselines; those without a color come first, below the others."""
    return sorted(
        data.names, key=lambda kernel: (kernel in data.baselines, data.colors()[kernel] != GRAY)
    )


def fastest(data: View) -> dict[str, list[str]]:
    """Return, for every problem, the fastest kernel, and after it those whose intervals overlap its
    interval.

    Rungs and the reference take part, but nothing else.
    """
    ranked = data.best[data.best["kernel"].isin([*data.kernels, data.reference])].sort_values(
        "ratio", ascending=False, kind="stable"
    )
    series = {}
    for problem, rows in ranked.groupby("problem"):
        _, low, high = ends(rows, RATIO)
        alike = rows["kernel"][tied(low, high, 0)]
        series[str(problem)] = [data.brief(kernel) for kernel in [rows["kernel"].iloc[0], *alike]]
    return series


def _name_fastest(axes: Axes, data: View, places: dict[str, float], above: bool) -> None:
    """Write the fastest kernels of problems above the panel or right of it, as many as there is
    room for.

    `places` are the positions of the problems on the axis beside the names.
    """
    lines = 0
    joint = "\n" if above else " "
    for problem, names in fastest(data).items():
        if problem in places:
            text = f"{joint}≈".join(names[:4]) + (f"{joint}…" if names[4:] else "")
            lines = max(lines, text.count("\n") + 1)
            place: dict[str, Any] = (
                {"x": places[problem], "y": 1.02, "transform": axes.get_xaxis_transform()}
                if above
                else {"x": 1.01, "y": places[problem], "transform": axes.get_yaxis_transform()}
            )
            ha, va = ("center", "bottom") if above else ("left", "center")
            axes.text(**place, s=text, ha=ha, va=va, fontsize=8.0)
    title = f"fastest of rungs and {data.nice(data.reference)}:"
    axes.set_title(
        title,
        loc="left" if above else "right",
        fontsize=8.0,
        pad=1.25 * lines * 8.0 + 5 if above else None,
    )


def _apart(sizes: Sequence[int], octave: float) -> list[str]:
    """Return the labels of sizes on a logarithmic axis without those that would touch others;
    powers of two have priority.

    `octave` is the distance of a size to its double, in letters.
    """
    kept: list[int] = []
    for size in sorted(sizes, key=lambda size: (size & (size - 1) != 0, size)):
        wide = {other: (len(str(size)) + len(str(other))) / 2 + 0.75 for other in kept}
        if all(abs(math.log2(size / other)) * octave >= letters for other, letters in wide.items()):
            kept.append(size)
    return [str(size) if size in kept else "" for size in sizes]


def _letters(data: View, columns: int) -> float:
    """Return about how wide the panel of the squares is, in letters. The layout, which knows, comes
    when all is drawn.
    """
    # the panels of a column are aligned
    left = max(map(len, data.shapes), default=0) if columns == 1 else 0
    names = max(len(data.nice(kernel)) for kernel in [*data.prominent, *data.baselines])
    return WIDTH / columns * 72 / (LETTER * SIZE) - max(left, 5) - 0.85 * names - 4


def _down(data: View, rows: pd.DataFrame) -> Any:
    """Return the y positions of rows that are not squares: that of the problem, and for rungs an
    offset by their order.
    """
    offsets = dict(
        zip(data.kernels, np.linspace(-0.36, 0.36, max(len(data.kernels), 2)), strict=False)
    )
    places = {problem: place for place, problem in enumerate(data.shapes)}
    return rows["problem"].map(places).to_numpy(dtype=float) + rows["kernel"].map(offsets).fillna(
        0.0
    ).to_numpy(dtype=float)


def _draw_peaks(axes: Axes, data: View, letters: float) -> None:
    """Draw the device's peaks in this element type, with one text for both, or for the measured one
    where both are too long.
    """
    peaks = {"measured": data.peak, f"by {data.by_clock}": data.clock_peak}
    drawn = {name: peak for name, peak in peaks.items() if peak}
    for (name, peak), dash in zip(drawn.items(), (":", (0, (1, 3))), strict=False):
        axes.axhline(peak, color=LIMIT, ls=dash, zorder=2, label=f"{data.peak_name}, {name}")
    if drawn:
        named = [f"{three(peak)} {name}" for name, peak in drawn.items()]
        text = f"{data.peak_name}: {', '.join(named)}"
        if 0.65 * len(text) >= letters:  # it is smaller than the labels, and its letters are narrow
            text = f"{data.peak_name}: {named[0]}"
        axes.text(
            0.01,
            1.03 * max(drawn.values()),
            text,
            transform=axes.get_yaxis_transform(),
            fontsize=8.0,
            color=LIMIT,
            va="bottom",
            zorder=5,
            path_effects=halo(SIZE),
        )


def _set_range(axes: Axes, quantity: Quantity, name: str) -> None:
    """Give the axis of the quantity, "x" or "y", its range or scale, and its label."""
    if quantity.near:
        axes.set(**{f"{name}lim": quantity.near})
        span = axes.axvspan if name == "x" else axes.axhspan
        span(*ALIKE, color="#000000", alpha=0.08, lw=0, zorder=1)
    else:
        logarithmic(axes, name)
    axes.set(**{f"{name}label": quantity.label})


def _draw_squares(axes: Axes, data: View, quantity: Quantity, letters: float, tall: float) -> None:
    """Draw a line per kernel with a band between the ends of the intervals, and name those that
    have a color where they end.

    The panel is as wide as so many letters, and `tall` inches high.
    """
    squares, colors, dashes = (
        data.best[data.best["square"]].sort_values("m"),
        data.colors(),
        data.dashes(),
    )
    named = []
    for kernel in _drawing_order(data):
        rows, color = squares[squares["kernel"] == kernel], colors[kernel]
        value, low, high = ends(rows, quantity.columns, quantity.scale)
        axes.fill_between(rows["m"], low, high, color=color, alpha=0.25, lw=0, zorder=2)
        axes.plot(
            rows["m"], value, color=color, ls=dashes[kernel], zorder=3, label=data.nice(kernel)
        )
        if len(rows):
            points(axes, rows["m"], value, rows, color, _dot(data, kernel))
            named.append((float(rows["m"].iloc[-1]), float(value[-1]), data.nice(kernel), color))
    sizes = sorted(squares["m"].unique())
    axes.set_xscale("log", base=2)
    labels = _apart(sizes, 0.9 * letters / max(math.log2(max(sizes) / min(sizes)), 1))
    axes.set_xticks(sizes, labels)
    axes.minorticks_off()
    axes.set_xlabel("M = N = K")
    _name_fastest(axes, data, dict(zip(labels, sizes, strict=True)), above=True)
    if not quantity.near:
        _draw_peaks(axes, data, letters)
    _set_range(axes, quantity, "y")
    low, high = axes.get_ylim()
    name_ends(axes, [end for end in named if end[3] != GRAY and low <= end[1] <= high], 8.5, tall)


def _draw_others(axes: Axes, data: View, quantity: Quantity, wide: float, tall: float) -> None:
    """Draw a row per problem in a panel of so many inches: the kernels one below the other, with
    bars between the ends of the intervals.

    Baselines lie across. The rungs that have a color are named by their numbers, if there are few
    problems.
    """
    labels, colors, dashes = data.shapes, data.colors(), data.dashes()
    others = data.best[~data.best["square"]]
    for place in range(0, len(labels), 2):
        axes.axhspan(place - 0.5, place + 0.5, color="#000000", alpha=0.03, lw=0, zorder=0)
    for kernel in _drawing_order(data):
        mine, color = others[others["kernel"] == kernel], colors[kernel]
        at = _down(data, mine)
        value, low, high = ends(mine, quantity.columns, quantity.scale)
        if kernel in data.baselines:
            axes.vlines(value, at - 0.42, at + 0.42, color=color, ls=dashes[kernel], zorder=2)
            continue
        axes.hlines(at, low, high, color=color, lw=1.2, zorder=3)
        if len(mine):
            points(axes, value, at, mine, color, _dot(data, kernel))
    rows_of(axes, [label.replace("x", "×") for label in labels], 0.5)
    axes.grid(axis="y", visible=False)
    _name_fastest(axes, data, {label: place for place, label in enumerate(labels)}, above=False)
    _set_range(axes, quantity, "x")
    if len(labels) <= FEW:
        left, right = axes.get_xlim()
        rows = others[others["kernel"].isin(data.prominent)]
        drawn = zip(
            ends(rows, quantity.columns, quantity.scale)[0],
            _down(data, rows),
            rows["kernel"],
            strict=True,
        )
        named = [
            (float(x), float(y), data.brief(kernel), colors[kernel])
            for x, y, kernel in drawn
            if left <= x <= right
        ]
        name_points(axes, named, 7.5, wide, tall)


def _dot(data: View, kernel: str) -> float:
    """Return the size of a kernel's dots."""
    return (0.5 if kernel in data.prominent else 0.3) * SIZE


def scaling(data: View, quantity: Quantity) -> Figure:
    """Draw squares as lines, with names at their ends, and other shapes as rows beside or below
    them.
    """
    shapes, usual = len(data.shapes), 4.0
    drawn = [square for square in (True, False) if (data.best["square"] == square).any()]
    stacked = shapes > MANY
    rows = max(usual, inches(1.4 * shapes)) if stacked else usual
    heights = [usual if square else rows for square in drawn]
    columns = 1 if stacked else len(drawn)
    figure, grid = panels(len(drawn), heights if stacked else usual, most=columns)
    for axes, square in zip(grid, drawn, strict=True):
        if square:
            _draw_squares(axes, data, quantity, _letters(data, columns), 0.7 * usual)
        else:
            _draw_others(axes, data, quantity, 0.8 * WIDTH / columns, 0.7 * rows)
    low, high = quantity.near or (0, math.inf)
    values = ends(data.best, quantity.columns, quantity.scale)[0]
    beyond = int(((values < low) | (values > high)).sum())
    gray = [data.brief(kernel) for kernel in data.kernels if kernel not in data.prominent]
    caption = [
        f"Bands and bars: {data.kind_of_interval()}. ≈: the intervals overlap.",
        f"Grey: rungs {', '.join(gray)}." if gray else "",
        "Grey band: within 2 %." if quantity.near else "",
        f"Beyond the panels: {beyond} points." if beyond else "",
        data.as_warm_note(),
    ]
    details = ["Which configuration a point is: best.csv, index.html."]
    return finish(figure, data, quantity.title, (), caption, details, edged=data.best)


def performance(data: View) -> Figure:
    """Draw throughput against size: the best configuration of every kernel, the baselines and the
    peaks.
    """
    title = f"Throughput by size on {data.described}"
    return scaling(data, Quantity(title, RATE, f"{data.unit} (log)", 1 / data.unit_size))


def ratio(data: View) -> Figure:
    """Draw the throughput relative to the reference of the same rounds, close to it."""
    reference = data.nice(data.reference)
    title = f"Throughput relative to {reference} on {data.described}"
    return scaling(data, Quantity(title, RATIO, f"% of {reference}", 100.0, NEAR))
