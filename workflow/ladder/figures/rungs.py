"""Draw the ladder, rung by rung, and the energy that the rungs use."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ladder.figures.data import (
    CONTEXT,
    HATCHED,
    RATE,
    REFERENCE,
    RUNG,
    SIZE,
    View,
    ends,
    gain_text,
    hatches,
    letters,
    three,
)
from ladder.figures.labels import break_bars, cells
from ladder.figures.layout import finish, inches, logarithmic, panels, rows_of

THICK = 0.7
"""The thickness of a bar; rows are 1 apart."""
INTERVAL = "#d62728"


def _rows(axes: Axes, data: View, kernels: Sequence[str]) -> None:
    """Give each kernel a row, and draw a line above the baselines and kernels that are not
    ranked.
    """
    rows_of(axes, [data.nice(kernel) for kernel in kernels])
    axes.grid(axis="y", visible=False)
    unranked = _unranked(data, kernels)
    for label, kernel in zip(axes.get_yticklabels(), kernels, strict=True):
        label.set_color(CONTEXT if kernel in unranked else "#000000")
    if unranked:
        axes.axhline(kernels.index(unranked[0]) - 0.5, color=CONTEXT, lw=0.8, ls=":", zorder=1)


def _unranked(data: View, kernels: Sequence[str]) -> list[str]:
    return [kernel for kernel in kernels if kernel in data.baselines and kernel != data.reference]


def _color(data: View, kernel: str) -> str:
    return RUNG if kernel in data.kernels else REFERENCE if kernel == data.reference else CONTEXT


def _not_ranked(data: View, kernels: Sequence[str]) -> str:
    """Return the sentence about what is below the dotted line, or ""."""
    return "Below the dotted line: for reference, not ranked." if _unranked(data, kernels) else ""


def longest(rows: pd.DataFrame, column: str) -> float:
    """Return the length of the longest bar that must not be broken: those of the tensor cores may
    be, unless all use them.
    """
    lanes = rows.loc[rows["precision"].isna() & ~rows["tensor_cores"].astype(bool), column]
    return float((lanes if len(lanes) else rows[column]).max())


def interval(axes: Axes, low: float, high: float, place: float) -> None:
    """Draw a line from one end of an interval to the other."""
    axes.plot([low, high], [place] * 2, "|-", color=INTERVAL, ms=4.0, mew=1.0, lw=1.0, zorder=3)


def _write_table(axes: Axes, table: Sequence[Mapping[str, str]]) -> None:
    """Write the columns that have text beside the panel."""
    kept = [name for name in table[0] if any(row[name] for row in table)]
    cells(axes, kept, [[row[name] for name in kept] for row in table], SIZE)


def _height(kernels: Sequence[str]) -> float:
    return inches(1.35 * len(kernels) + 3)


def ladder(data: View) -> Figure:
    """Draw every rung at the ladder's problem: its throughput, the percentage of the reference's,
    and its gain over the rung that it builds on.
    """
    rows, reference = data.at(data.headline), data.nice(data.reference)
    kernels, every = [str(kernel) for kernel in rows.index], rows.to_dict("records")
    table = []
    for kernel, row in zip(kernels, every, strict=True):
        base = data.builds_on(kernel)
        gain = data.gain(kernel, base, data.headline) if base else None
        table.append(
            {
                data.unit: three(data.rate(row["tflops"])),
                "%": three(100 * row["ratio"]),
                "over rung": f"{gain_text(gain)} ({data.brief(base)})" if gain and base else "",
                "flags": letters(row),
            }
        )
    figure, (axes,) = panels(1, _height(kernels))
    values, lows, highs = ends(rows, RATE, 1 / data.unit_size)
    for place, (kernel, row) in enumerate(zip(kernels, every, strict=True)):
        hatch = "...." if row["as_warm"] else hatches(row)
        axes.barh(
            place,
            values[place],
            THICK,
            color=_color(data, kernel),
            hatch=hatch,
            edgecolor="#ffffff",
            lw=0,
            zorder=2,
            label=kernel,
        )
        interval(axes, lows[place], highs[place], place)
    _rows(axes, data, kernels)
    axes.set_xlim(0, 1.08 * longest(rows.assign(end=highs), "end"))
    broken = [(float(place), THICK, value) for place, value in enumerate(values)]
    break_bars(axes, broken)
    axes.set_xlabel(f"{data.unit}, {data.where()}")
    _write_table(axes, table)
    beyond = any(length > axes.get_xlim()[1] for _, _, length in broken)
    handles: list[Patch] = [HATCHED] if any(map(hatches, every)) else []
    caption = [
        f"%: of {reference}.",
        f"Red: {data.kind_of_interval()}.",
        "≈: not distinguishable." if any("≈" in row["over rung"] for row in table) else "",
        "White cuts: the bar is longer than the axis." if beyond else "",
        _not_ranked(data, kernels),
        "Dotted bars: timed warm, since cold makes no difference." if rows["as_warm"].any() else "",
    ]
    details = [
        f"Percentages are ratios to {reference}; gains are over the rung in parentheses, in the "
        "same rounds.",
        "Configurations and ties: best.csv.",
    ]
    ranked = rows["ratio"][rows.index.isin(data.plain)]
    title = f"Throughput at {data.where()}"
    if len(ranked):
        best, which = str(ranked.idxmax()), "Fastest"
        if data.plain != data.kernels:
            which = "Fastest without tensor cores"
        title = f"{which}: {data.nice(best)}, {three(100 * ranked[best])} % of {reference}"
    return finish(figure, data, title, handles, caption, details, lettered=rows)


def energy(data: View) -> Figure:
    """Draw the energy of a GEMM by every rung and baseline, at the ladder's problem.

    The line is the range of the processes. A point has no line if only one process counted. The
    caption names those without energy.
    """
    every = data.at(data.headline)
    rows = every[every["energy_j"].notna()]
    kernels, table = [str(kernel) for kernel in rows.index], []
    figure, (axes,) = panels(1, _height(kernels))
    for place, (kernel, row) in enumerate(zip(kernels, rows.to_dict("records"), strict=True)):
        joules, per_joule = three(row["energy_j"]), three(1000 * row["tflop_per_j"])
        table.append({"J": joules, "GFLOP/s/W": per_joule, "flags": letters(row)})
        interval(axes, row["energy_low_j"], row["energy_high_j"], place)
        axes.plot(
            row["energy_j"], place, "o", color=_color(data, kernel), ms=7.0, zorder=4, label=kernel
        )
    _rows(axes, data, kernels)
    axes.set_xlabel(f"J, whole board (log), {data.where()}")
    logarithmic(axes, "x")
    _write_table(axes, table)
    missing = ", ".join(data.brief(str(kernel)) for kernel in every.index.difference(rows.index))
    caption = [
        "Red: range of the processes that counted energy.",
        "Without a line: counted in one process." if rows["energy_low_j"].isna().any() else "",
        _not_ranked(data, kernels),
        missing and f"Not counted: {missing}.",
    ]
    ranked = rows["energy_j"][rows.index.isin(data.kernels)]
    title = "Energy of a GEMM"
    if len(ranked):
        least = str(ranked.idxmin())
        title = f"The rung with the least energy: {data.nice(least)}, {three(ranked[least])} J"
    details = ["Other problems: best.csv."]
    intervals = "Lines: the range of the processes in which energy was counted."
    return finish(figure, data, title, [], caption, details, intervals, lettered=rows)
