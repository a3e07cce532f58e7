"""Draw throughput, and throughput relative to the reference, against the size of the problem."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ladder.core.stats import tied
from ladder.figures.data import GREY, View, edge, edges, marks_note, marks_of, three
from ladder.figures.labels import LETTER, halo, name_ends, name_points
from ladder.figures.layout import finish, inches, logarithmic, panels, text_size

LIMIT = "#b22222"
NEAR = (75.0, 125.0)
"""The range of the figure `ratio`, in percent."""
ALIKE = (98.0, 102.0)
"""The grey band in it."""
FEW = 6
"""The most problems of a panel in which points have names."""
MANY = 12
"""The most problems that are not squares in a panel beside that of the squares. Of more, the panel is below it."""


@dataclass(frozen=True)
class Quantity:
    """A quantity to draw against size: a column of `best.csv` and the ends of its interval, multiplied by `scale`."""

    title: Callable[[View], str]
    columns: tuple[str, str, str]
    label: Callable[[View], str]
    scale: Callable[[View], float]
    near: tuple[float, float] | None
    """The range of the linear panels; None for logarithmic ones."""


QUANTITIES = {
    "performance": Quantity(
        title=lambda data: f"Throughput by size on {data.environment['name']}, {data.element_type}, {data.state}",
        columns=("tflops", "tflops_low", "tflops_high"),
        label=lambda data: data.unit,
        scale=lambda data: 1 / data.unit_size,
        near=None,
    ),
    "ratio": Quantity(
        title=lambda data: (
            f"Throughput relative to {data.nice(data.reference)} on {data.environment['name']}, {data.element_type}, {data.state}"
        ),
        columns=("ratio", "ratio_low", "ratio_high"),
        label=lambda data: f"% of {data.nice(data.reference)}",
        scale=lambda data: 100.0,
        near=NEAR,
    ),
}


def _ends(rows: pd.DataFrame, columns: tuple[str, str, str], scale: float) -> tuple[Any, Any, Any]:
    """Return the value and the ends of its interval; the value replaces ends that a single process does not give."""
    value, low, high = (scale * rows[name].to_numpy(dtype=float) for name in columns)
    return value, np.where(low > 0, low, value), np.where(np.isfinite(high), high, value)


def points(axes: Axes, x: Any, y: Any, rows: pd.DataFrame, colour: Any, marker: str, size: float) -> None:
    """Draw markers whose edges show the marks of their rows."""
    every = rows.to_dict("records")
    widths = [0.16 * size if marks_of(row) else 0.08 * size for row in every]
    axes.scatter(x, y, s=size**2, color=colour, marker=marker, edgecolors=list(map(edge, every)), linewidths=widths, zorder=4)


def _drawing_order(data: View) -> list[str]:
    """Return all kernels and baselines; those without a color come first, below the others."""
    every = [*data.kernels, *data.baselines]
    return sorted(every, key=lambda kernel: (kernel in data.baselines, data.colours()[kernel] != GREY))


def _squares(axes: Axes, data: View, quantity: Quantity, letters: float) -> dict[str, float]:
    """Draw a line per kernel with a band between the ends of the intervals, in a panel as wide as so many letters.

    Return the x positions of the labeled problems.
    """
    squares, colours, dashes = data.best[data.best["square"]].sort_values("m"), data.colours(), data.dashes()
    for kernel in _drawing_order(data):
        rows = squares[squares["kernel"] == kernel]
        value, low, high = _ends(rows, quantity.columns, quantity.scale(data))
        axes.fill_between(rows["m"], low, high, color=colours[kernel], alpha=0.25, lw=0, zorder=2)
        axes.plot(rows["m"], value, color=colours[kernel], ls=dashes[kernel], zorder=3, label=data.nice(kernel))
        if len(rows):
            size = 0.5 if kernel in data.prominent else 0.3
            points(axes, rows["m"], value, rows, colours[kernel], "o", size * _text(axes))
    sizes = sorted(squares["m"].unique())
    axes.set_xscale("log", base=2)
    labels = _apart(sizes, 0.9 * letters / max(math.log2(max(sizes) / min(sizes)), 1))
    axes.set_xticks(sizes, labels)
    axes.minorticks_off()
    axes.set_xlabel("M = N = K")
    return {label: size for label, size in zip(labels, sizes, strict=True) if label}


def _name_lines(axes: Axes, data: View, quantity: Quantity, tall: float) -> None:
    """Name every line that has a color where it ends, unless it ends beyond the panel."""
    low, high = axes.get_ylim()
    squares, ends = data.best[data.best["square"]].sort_values("m"), []
    for kernel in [kernel for kernel in _drawing_order(data) if data.colours()[kernel] != GREY]:
        rows = squares[squares["kernel"] == kernel]
        if len(rows):
            x, y = float(rows["m"].iloc[-1]), quantity.scale(data) * float(rows[quantity.columns[0]].iloc[-1])
            if low <= y <= high:
                ends.append((x, y, data.label(kernel), data.colours()[kernel]))
    name_ends(axes, ends, 0.85 * _text(axes), tall)


def fastest(data: View) -> dict[str, list[str]]:
    """Return, for every problem, the fastest kernel, and after it those whose intervals overlap its interval.

    Rungs and the reference take part, but nothing else.
    """
    ranked = data.best[data.best["kernel"].isin([*data.kernels, data.reference])].sort_values(
        "ratio", ascending=False, kind="stable"
    )
    series = {}
    for problem, rows in ranked.groupby("problem"):
        _, low, high = _ends(rows, QUANTITIES["ratio"].columns, 1.0)
        alike = rows["kernel"][tied(low, high, 0)]
        series[str(problem)] = [data.brief(kernel) for kernel in [rows["kernel"].iloc[0], *alike]]
    return series


def _first(names: Sequence[str], most: int, joint: str) -> str:
    """Return the first names, and that there are more."""
    return f"{joint}≈".join(names[:most]) + (f"{joint}…" if names[most:] else "")


def _title_fastest(data: View) -> str:
    return f"fastest of rungs and {data.nice(data.reference)}:"


def _name_above(axes: Axes, data: View, places: dict[str, float]) -> None:
    """Write the fastest kernels of squares above their panel, at most four. `places` are the x positions of the problems."""
    size, highest = 0.8 * _text(axes), 0
    for problem, names in fastest(data).items():
        if problem in places:
            at, text = (places[problem], 1.02), _first(names, 4, "\n")
            axes.text(*at, text, transform=axes.get_xaxis_transform(), ha="center", va="bottom", fontsize=size)
            highest = max(highest, text.count("\n") + 1)
    axes.set_title(_title_fastest(data), fontsize=size, pad=1.25 * highest * size + 5)


def _name_beside(axes: Axes, data: View, places: dict[str, float]) -> None:
    """Write the fastest kernels of other shapes right of their rows, as many as there is room for. `places` are their y positions."""
    size, most = 0.8 * _text(axes), 2 if data.in_column else 4
    for problem, names in fastest(data).items():
        if problem in places:
            at, text = (1.01, places[problem]), _first(names, most, " ")
            axes.text(*at, text, transform=axes.get_yaxis_transform(), ha="left", va="center", fontsize=size)
    axes.set_title(_title_fastest(data), loc="right", fontsize=size)


def _apart(sizes: Sequence[int], octave: float) -> list[str]:
    """Return the labels of sizes on a logarithmic axis without those that would touch others; powers of two have priority.

    `octave` is the distance of a size to its double, in letters.
    """
    kept: list[int] = []
    for size in sorted(sizes, key=lambda size: (size & (size - 1) != 0, size)):
        wide = {other: (len(str(size)) + len(str(other))) / 2 + 0.75 for other in kept}
        if all(abs(math.log2(size / other)) * octave >= letters for other, letters in wide.items()):
            kept.append(size)
    return [str(size) if size in kept else "" for size in sizes]


def _letters(data: View, columns: int) -> float:
    """Return about how wide the panel of the squares is, in letters. The layout, which knows, comes when all is drawn."""
    left = max(map(len, _shapes(data)), default=0) if columns == 1 else 0  # the panels of a column are aligned
    names = max(len(data.label(kernel)) for kernel in [*data.prominent, *data.baselines])
    return data.width / columns * 72 / (LETTER * text_size(data.width)) - max(left, 5) - 0.85 * names - 4


def _others(axes: Axes, data: View, quantity: Quantity) -> dict[str, float]:
    """Draw a row per problem, in it the kernels one below the other with bars between the ends of the intervals; baselines lie across.

    Return the y positions of the problems.
    """
    labels, colours, dashes = _shapes(data), data.colours(), data.dashes()
    for place in range(0, len(labels), 2):
        axes.axhspan(place - 0.5, place + 0.5, color="#000000", alpha=0.03, lw=0, zorder=0)
    for kernel in _drawing_order(data):
        mine = data.best[~data.best["square"] & (data.best["kernel"] == kernel)]
        at = _down(data, mine)
        value, low, high = _ends(mine, quantity.columns, quantity.scale(data))
        if kernel in data.baselines:
            axes.vlines(value, at - 0.42, at + 0.42, color=colours[kernel], ls=dashes[kernel], zorder=2)
            continue
        axes.hlines(at, low, high, color=colours[kernel], lw=0.12 * _text(axes), zorder=3)
        if len(mine):
            points(axes, value, at, mine, colours[kernel], "o", (0.5 if kernel in data.prominent else 0.3) * _text(axes))
    shown = [label.replace(" padding=", " pad ") if data.in_column else label for label in labels]
    axes.set_yticks(range(len(labels)), [label.replace("x", "×") for label in shown])
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    return {label: place for place, label in enumerate(labels)}


def _shapes(data: View) -> list[str]:
    """Return the labels of all problems that are not squares, in order."""
    rows = data.best[~data.best["square"]].sort_values(["m", "n", "k"], kind="stable")
    return list(dict.fromkeys(rows["problem"]))


def _down(data: View, rows: pd.DataFrame) -> Any:
    """Return the y positions of rows that are not squares: that of the problem, and for rungs an offset by their order."""
    labels = _shapes(data)
    offsets = dict(zip(data.kernels, np.linspace(-0.36, 0.36, max(len(data.kernels), 2)), strict=False))
    return np.array(
        [
            labels.index(problem) + offsets.get(kernel, 0.0)
            for problem, kernel in zip(rows["problem"], rows["kernel"], strict=True)
        ]
    )


def _name_dots(axes: Axes, data: View, quantity: Quantity, wide: float, tall: float) -> None:
    """Name the rungs that have a color at every problem, by their numbers, if there are few problems."""
    low, high = axes.get_xlim()
    if len(_shapes(data)) > FEW:
        return
    rows = data.best[~data.best["square"] & data.best["kernel"].isin(data.prominent)]
    values = quantity.scale(data) * rows[quantity.columns[0]]
    drawn = zip(values, _down(data, rows), rows["kernel"], strict=True)
    named = [(float(x), float(y), data.brief(kernel), data.colours()[kernel]) for x, y, kernel in drawn if low <= x <= high]
    name_points(axes, named, 0.75 * _text(axes), wide, tall)


def _text(axes: Axes) -> float:
    return float(axes.xaxis.label.get_fontsize())


def _draw_peaks(axes: Axes, data: View, letters: float) -> None:
    """Draw the device's peaks in this element type, with one text for both, or for the measured one where both are too long."""
    peaks = {"measured": data.peak, f"by {data.by_clock}": data.clock_peak}
    drawn = {name: peak for name, peak in peaks.items() if peak}
    for (name, peak), dash in zip(drawn.items(), (":", (0, (1, 3))), strict=False):
        axes.axhline(peak, color=LIMIT, ls=dash, zorder=2, label=f"{data.peak_name}, {name}")
    if drawn:
        named = [f"{three(peak)} {name}" for name, peak in drawn.items()]
        both, measured = (f"{data.peak_name}: {', '.join(it)}" for it in (named, named[:1]))
        text = both if 0.65 * len(both) < letters else measured  # it is smaller than the labels, and its letters are narrow
        at = 0.01, 1.03 * max(drawn.values())
        axes.text(
            *at, text, transform=axes.get_yaxis_transform(), fontsize=0.8 * _text(axes), color=LIMIT, va="bottom", zorder=5,
            path_effects=halo(_text(axes)),
        )  # fmt: skip


def _draw_squares(axes: Axes, data: View, quantity: Quantity, letters: float, tall: float) -> None:
    """Draw and name the squares in a panel as wide as so many letters, and `tall` inches high."""
    _name_above(axes, data, _squares(axes, data, quantity, letters))
    if quantity.near:
        axes.set_ylim(*quantity.near)
        axes.axhspan(*ALIKE, color="#000000", alpha=0.08, lw=0, zorder=1)
    else:
        _draw_peaks(axes, data, letters)
        logarithmic(axes)
    axes.set_ylabel(_axis_label(data, quantity))
    _name_lines(axes, data, quantity, tall)


def _draw_others(axes: Axes, data: View, quantity: Quantity, wide: float, tall: float) -> None:
    """Draw and name the other shapes in a panel of so many inches."""
    _name_beside(axes, data, _others(axes, data, quantity))
    if quantity.near:
        axes.set_xlim(*quantity.near)
        axes.axvspan(*ALIKE, color="#000000", alpha=0.08, lw=0, zorder=1)
    else:
        logarithmic(axes, "x")
    axes.set_xlabel(_axis_label(data, quantity))
    _name_dots(axes, data, quantity, wide, tall)


def _axis_label(data: View, quantity: Quantity) -> str:
    return f"{quantity.label(data)}{'' if quantity.near else ' (log)'}"


def scaling(data: View, quantity: Quantity) -> Figure:
    """Draw squares as lines, with names at their ends, and other shapes as rows beside or below them."""
    shapes, usual = len(_shapes(data)), 2.2 if data.in_column else 4.0
    drawn = [square for square in (True, False) if (data.best["square"] == square).any()]
    stacked = data.in_column or shapes > MANY
    rows = max(usual, inches(1.4 * shapes, text_size(data.width))) if stacked else usual
    heights = [usual if square else rows for square in drawn]
    columns = 1 if stacked else len(drawn)
    figure, grid = panels(data, len(drawn), heights if stacked else usual, most=columns)
    for axes, square in zip(grid, drawn, strict=True):
        if square:
            _draw_squares(axes, data, quantity, _letters(data, columns), 0.7 * usual)
        else:
            _draw_others(axes, data, quantity, 0.8 * data.width / columns, 0.7 * rows)
    low, high = quantity.near or (0, math.inf)
    values = _ends(data.best, quantity.columns, quantity.scale(data))[0]
    beyond = int(((values < low) | (values > high)).sum())
    grey = [data.brief(kernel) for kernel in data.kernels if kernel not in data.prominent]
    caption = [
        f"Bands and bars: {data.kind_of_interval()}. ≈: the intervals overlap.",
        f"Grey: rungs {', '.join(grey)}." if grey else "",
        "Grey band: within 2 %." if quantity.near else "",
        f"Beyond the panels: {beyond} points." if beyond else "",
        data.as_warm_note(),
    ]
    details = ["Which configuration a point is: best.csv, index.html.", marks_note(data.best.to_dict("records"))]
    return finish(figure, data, quantity.title(data), edges(data.best), caption, details)


def performance(data: View) -> Figure:
    """Draw throughput against size: the best configuration of every kernel, the baselines and the peaks."""
    return scaling(data, QUANTITIES["performance"])


def ratio(data: View) -> Figure:
    """Draw the throughput relative to the reference of the same rounds, close to it."""
    return scaling(data, QUANTITIES["ratio"])
