"""Draw how fast kernels are against the size of the problem, in percent of the reference."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ladder.core.stats import tied
from ladder.core.types import ELEMENT_TYPES
from ladder.figures.data import GRAY, RATIO, SIZE, WIDTH, View, edge, ends, marks_of, three
from ladder.figures.labels import LETTER, name_ends
from ladder.figures.layout import finish, inches, panels, rows_of

LIMIT = "#b22222"
LOWEST, HIGHEST = 60.0, 200.0
"""Where the panels of rungs begin, in percent, unless the fastest one is slower somewhere, and
where they end at most.
"""
MANY = 12
"""The most problems that are not squares in this figure. Of more, `shapes` shows the fastest rung
of each.
"""
TALL = 4.4
"""The height of the panel of squares in inches."""


def points(axes: Axes, x: Any, y: Any, rows: pd.DataFrame, color: Any, size: float) -> None:
    """Draw markers whose edges show the marks of their rows."""
    every = rows[["marks"]].to_dict("records")
    widths = [0.16 * size if marks_of(row) else 0.08 * size for row in every]
    axes.scatter(
        x, y, s=size**2, color=color, edgecolors=list(map(edge, every)), linewidths=widths, zorder=4
    )


def _drawing_order(data: View, names: Sequence[str]) -> list[str]:
    """Return names of kernels and baselines; those without a color come first, below the others."""
    return sorted(names, key=lambda kernel: (kernel in data.baselines, data.colors[kernel] != GRAY))


def _ranked(data: View) -> pd.DataFrame:
    """Return the rows of rungs and the reference, the fastest ones first: nothing else takes part
    in the comparison.
    """
    taking_part = data.best["kernel"].isin([*data.kernels, data.reference])
    return data.best[taking_part].sort_values("ratio", ascending=False, kind="stable")


def fastest(data: View) -> dict[str, list[str]]:
    """Return, for every problem, the fastest kernel, and after it those whose intervals overlap its
    interval.
    """
    series = {}
    for problem, rows in _ranked(data).groupby("problem"):
        _, low, high = ends(rows, RATIO)
        alike = rows["kernel"][tied(low, high, 0)]
        series[str(problem)] = [data.brief(kernel) for kernel in [rows["kernel"].iloc[0], *alike]]
    return series


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


def _draw_squares(
    axes: Axes, data: View, names: Sequence[str], limits: tuple[float, float] | None
) -> int:
    """Draw a line per kernel with a band between the ends of the intervals, and name those that
    have a color where they end. Return how many points are outside the limits; with None the panel,
    of tensor cores, has all.
    """
    squares = data.best[data.best["square"]].sort_values("m")
    size = ELEMENT_TYPES[data.element_type].size
    colors, dashes, named, values = data.colors, data.dashes(), [], [100.0]
    for kernel in _drawing_order(data, names):
        rows, color = squares[squares["kernel"] == kernel], colors[kernel]
        value, lower, upper = ends(rows, RATIO, 100)
        aligned = (rows["m"] * size % 16 == 0).to_numpy()
        for alike in (aligned, ~aligned):  # no line joins what the baseline computes otherwise
            x, y = rows["m"][alike], value[alike]
            band = lower[alike], upper[alike]
            axes.fill_between(x, *band, color=color, alpha=0.25, lw=0, zorder=2)
            if alike.any():
                name = data.nice(kernel)
                axes.plot(x, y, color=color, ls=dashes[kernel], zorder=3, label=name)
        if len(rows):
            points(axes, rows["m"], value, rows, color, 4.0 if color == GRAY else 6.0)
            named.append((float(rows["m"].iloc[-1]), float(value[-1]), data.nice(kernel), color))
            values += list(value)
    sizes = sorted(squares["m"].unique())
    axes.set_xscale("log", base=2)
    letters = WIDTH * 72 / (LETTER * SIZE) - max(len(end[2]) for end in named) - 8
    axes.set_xticks(sizes, _apart(sizes, letters / max(math.log2(max(sizes) / min(sizes)), 1)))
    axes.minorticks_off()
    low, high = limits or (0, 1.04 * np.nanmax(values))
    axes.set(xlabel="M = N = K", ylabel=f"% of {data.nice(data.reference)}", ylim=(low, high))
    axes.axhline(100, color="#000000", lw=0.8, zorder=2)
    axes.set_title("" if limits else "tensor cores")
    shown = [end for end in named if end[3] != GRAY and low <= end[1] <= high]
    name_ends(axes, shown, SIZE, TALL if limits else 0.7 * TALL)
    return _outside(values, low, high)


def _outside(values: Any, low: float, high: float) -> int:
    """Return how many values are not in a range."""
    return int(((np.array(values) < low) | (np.array(values) > high)).sum())


def _draw_others(axes: Axes, data: View, shapes: Sequence[str], limits: tuple[float, float]) -> int:
    """Draw a row per problem: a dot for each kernel, with a bar between the ends of its interval,
    and the fastest kernel's name and share. Return how many points are outside the limits.
    """
    colors, outside = data.colors, 0
    for kernel in _drawing_order(data, [name for name in data.names if name not in data.apart]):
        rows = data.best[(data.best["kernel"] == kernel) & data.best["problem"].isin(shapes)]
        value, lower, upper = ends(rows, RATIO, 100)
        at = [shapes.index(problem) for problem in rows["problem"]]
        axes.hlines(at, lower, upper, color=colors[kernel], lw=1.2, zorder=3)
        points(axes, value, at, rows, colors[kernel], 5.0 if colors[kernel] == GRAY else 8.0)
        outside += _outside(value, *limits)
    first, names = _ranked(data).drop_duplicates("problem").set_index("problem"), fastest(data)
    for place, problem in enumerate(shapes):
        if problem in names:
            text = " ≈".join(names[problem][:2]) + ("…" if names[problem][2:] else "")
            share = three(100 * first.loc[problem, "ratio"])
            axes.text(
                1.01, place, f"{text}: {share} %", transform=axes.get_yaxis_transform(), va="center"
            )
    rows_of(axes, [label.replace("x", "×") for label in shapes], 0.5)
    axes.grid(axis="y", visible=False)
    axes.axvline(100, color="#000000", zorder=2)
    axes.set(xlabel=f"% of {data.nice(data.reference)}", xlim=limits)
    axes.set_title("fastest:", loc="right")
    return outside


def performance(data: View) -> Figure:
    """Draw the best configuration of every kernel in percent of the reference of the same rounds:
    squares as lines, with tensor cores in a panel of their own if other rungs have none, and other
    shapes as rows.
    """
    reference = data.nice(data.reference)
    squares = data.best[data.best["square"]]
    shapes = data.shapes if len(data.shapes) <= MANY else []
    near = data.best[data.best["kernel"].isin([*data.plain, data.reference])]
    leading = 100 * near.groupby("problem")["ratio"].max().fillna(100)
    low = min(LOWEST, 0.9 * min(leading, default=LOWEST))
    limits = low, min(HIGHEST, 1.04 * max(leading, default=LOWEST))
    lines = [name for name in data.names if name not in data.apart]
    of_lines, of_apart = (squares["kernel"].isin(names).any() for names in (lines, data.apart))
    heights = [TALL] if of_lines else []
    heights += [0.7 * TALL] if of_apart else []
    heights += [inches(1.5 * len(shapes) + 3)] if shapes else []
    figure, grid = panels(len(heights), heights)
    rest, outside = list(grid), 0
    if of_lines:
        outside += _draw_squares(rest.pop(0), data, lines, limits)
    if of_apart:
        _draw_squares(rest.pop(0), data, data.apart, None)
    if shapes:
        outside += _draw_others(rest.pop(0), data, shapes, limits)
    handles: list[Artist] = []
    if not of_lines:  # otherwise the lines have names
        handles = [
            Line2D([], [], color=data.colors[kernel], marker="o", label=data.nice(kernel))
            for kernel in [*data.prominent, data.reference]
        ]
    gray = [data.brief(kernel) for kernel in data.kernels if kernel not in data.prominent]
    caption = [
        f"Bands and bars: {data.kind_of_interval()}.",
        f"Gray: rungs {', '.join(gray)}." if gray else "",
        f"Outside the panels: {outside} points." if outside else "",
        data.as_warm_note(),
    ]
    details = ["Which configuration a point is: best.csv, index.html."]
    rungs = data.best[data.best["kernel"].isin(data.plain) & (data.best["ratio_low"] > 1)]
    ahead = f"on {rungs['problem'].nunique()} of {len(data.order)} problems"
    which = "Without tensor cores, rungs" if data.plain != data.kernels else "Rungs"
    title = f"{which} are distinguishably ahead of {reference} {ahead}"
    return finish(figure, data, title, handles, caption, details, edged=data.best)
