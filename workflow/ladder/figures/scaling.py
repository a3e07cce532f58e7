"""Draw rate, ratio and time against the size of the problem."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ladder.core.stats import tied
from ladder.figures.data import View, edge, marked, marks_note
from ladder.figures.layout import finish, logarithmic, panels, problems, text_size

LIMIT = "#b22222"


@dataclass(frozen=True)
class Quantity:
    """A quantity to draw against size: a column of `best.csv` and the ends of its interval, multiplied by `scale`."""

    title: Callable[[View], str]
    columns: tuple[str, str, str]
    label: Callable[[View], str]
    scale: Callable[[View], float]
    limits: Callable[[View], Mapping[str, float | None]]
    """The names and values of horizontal lines."""
    linear: Callable[[View], tuple[float, float]] | None
    """The range of the linear panel; None if there is only the logarithmic one."""


def _reference(data: View) -> str:
    return data.nice(data.reference)


def _best(data: View) -> str:
    return (
        "best configuration of every kernel"
        if data.state == "warm"
        else f"{data.state}, the best of every kernel's warm finalists"
    )


def _peaks(data: View) -> dict[str, float | None]:
    return {"measured FP32 peak": data.peak, "FP32 peak, lanes × clock": data.clock_peak}


def _highest(data: View) -> float:
    """Return the highest rate of the reference, or of everything if the reference has none."""
    rates = data.best.loc[data.best["kernel"] == data.reference, "tflops"]
    return float(data.rate((rates if len(rates) else data.best["tflops"]).max()))


def _empty(data: View) -> dict[str, float | None]:
    env = data.environment
    return {"empty launch": env.get("launch_us"), "empty launch, repeated": env.get("repeated_launch_us")}


QUANTITIES = {
    "performance": Quantity(
        title=lambda data: f"GEMM on {data.environment['name']}: {_best(data)}",
        columns=("tflops", "tflops_low", "tflops_high"),
        label=lambda data: data.unit,
        scale=lambda data: 1 / data.unit_size,
        limits=_peaks,
        linear=lambda data: (0.0, 1.05 * max(data.clock_peak or 0, data.peak or 0, 1.25 * _highest(data))),
    ),
    "ratio": Quantity(
        title=lambda data: f"Speed relative to {_reference(data)} on {data.environment['name']}, {data.state}",
        columns=("ratio", "ratio_low", "ratio_high"),
        label=lambda data: f"% of {_reference(data)}'s rate",
        scale=lambda data: 100.0,
        limits=lambda data: {},
        linear=lambda data: (75.0, 125.0),
    ),
    "time": Quantity(
        title=lambda data: f"Time of one GEMM on {data.environment['name']}: {_best(data)}",
        columns=("median_us", "low_us", "high_us"),
        label=lambda data: "µs",
        scale=lambda data: 1.0,
        limits=_empty,
        linear=None,
    ),
}


def _ends(rows: pd.DataFrame, columns: tuple[str, str, str], scale: float) -> tuple[Any, Any, Any]:
    """Return the value and the ends of its interval; the value replaces ends that a single process does not give."""
    value, low, high = (scale * rows[name].to_numpy(dtype=float) for name in columns)
    return value, np.where(low > 0, low, value), np.where(np.isfinite(high), high, value)


def points(axes: Axes, x: Any, y: Any, rows: pd.DataFrame, colour: Any, marker: str, size: float) -> None:
    """Draw markers whose edges show the marks of their rows."""
    every = rows.to_dict("records")
    widths = [0.16 * size if marked(row) else 0.08 * size for row in every]
    axes.scatter(x, y, s=size**2, color=colour, marker=marker, edgecolors=list(map(edge, every)), linewidths=widths, zorder=4)


def _squares(axes: Axes, data: View, quantity: Quantity) -> dict[str, float]:
    """Draw a line per kernel with a band between the ends of the intervals. Return the x positions of the labeled problems."""
    squares, colours, markers, context = (
        data.best[data.best["square"]].sort_values("m"),
        data.colours(),
        data.markers(),
        data.context(),
    )
    for kernel in [*data.kernels, *data.baselines]:
        rows = squares[squares["kernel"] == kernel]
        value, low, high = _ends(rows, quantity.columns, quantity.scale(data))
        axes.fill_between(rows["m"], low, high, color=colours[kernel], alpha=0.25, lw=0, zorder=2)
        dash = context[kernel][1] if kernel in context else "-"
        axes.plot(rows["m"], value, color=colours[kernel], ls=dash, zorder=3, label=data.nice(kernel))
        if len(rows):
            size = 0.3 if kernel in context else 0.55
            points(axes, rows["m"], value, rows, colours[kernel], markers[kernel], size * _text(axes))
    sizes = sorted(squares["m"].unique())
    axes.set_xscale("log", base=2)
    labels = _apart(sizes, axes)
    axes.set_xticks(sizes, labels)
    axes.minorticks_off()
    axes.set_xlabel("M = N = K")
    return {label: size for label, size in zip(labels, sizes, strict=True) if label}


def fastest(data: View) -> dict[str, str]:
    """Return, for every problem, the fastest kernel, and below it those whose intervals overlap its interval.

    Rungs and the reference take part, but nothing else.
    """
    ranked = data.best[data.best["kernel"].isin([*data.kernels, data.reference])].sort_values(
        "ratio", ascending=False, kind="stable"
    )
    series = {}
    for problem, rows in ranked.groupby("problem"):
        _, low, high = _ends(rows, QUANTITIES["ratio"].columns, 1.0)
        alike = rows["kernel"][tied(low, high, 0)]
        series[str(problem)] = "\n≈".join(map(data.brief, [rows["kernel"].iloc[0], *alike]))
    return series


def _apart(sizes: Sequence[int], axes: Axes) -> list[str]:
    """Return the labels of sizes on a logarithmic axis without those that would touch others; powers of two have priority."""
    figure: Any = axes.figure
    inches = 0.8 * axes.get_position().width * figure.get_size_inches()[0] / max(math.log2(max(sizes) / min(sizes)), 1)
    kept: list[int] = []
    for size in sorted(sizes, key=lambda size: (size & (size - 1) != 0, size)):
        wide = (len(str(size)) + 1) * 0.65 * _text(axes) / 72
        if all(abs(math.log2(size / other)) * inches >= wide for other in kept):
            kept.append(size)
    return [str(size) if size in kept else "" for size in sizes]


def _others(axes: Axes, data: View, quantity: Quantity) -> dict[str, float]:
    """Draw kernels side by side in each problem, with bars between the ends of the intervals; baselines lie across.

    Return the x positions of the problems.
    """
    rows = data.best[~data.best["square"]].sort_values(["m", "n", "k"], kind="stable")
    labels, colours, markers, context = list(dict.fromkeys(rows["problem"])), data.colours(), data.markers(), data.context()
    offsets = dict(zip(data.kernels, np.linspace(-0.36, 0.36, max(len(data.kernels), 2)), strict=False))
    for kernel in [*data.kernels, *data.baselines]:
        mine = rows[rows["kernel"] == kernel]
        at = np.array([labels.index(problem) + offsets.get(kernel, 0.0) for problem in mine["problem"]])
        value, low, high = _ends(mine, quantity.columns, quantity.scale(data))
        if kernel in context:
            axes.hlines(value, at - 0.42, at + 0.42, color=colours[kernel], ls=context[kernel][1], zorder=2)
            continue
        axes.vlines(at, low, high, color=colours[kernel], lw=0.12 * _text(axes), zorder=3)
        if len(mine):
            points(axes, at, value, mine, colours[kernel], markers[kernel], 0.4 * _text(axes))
    problems(axes, labels)
    axes.set_xlabel("M×N×K")
    return {label: place for place, label in enumerate(labels)}


def _text(axes: Axes) -> float:
    return float(axes.xaxis.label.get_fontsize())


def scaling(data: View, quantity: Quantity) -> Figure:
    """Draw squares as lines and other shapes beside or below them, on a linear and a logarithmic scale."""
    drawn = [draw for draw, square in ((_squares, True), (_others, False)) if (data.best["square"] == square).any()]
    scales = ["linear", "log"] if quantity.linear else ["log"]
    scales = scales[:1] if data.in_column else scales
    # in a column, the slanted problem names are below both panels
    longer = max(0, max(map(len, data.order)) - 13) * 0.45 * text_size(data.width) / 72
    height = 1.6 + longer / 2 if data.in_column else 2.7
    figure, grid = panels(data, len(drawn) * len(scales), height, most=len(drawn))
    order = [(scale, draw) for scale in scales for draw in drawn]
    limits, beyond = {name: value for name, value in quantity.limits(data).items() if value}, 0
    dashes = dict(zip(limits, (":", (0, (1, 3))), strict=False))
    for axes, (scale, draw) in zip(grid, order, strict=True):
        places = draw(axes, data, quantity)
        if scale == scales[0]:
            for problem, series in fastest(data).items():
                if problem in places:
                    above = axes.get_xaxis_transform()
                    axes.text(
                        places[problem], 1.04, series, transform=above, ha="center", va="bottom", fontsize=0.8 * _text(axes)
                    )
        for name, value in limits.items():
            axes.axhline(value, color=LIMIT, ls=dashes[name], zorder=2, label=name)
        if scale == "linear" and quantity.linear:
            low, high = axes.set_ylim(*quantity.linear(data))
            if len(scales) > 1:
                axes.tick_params(labelbottom=False)
                axes.set_xlabel("")
            values = _ends(data.best, quantity.columns, quantity.scale(data))[0]
            beyond = int(((values < low) | (values > high)).sum())
        else:
            logarithmic(axes)
        axes.set_ylabel(f"{quantity.label(data)}{' (log)' if scale == 'log' else ''}")
        if quantity is QUANTITIES["ratio"]:
            axes.axhspan(98, 102, color="#000000", alpha=0.08, lw=0, zorder=1)
    handles = data.handles(data.best) + [
        Line2D([], [], color=LIMIT, ls=dashes[name], label=f"{name}, {value:.3g}") for name, value in limits.items()
    ]
    notes = [
        "Bands and bars: the intervals. Above: the fastest of rungs and reference, and after ≈ those whose intervals overlap its."
    ]
    if beyond and quantity.linear:
        low, high = quantity.linear(data)
        where = f"below {low:.0f} or above {high:.0f}" if low else f"above {high:.0f}"
        notes.append(f"{beyond} points {where} are {'in the logarithmic panels only' if len(scales) > 1 else 'not drawn'}.")
    if quantity is QUANTITIES["ratio"]:
        notes.append("Grey: within 2 %.")
    configurations = "Of which configuration a point is: best.csv, index.html."
    notes += [configurations, marks_note(data.best.to_dict("records")), data.as_warm_note()]
    return finish(figure, data, quantity.title(data), handles, notes)


def performance(data: View) -> Figure:
    """Draw rate against size: the best configuration of every kernel, the baselines and the peaks."""
    return scaling(data, QUANTITIES["performance"])


def ratio(data: View) -> Figure:
    """Draw the rate relative to the reference of the same rounds."""
    return scaling(data, QUANTITIES["ratio"])


def time(data: View) -> Figure:
    """Draw the time of one GEMM in microseconds, with that of an empty launch for comparison."""
    return scaling(data, QUANTITIES["time"])
