"""Draw how far results are from float64, and at what speed, by classes of kernels."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ladder.core.types import ELEMENT_TYPES
from ladder.figures.data import REFERENCE, SIZE, WIDTH, View, three
from ladder.figures.labels import name_points
from ladder.figures.layout import finish, inches, logarithmic, panels, rows_of
from ladder.model.baselines import is_baseline

ON_CUDA, ON_TENSOR, ROUNDED = "#4477aa", "#228833", ["#ee6677", "#aa3377", "#ccbb44"]
"""The colors of the classes of rungs, and of those that round their operands. The reference is
black.
"""
BOUND = ":"
FEW = 3
"""The most members of a class that all have a line and a name."""


def _classes(data: View) -> dict[str, tuple[list[str], str]]:
    """Return the kernels and baselines by how their sums are made: names of the classes, with the
    members and the color of each.
    """
    rows = data.whole.drop_duplicates("kernel").set_index("kernel")
    rounded = iter(ROUNDED)
    classes: dict[str, tuple[list[str], str]] = {}
    for kernel in data.names:
        row = rows.loc[kernel]
        if data.easier(row):
            name, color = f"rounded to {str(row['precision']).upper()}", ""
        elif is_baseline(kernel):
            name, color = data.nice(data.reference).split(",")[0], REFERENCE
        elif row["tensor_cores"]:
            name, color = "rungs on tensor cores", ON_TENSOR
        else:
            on_gpu = data.environment["kind"] == "cuda"
            name, color = "rungs on CUDA cores" if on_gpu else "rungs", ON_CUDA
        if name not in classes:
            classes[name] = [], color or next(rounded, REFERENCE)
        classes[name][0].append(kernel)
    return classes


def _handles(data: View, classes: Mapping[str, tuple[list[str], str]]) -> list[Line2D]:
    """Return the legend of the classes; those of up to three members name them."""
    entries = []
    for name, (members, color) in classes.items():
        briefs = [data.brief(kernel) for kernel in members]
        named = f" ({len(members)})" if len(members) > FEW else f": {', '.join(briefs)}"
        if briefs == [name]:
            named = ""
        entries.append(Line2D([], [], color=color, marker="o", label=f"{name}{named}"))
    return [
        *entries,
        Line2D(
            [], [], color="#666666", ls=BOUND, label="dotted: error bound of an element, by class"
        ),
    ]


def _against_k(
    axes: Axes, rows: pd.DataFrame, classes: Mapping[str, tuple[list[str], str]]
) -> None:
    """Draw the largest error of an element at each K: a line for each kernel of a class of up to
    `FEW`, for others the median with bars from the smallest to the largest error. Then draw the
    bound of an element, a line for each precision.
    """
    for members, color in classes.values():
        mine = rows[rows["kernel"].isin(members) & (rows["component_error"] > 0)]
        for _, drawn in mine.groupby("kernel" if len(members) <= FEW else lambda _: 0):
            at = drawn.groupby("k")["component_error"].agg(["min", "median", "max"]).sort_index()
            axes.vlines(at.index, at["min"], at["max"], color=color, lw=1.6, zorder=2)
            axes.plot(at.index, at["median"], "o-", color=color, ms=5.0, zorder=4)
    bounded = rows.dropna(subset="component_bound").sort_values("k")
    for _, bound in bounded.groupby(bounded["precision"].fillna(""), sort=False):
        color = next(
            color for members, color in classes.values() if bound["kernel"].iloc[0] in members
        )
        bound = bound.drop_duplicates("k")
        axes.plot(bound["k"], bound["component_bound"], color=color, ls=BOUND, zorder=3)


def accuracy(data: View) -> Figure:
    """Draw the errors of the best configurations by class: of elements against K, with their bound,
    and of matrices against speed.
    """
    rows = data.best[data.best["frobenius_error"].notna()]
    height = 3.6
    figure, (by_element, by_speed) = panels(2, height)
    classes = _classes(data)
    _against_k(by_element, rows, classes)
    by_element.set(
        title="largest error of an element", xlabel="K (log)", ylabel=r"$|C-R|\,/\,(|A||B|)$ (log)"
    )
    logarithmic(by_element)
    logarithmic(by_element, "x")
    named = []
    positive = rows[rows["frobenius_error"] > 0]
    speed = np.exp(np.log(positive["ratio"]).groupby(positive["kernel"]).mean())
    error = positive.groupby("kernel")["frobenius_error"].median()
    for members, color in classes.values():
        mine = [kernel for kernel in members if kernel in speed.index]
        for kernel in mine:
            x, y = 100 * float(speed[kernel]), float(error[kernel])
            by_speed.plot(x, y, "o", color=color, ms=6.0, zorder=4, label=kernel)
            shown = len(mine) <= FEW or kernel in (
                max(mine, key=speed.get),
                min(mine, key=speed.get),
            )
            named.append((x, y, data.brief(kernel) if shown else "", color))
    by_speed.set(
        title="error of the matrix, and speed: means of all problems",
        xlabel=f"% of {data.nice(data.reference)} (log)",
        ylabel=r"$|C-R|_F\,/\,|R|_F$ (log)",
    )
    logarithmic(by_speed)
    logarithmic(by_speed, "x")
    name_points(by_speed, named, SIZE, 0.75 * WIDTH, 0.7 * height)
    caption = [
        f"Against float64, operands {data.distribution}. Lines: medians; bars: from the smallest to "
        "the largest error of a class."
    ]
    details = [
        "Errors are those of the check of the sweep, for the best configuration of each problem.",
        "The panel of speed shows the geometric mean of the ratios and the median of the errors.",
    ]
    precise = error[error.index.isin(data.kernels)]
    title = "Errors against float64"
    if len(precise) and data.reference in error.index:
        best, reference = str(precise.idxmin()), data.nice(data.reference)
        title = f"{data.nice(best)} has {three(precise[best] / error[data.reference])} times the error of {reference}"
    return finish(figure, data, title, _handles(data, classes), caption, details)


def distributions(data: View) -> Figure:
    """Draw, for each distribution and class, the range of the kernels' largest errors of an element
    over all problems, in units of roundoff, and the bound.
    """
    rows = data.best[data.best["frobenius_error"].notna()]
    roundoff = ELEMENT_TYPES[data.element_type].unit_roundoff
    rows = rows.assign(
        error=rows["component_error"] / roundoff, bound=rows["component_bound"] / roundoff
    )
    names, classes = list(dict.fromkeys(rows["distribution"])), _classes(data)
    figure, (axes,) = panels(1, inches(1.8 * len(names) + 3))
    for place, (members, color) in enumerate(classes.values()):
        mine = rows[rows["kernel"].isin(members)]
        largest = mine.groupby(["distribution", "kernel"])["error"].max()
        largest = largest[largest > 0]
        bounds = mine.groupby("distribution")["bound"].max()
        aside = 0.8 * ((place + 0.5) / len(classes) - 0.5)
        for index, name in enumerate(names):
            y = index + aside
            if name in largest:
                values = largest[name]
                ends, middle = [values.min(), values.max()], float(values.median())
                axes.plot(ends, [y] * 2, "|-", color=color, ms=5.0, zorder=3)
                axes.plot(middle, y, "o", color=color, ms=6.0, zorder=4)
            axes.plot(bounds.get(name, np.nan), y, ">", color=color, mfc="none", ms=7.0, zorder=4)
    most = rows[rows["precision"].isna()].groupby("distribution")["k"].max().reindex(names)
    axes.vlines(most, np.arange(len(names)) - 0.45, np.arange(len(names)) + 0.45, color="#999999")
    rows_of(axes, names, 0.4)
    axes.set_xlabel("largest error of an element, units of roundoff (log)")
    logarithmic(axes, "x")
    sizes = ", ".join(dict.fromkeys(rows["m"].astype(str) + "×" + rows["n"].astype(str)))
    handles = [
        *_handles(data, classes)[:-1],
        Line2D([], [], ls="", marker=">", color="#666666", mfc="none", label="bound of the class"),
        Line2D([], [], color="#999999", label="K, the bound of any order of summation"),
    ]
    share = (rows["component_error"] / rows["component_bound"]).max()
    title = f"No element's error exceeds {100 * share:.2g} % of its bound"
    caption = [
        f"All problems of a distribution (M×N = {sizes}, K = {rows['k'].min()} to "
        f"{rows['k'].max()}): the median of a class, and its range. Not drawn: exact results."
    ]
    details = ["Against float64. An element's error is relative to that element of |A||B|."]
    return finish(figure, data, title, handles, caption, details)
