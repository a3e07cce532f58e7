"""Draw the ladder, rung by rung, and the energy that the rungs use."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ladder.figures.data import (
    CONTEXT,
    HATCHED,
    REFERENCE,
    RUNG,
    View,
    gain_text,
    hatches,
    letters,
    letters_note,
    marks_note,
    three,
)
from ladder.figures.labels import break_bars, cells
from ladder.figures.layout import finish, inches, logarithmic, panels, text_size

THICK = 0.7
"""The thickness of a bar; rows are 1 apart."""
INTERVAL = "#d62728"
MOST = 3
"""The most problems of the figure of energy."""


def _rows(axes: Axes, data: View, kernels: Sequence[str], named: bool = True) -> None:
    """Give each kernel a row, and draw a line above the baselines and kernels that are not ranked."""
    size = text_size(data.width)
    axes.set_ylim(len(kernels) - 0.4, -0.6)
    axes.set_yticks(range(len(kernels)), [data.label(kernel) for kernel in kernels] if named else [""] * len(kernels))
    axes.grid(axis="y", visible=False)
    unranked = [place for place, kernel in enumerate(kernels) if kernel in data.baselines and kernel != data.reference]
    for label, place in zip(axes.get_yticklabels(), range(len(kernels)), strict=True):
        label.set_color(CONTEXT if place in unranked else "#000000")
    if unranked:
        axes.axhline(unranked[0] - 0.5, color=CONTEXT, lw=0.08 * size, ls=":", zorder=1)


def _colour(data: View, kernel: str) -> str:
    return RUNG if kernel in data.kernels else REFERENCE if kernel == data.reference else CONTEXT


def _not_ranked(data: View, kernels: Sequence[str]) -> str:
    """Return the sentence about what is below the dotted line, or ""."""
    below = any(kernel in data.baselines and kernel != data.reference for kernel in kernels)
    return "Below the dotted line: for reference, not ranked." if below else ""


def longest(rows: pd.DataFrame, column: str) -> float:
    """Return the length of the longest bar that must not be broken: those of the tensor cores may be, unless all use them."""
    lanes = rows.loc[rows["precision"].isna() & ~rows["tensor_cores"].astype(bool), column]
    return float((lanes if len(lanes) else rows[column]).max())


def _ends(value: float, low: float, high: float) -> tuple[float, float, float]:
    """Return a value with the ends of its interval; the value replaces an infinite end, which a single process gives."""
    return value, low, high if math.isfinite(high) else value


def ladder(data: View) -> Figure:
    """Draw every rung at the ladder's problem: its throughput, the share of the reference's, and its gain over the rung that it builds on."""
    rows, common, size = data.at(data.headline), data.common(), text_size(data.width)
    kernels, every = [str(kernel) for kernel in rows.index], rows.to_dict("records")
    head = [data.unit, f"% of {data.nice(data.reference)}", f"mean of {len(common)}", "over rung", "flags"]
    table = []
    for kernel, row in zip(kernels, every, strict=True):
        mean = data.mean(kernel) if kernel in data.kernels and len(common) > 1 else None
        base = data.builds_on(kernel)
        gain = data.gain(kernel, base, data.headline) if base else None
        table.append([
            three(data.rate(row['tflops'])), three(100 * row['ratio']), three(100 * mean) if mean else "",
            f"{gain_text(gain)} ({data.brief(base)})" if gain and base else "", letters(row),
        ])  # fmt: skip
    kept = [index for index in range(len(head)) if any(line[index] for line in table)]
    kept = [index for index in kept if index not in (2, 3)] if data.in_column else kept
    figure, (axes,) = panels(data, 1, inches(1.45, 0.9 * size) * len(kernels) + inches(6 if data.in_column else 5, size))
    broken = []
    for place, (kernel, row) in enumerate(zip(kernels, every, strict=True)):
        value, low, high = _ends(*(float(data.rate(row[name])) for name in ("tflops", "tflops_low", "tflops_high")))
        hatch = "...." if row["as_warm"] else hatches(row)
        axes.barh(
            place, value, THICK, color=_colour(data, kernel), hatch=hatch, edgecolor="#ffffff", lw=0, zorder=2, label=kernel
        )
        axes.plot([low, high], [place] * 2, "|-", color=INTERVAL, ms=0.4 * size, mew=0.1 * size, lw=0.1 * size, zorder=3)
        broken.append((float(place), THICK, value))
    _rows(axes, data, kernels)
    ends = rows["tflops_high"].where(np.isfinite(rows["tflops_high"]), rows["tflops"])
    axes.set_xlim(0, 1.08 * data.rate(longest(rows.assign(end=ends), "end")))
    break_bars(axes, broken, size)
    axes.set_xlabel(data.unit)
    cells(axes, [head[index] for index in kept], [[line[index] for index in kept] for line in table], 0.85 * size)
    beyond = any(length > axes.get_xlim()[1] for _, _, length in broken)
    handles: list[Patch] = [HATCHED] if any(map(hatches, every)) else []
    caption = [
        f"Red: {data.kind_of_interval()}.",
        "≈: not distinguishable." if any("≈" in line[index] for line in table for index in kept) else "",
        "White cuts: the bar is longer than the axis, and its number is written in it." if beyond else "",
        _not_ranked(data, kernels),
        "Dotted bars: timed warm, since cold makes no difference." if rows["as_warm"].any() else "",
        letters_note(every),
    ]
    details = [
        f"Percentages are ratios to {data.nice(data.reference)}; gains are over the rung in parentheses, in the same rounds.",
        f"The mean is the geometric mean over the {len(common)} problems that every rung has: {', '.join(common)}.".replace(
            "x", "×"
        )
        if common
        else "",
        "Configurations and ties: best.csv.",
        marks_note(every),
    ]
    title = f"Throughput at {data.where()} on {data.environment['name']}, {data.element_type}, {data.state}"
    return finish(figure, data, title, handles, caption, details)


def energy(data: View) -> Figure:
    """Draw the energy of a GEMM by every rung and baseline, at the ladder's problem and the largest others where it was counted.

    The line is the range of the processes. A point has no line if only one process counted. The caption names those without energy.
    """
    every, size = data.best[data.best["energy_j"].notna()], text_size(data.width)
    work = every.assign(work=every["m"].astype(float) * every["n"] * every["k"]).sort_values(
        "work", ascending=False, kind="stable"
    )
    problems = list(dict.fromkeys([*work.loc[work["problem"] == data.headline, "problem"], *work["problem"]]))[:MOST]
    rows = every[every["problem"].isin(problems)]
    kernels = [kernel for kernel in [*data.kernels, *data.baselines] if kernel in set(rows["kernel"])]
    height = inches(1.45, 0.9 * size) * len(kernels) + inches(5, size)
    figure, grid = panels(data, len(problems), height, most=MOST)
    for axes, problem in zip(grid, problems, strict=True):
        of: dict[str, Mapping[str, Any]] = {row["kernel"]: row for row in rows[rows["problem"] == problem].to_dict("records")}
        table = []
        for place, kernel in enumerate(kernels):
            row = of.get(kernel)
            table.append([three(row["energy_j"]), three(1000 * row["tflop_per_j"]), letters(row)] if row else ["", "", ""])
            if row:
                ends = [row["energy_low_j"], row["energy_high_j"]]
                axes.plot(ends, [place] * 2, "|-", color=INTERVAL, ms=0.4 * size, mew=0.1 * size, lw=0.1 * size, zorder=3)
                axes.plot(row["energy_j"], place, "o", color=_colour(data, kernel), ms=0.5 * size, zorder=4, label=kernel)
        _rows(axes, data, kernels, axes is grid[0] or data.in_column)
        axes.set_title(problem.replace("x", "×"))
        axes.set_xlabel("J per GEMM, whole board (log)")
        logarithmic(axes, "x")
        wide = [0, 1, 2] if any(line[2] for line in table) else [0, 1]
        wide = wide if len(problems) == 1 else [0, *wide[2:]]
        cells(
            axes, [("J", "GFLOP/s/W", "flags")[index] for index in wide], [[line[i] for i in wide] for line in table], 0.85 * size
        )
    none = data.best[data.best["energy_j"].isna() & data.best["problem"].isin(problems)].to_dict("records")
    missing = ", ".join(f"{data.brief(str(row['kernel']))} at {row['problem']}" for row in none)
    records, single = rows.to_dict("records"), rows["energy_low_j"].isna().any()
    caption = [
        "Red: range of the processes that counted energy.",
        "Without a line: counted in one process." if single else "",
        _not_ranked(data, kernels),
        missing and f"Not counted: {missing}.",
        letters_note(records),
    ]
    others = every["problem"].nunique() - len(problems)
    details = [f"{others} other problems: best.csv." if others else "", marks_note(records)]
    title = f"Energy of a GEMM on {data.environment['name']}, {data.element_type}, {data.state}"
    return finish(figure, data, title, [], caption, details, "Lines: the range of the processes in which energy was counted.")
