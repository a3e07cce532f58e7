"""Draw the fastest rung of every problem of many, beside the reference and its fastest algorithm."""

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ladder.core.stats import geometric_mean
from ladder.figures.data import View
from ladder.figures.layout import finish, logarithmic, panels
from ladder.model.problem import Problem

ACCURATE = 1.05
"""An error counts as no larger than the reference's up to this factor."""
LARGE = 0.55
"""The share of the measured peak from which on a problem counts as large."""
ALGORITHM = "cublaslt_best"
COLORS = "#0072b2", "#56b4e9", "#d55e00"
TICKS = 0.1, 0.2, 0.5, 0.8, 1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100


def reference_errors(data: View) -> pd.Series:
    """Return the error of the reference on each problem."""
    reference = data.best[data.best["kernel"] == data.reference]
    return reference.set_index("problem")["frobenius_error"]


def fastest_rungs(data: View) -> list[Any]:
    """Return the row of `best` of the fastest rung on every problem, in its fastest configuration.

    Rungs whose error is at most `ACCURATE` times cuBLAS's have precedence. There may be none:
    cuBLAS may split K into more and shorter sums.
    """
    errors = reference_errors(data)
    rungs = data.best[data.best["kernel"].isin(data.kernels) & data.best["ratio"].notna()]
    precise = rungs["frobenius_error"] <= ACCURATE * rungs["problem"].map(errors)
    by_merit = rungs.assign(precise=precise).sort_values(["precise", "ratio"])
    last = by_merit.drop_duplicates("problem", keep="last").set_index("problem", drop=False)
    return [last.loc[problem] for problem in data.order if problem in last.index]


def over_algorithm(data: View, row: Mapping[str, Any]) -> float:
    """Return a rung's speedup over the fastest algorithm that was timed, in the rounds of both;
    infinite if none was timed.
    """
    both = data.over(row["kernel"], ALGORITHM, row["problem"])
    return float(both["ratio"]) if both else math.inf


def aligned_to(row: Mapping[str, Any]) -> int:
    """Return the bytes, 16 at most, at whose multiples all rows of a problem's operands begin."""
    lying = {"padding": row["padding"], "layout": row.get("layout", "nn")}
    problem = Problem(row["m"], row["n"], row["k"], row["element_type"], **lying)
    leading = problem.lda, problem.ldb, problem.ldc
    return math.gcd(16, *map(operator.mul, problem.sizes, leading))


def large(data: View) -> float:
    """Return the throughput in TFLOP/s from which on a problem counts as large."""
    highest = data.peak or data.rate(data.best["tflops"].max())
    return float(LARGE * highest * data.unit_size)


def groups(data: View, rows: Sequence[Any]) -> list[list[tuple[Any, float, float]]]:
    """Return rungs that are fastest on problems in three groups: large ones, smaller ones, and
    those whose rows do not begin at 16 bytes.

    Each comes with its speedups over the reference, and over the faster one of the reference and
    the fastest algorithm that was timed.
    """
    found: list[list[tuple[Any, float, float]]] = [[], [], []]
    for row in rows:
        place = 2 if aligned_to(row) < 16 else 0 if row["tflops"] >= large(data) else 1
        ratio = float(row["ratio"])
        found[place].append((row, ratio, min(ratio, over_algorithm(data, row))))
    return found


def shapes(data: View) -> Figure:
    """Draw the speedup of the fastest rung of every problem against the reference's throughput."""
    rows, reference = fastest_rungs(data), data.nice(data.reference)
    found = groups(data, rows)
    figure, (axes,) = panels(1, 4.6)
    what = (
        f"large ({data.rate(large(data)):.0f} {data.unit} or more)",
        "smaller",
        "whose rows do not begin at 16 bytes",
    )
    handles, timed = [], data.best["kernel"].eq(ALGORITHM).any()
    for group, color, name in zip(found, COLORS, what, strict=True):
        for row, *ratios in group:
            x = data.rate(row["tflops"] / row["ratio"])
            shown = ratios[: 1 + timed]
            axes.plot([x] * len(shown), shown, color=color, lw=1.0, zorder=2)
            for y, face in zip(shown, (color, "#ffffff"), strict=False):
                axes.plot(x, y, "o", color=color, mfc=face, ms=7.0, mew=1.6, zorder=3)
        if group:
            both = list(zip(*(ratios[: 1 + timed] for _, *ratios in group), strict=True))
            means = ", ".join(f"{geometric_mean(list(of)):.2f}" for of in both)
            label = f"{len(group)} {name}: {means}"
            handles.append(Line2D([], [], ls="", marker="o", color=color, label=label))
    axes.axhline(1, color="#000000", zorder=1)
    axes.set(xlabel=f"{reference}, {data.unit} (log)", ylabel=f"× {reference} (log)")
    logarithmic(axes, "x")
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    ticks = [tick for tick in TICKS if low <= tick <= high]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    every = [pair for group in found for _, *pair in group]
    ahead, of_fastest = (sum(ratio >= 1 for ratio in ratios) for ratios in zip(*every, strict=True))
    title = f"{data.element_type}: rungs are ahead of {reference} on {ahead} of {len(rows)} shapes"
    caption = ["Dots: the fastest rung of a shape. Numbers: geometric means of the group."]
    if timed:
        title += f", of its fastest algorithm on {of_fastest}"
        caption.append(f"Filled: over {reference}'s choice; hollow: over its fastest algorithm.")
    return finish(figure, data, title, handles, caption)
