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
MOST = 3
"""The most problems of the figure of energy."""


def _rows(axes: Axes, data: View, kernels: Sequence[str], named: bool = True) -> None:
    """Give each kernel a row, and draw a line above the baselines and kernels that are not
    ranked.
    """
    rows_of(axes, [data.nice(kernel) if named else "" for kernel in kernels])
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


def _interval(axes: Axes, low: float, high: float, place: int) -> None:
    axes.plot([low, high], [place] * 2, "|-", color=INTERVAL, ms=4.0, mew=1.0, lw=1.0, zorder=3)


def _write_table(axes: Axes, table: Sequence[Mapping[str, str]], names: Sequence[str]) -> None:
    """Write the named columns beside the panel, but those without text."""
    kept = [name for name in names if any(row[name] for row in table)]
    cells(axes, kept, [[row[name] for name in kept] for row in table], 8.5)


def ladder(data: View) -> Figure:
    """Draw every rung at the ladder's problem: its throughput, the share of the reference's, and
    its gain over the rung that it builds on.
    """
    rows, common = data.at(data.headline), data.common()
    kernels, every = [str(kernel) for kernel in rows.index], rows.to_dict("records")
    share, mean_of = f"% of {data.nice(data.reference)}", f"mean of {len(common)}"
    table = []
    for kernel, row in zip(kernels, every, strict=True):
        mean = data.mean(kernel) if kernel in data.kernels and len(common) > 1 else None
        base = data.builds_on(kernel)
        gain = data.gain(kernel, base, data.headline) if base else None
        table.append(
            {
                data.unit: three(data.rate(row["tflops"])),
                share: three(100 * row["ratio"]),
                mean_of: three(100 * mean) if mean else "",
                "over rung": f"{gain_text(gain)} ({data.brief(base)})" if gain and base else "",
                "flags": letters(row),
            }
        )
    figure, (axes,) = panels(1, inches(1.45, 9.0) * len(kernels) + inches(5))
    values, lows, highs = ends(rows, RATE, 1 / data.unit_size)
    for place, (kernel, row) in enumerate(zip(kernels, every, strict=True)):
        hatch = "...." if row["as_warm"] else hatches(row)
        color = _color(data, kernel)
        axes.barh(
            place,
            values[place],
            THICK,
            color=color,
            hatch=hatch,
            edgecolor="#ffffff",
            lw=0,
            zorder=2,
            label=kernel,
        )
        _interval(axes, lows[place], highs[place], place)
    _rows(axes, data, kernels)
    axes.set_xlim(0, 1.08 * longest(rows.assign(end=highs), "end"))
    broken = [(float(place), THICK, value) for place, value in enumerate(values)]
    break_bars(axes, broken)
    axes.set_xlabel(data.unit)
    _write_table(axes, table, list(table[0]))
    beyond = any(length > axes.get_xlim()[1] for _, _, length in broken)
    handles: list[Patch] = [HATCHED] if any(map(hatches, every)) else []
    caption = [
        f"Red: {data.kind_of_interval()}.",
        "≈: not distinguishable." if any("≈" in row[name] for row in table for name in row) else "",
        "White cuts: the bar is longer than the axis, and its number is written in it."
        if beyond
        else "",
        _not_ranked(data, kernels),
        "Dotted bars: timed warm, since cold makes no difference." if rows["as_warm"].any() else "",
    ]
    listed = ", ".join(common).replace("x", "×")
    details = [
        f"Percentages are ratios to {data.nice(data.reference)}; gains are over the rung in "
        "parentheses, in the same rounds.",
        f"The mean is the geometric mean over the {len(common)} problems that every rung has: "
        f"{listed}."
        if common
        else "",
        "Configurations and ties: best.csv.",
    ]
    title = f"Throughput at {data.where()} on {data.described}"
    return finish(figure, data, title, handles, caption, details, lettered=rows)


def energy(data: View) -> Figure:
    """Draw the energy of a GEMM by every rung and baseline, at the ladder's problem and the largest
    others where it was counted.

    The line is the range of the processes. A point has no line if only one process counted. The
    caption names those without energy.
    """
    every = data.best[data.best["energy_j"].notna()]
    work = every.assign(work=every["m"].astype(float) * every["n"] * every["k"])
    work = work.sort_values("work", ascending=False, kind="stable")
    problems = list(
        dict.fromkeys([*work.loc[work["problem"] == data.headline, "problem"], *work["problem"]])
    )[:MOST]
    rows = every[every["problem"].isin(problems)]
    have = set(rows["kernel"])
    kernels = [kernel for kernel in data.names if kernel in have]
    height = inches(1.45, 9.0) * len(kernels) + inches(5)
    figure, grid = panels(len(problems), height, most=MOST)
    for axes, problem in zip(grid, problems, strict=True):
        table = []
        for place, kernel in enumerate(kernels):
            row = data.best_rows.get((kernel, problem))
            table.append(dict.fromkeys(("J", "GFLOP/s/W", "flags"), ""))
            if row and pd.notna(row["energy_j"]):
                joules, per_joule = three(row["energy_j"]), three(1000 * row["tflop_per_j"])
                table[-1] = {"J": joules, "GFLOP/s/W": per_joule, "flags": letters(row)}
                _interval(axes, row["energy_low_j"], row["energy_high_j"], place)
                axes.plot(
                    row["energy_j"],
                    place,
                    "o",
                    color=_color(data, kernel),
                    ms=5.0,
                    zorder=4,
                    label=kernel,
                )
        _rows(axes, data, kernels, axes is grid[0])
        axes.set_title(problem.replace("x", "×"))
        axes.set_xlabel("J per GEMM, whole board (log)")
        logarithmic(axes, "x")
        _write_table(axes, table, list(table[0]) if len(problems) == 1 else ["J", "flags"])
    none = data.best[data.best["energy_j"].isna() & data.best["problem"].isin(problems)].to_dict(
        "records"
    )
    missing = ", ".join(f"{data.brief(str(row['kernel']))} at {row['problem']}" for row in none)
    single = rows["energy_low_j"].isna().any()
    caption = [
        "Red: range of the processes that counted energy.",
        "Without a line: counted in one process." if single else "",
        _not_ranked(data, kernels),
        missing and f"Not counted: {missing}.",
    ]
    others = every["problem"].nunique() - len(problems)
    details = [f"{others} other problems: best.csv." if others else ""]
    title = f"Energy of a GEMM on {data.described}"
    return finish(
        figure,
        data,
        title,
        [],
        caption,
        details,
        "Lines: the range of the processes in which energy was counted.",
        lettered=rows,
    )
