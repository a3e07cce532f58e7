"""Draw the fastest rung of every problem of many, beside the reference and its fastest algorithm."""

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from ladder.core.stats import geometric_mean
from ladder.figures.data import SIZE, View
from ladder.figures.labels import cells
from ladder.figures.layout import finish, inches, panels, rows_of
from ladder.model.problem import Problem

ACCURATE = 1.05
"""An error counts as no larger than the reference's up to this factor."""
LARGE = 0.55
"""The share of the measured peak from which on a problem counts as large."""
ALGORITHM = "cublaslt_best"
COLORS = "#0072b2", "#56b4e9", "#d55e00"
GROUPS = "large", "smaller", "unaligned"
NEAR = 0.2, 0.3, 0.5, 0.8, 1, 1.2, 1.5, 2, 3, 4, 5
TICKS = 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100


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
    """Draw the speedups of the fastest rungs: a dot for each problem, and a row for each layout and
    group with how often a rung is ahead, the least speedup and the geometric mean.
    """
    rows, reference = fastest_rungs(data), data.nice(data.reference)
    timed = data.best["kernel"].eq(ALGORITHM).any()
    layouts = list(dict.fromkeys(row.get("layout", "nn") for row in rows))
    found, labels = [], []
    for layout in layouts:
        of_layout = [row for row in rows if row.get("layout", "nn") == layout]
        for group, color, name in zip(groups(data, of_layout), COLORS, GROUPS, strict=True):
            for place, ratios in enumerate([*zip(*group, strict=True)][1 : 2 + timed]):
                found.append((ratios, color, "#ffffff" if place else color))
                labels.append("" if place else f"{layout} {name}" if layouts[1:] else name)
    figure, (axes,) = panels(1, inches(1.35 * len(found) + 3))
    for place, (ratios, color, face) in enumerate(found):
        axes.scatter(ratios, [place] * len(ratios), 50, face, edgecolors=color, zorder=3)
        if labels[place]:
            axes.axhline(place - 0.5, color="#cccccc", lw=0.8)
    rows_of(axes, labels, 0.5)
    axes.grid(axis="y", visible=False)
    axes.axvline(1, color="#000000", zorder=2)
    axes.set(xlabel=f"× {reference} (log)", xscale="log")
    low, high = axes.get_xlim()
    ticks = [tick for tick in (TICKS if high > 8 * low else NEAR) if low <= tick <= high]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    ahead = [sum(ratio >= 1 for ratio in ratios) for ratios, *_ in found]
    table = [
        (f"{ahead[place]} of {len(ratios)}", f"{min(ratios):.2f}", f"{geometric_mean(ratios):.2f}")
        for place, (ratios, *_) in enumerate(found)
    ]
    cells(axes, ("ahead", "least", "mean"), table, SIZE)
    chosen = sum(ahead[:: 1 + timed])
    title = f"{data.element_type}: rungs are ahead of {reference} on {chosen} of {len(rows)} shapes"
    caption = [
        "Dots: the fastest rung of a shape; mean: geometric.",
        f"Large: {data.rate(large(data)):.0f} {data.unit} or more; unaligned: rows do not begin at "
        "16 bytes.",
    ]
    if timed:
        title += f", of its fastest algorithm on {sum(ahead[1::2])}"
        caption.append(f"Filled: over {reference}'s choice; hollow: over its fastest algorithm.")
    return finish(figure, data, title, (), caption)
