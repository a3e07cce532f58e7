"""Draw how far results are from float64, and at what speed, by classes of kernels."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ladder.core.types import ELEMENT_TYPES
from ladder.figures.data import REFERENCE, WIDTH, View
from ladder.figures.labels import name_points
from ladder.figures.layout import finish, logarithmic, panels
from ladder.model.baselines import is_baseline

ON_CUDA, ON_TENSOR, ROUNDED = "#4477aa", "#228833", ["#ee6677", "#aa3377", "#ccbb44"]
"""The colors of the classes of rungs, and of those that round their operands. The reference is
black.
"""
BOUND = ":"


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
        named = f" ({len(members)})" if len(members) > 3 else f": {', '.join(briefs)}"
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
    axes: Axes, rows: pd.DataFrame, column: str, classes: Mapping[str, tuple[list[str], str]]
) -> None:
    """Draw the median of each class at each K, and the range from its smallest to its largest
    error.
    """
    for members, color in classes.values():
        mine = rows[rows["kernel"].isin(members) & (rows[column] > 0)].groupby("k")[column]
        at = mine.agg(["min", "median", "max"]).sort_index()
        axes.fill_between(at.index, at["min"], at["max"], color=color, alpha=0.2, lw=0, zorder=2)
        axes.plot(at.index, at["median"], "o-", color=color, ms=3.0, zorder=4)


def _bounds(axes: Axes, rows: pd.DataFrame, classes: Mapping[str, tuple[list[str], str]]) -> None:
    """Draw the bound of an element against K, a line for each precision."""
    bounded = rows.dropna(subset="component_bound").sort_values("k")
    for _, bound in bounded.groupby(bounded["precision"].fillna(""), sort=False):
        color = next(
            color for members, color in classes.values() if bound["kernel"].iloc[0] in members
        )
        bound = bound.drop_duplicates("k")
        axes.plot(bound["k"], bound["component_bound"], color=color, ls=BOUND, zorder=3)


def accuracy(data: View) -> Figure:
    """Draw the errors of the best configurations by class: against K, and of each kernel against
    its speed.
    """
    rows = data.best[data.best["frobenius_error"].notna()]
    height = 3.2
    figure, grid = panels(3, height)
    classes = _classes(data)
    by_norm, by_element, by_speed = grid
    _against_k(by_norm, rows, "frobenius_error", classes)
    _against_k(by_element, rows, "component_error", classes)
    _bounds(by_element, rows, classes)
    by_norm.set(title="error of the matrix", ylabel=r"$|C-R|_F\,/\,|R|_F$ (log)")
    by_element.set(title="largest error of an element", ylabel=r"$|C-R|\,/\,(|A||B|)$ (log)")
    for axes in (by_norm, by_element):
        axes.set_xlabel("K (log)")
        logarithmic(axes)
        logarithmic(axes, "x")
    named = []
    positive = rows[rows["frobenius_error"] > 0]
    for members, color in classes.values():
        for kernel in members:
            mine = positive[positive["kernel"] == kernel]
            if len(mine):
                x, y = (
                    100 * float(np.exp(np.log(mine["ratio"]).mean())),
                    float(mine["frobenius_error"].median()),
                )
                by_speed.plot(x, y, "o", color=color, ms=5.0, zorder=4, label=kernel)
                named.append((x, y, data.brief(kernel), color))
    by_speed.set(
        title="error and speed, means of all problems",
        xlabel=f"% of {data.nice(data.reference)} (log)",
        ylabel=r"$|C-R|_F\,/\,|R|_F$ (log)",
    )
    logarithmic(by_speed)
    logarithmic(by_speed, "x")
    name_points(by_speed, named, 7.0, 0.75 * WIDTH / 3, 0.7 * height)
    caption = [
        f"Against float64, operands {data.distribution}. Lines: the median of a class; bands: from "
        "its smallest to its largest error."
    ]
    details = [
        "Errors are those of the check of the sweep, for the best configuration of each problem.",
        "The third panel shows the geometric mean of the ratios and the median of the errors.",
    ]
    return finish(
        figure, data, f"Accuracy on {data.device}", _handles(data, classes), caption, details
    )


def distributions(data: View) -> Figure:
    """Draw, for each distribution and class, the range of the kernels' largest errors over all
    problems, in units of roundoff.
    """
    rows = data.best[data.best["frobenius_error"].notna()]
    figure, grid = panels(2, 3.6)
    roundoff = ELEMENT_TYPES[data.element_type].unit_roundoff
    names, classes = list(dict.fromkeys(rows["distribution"])), _classes(data)
    for axes, column, title in zip(
        grid,
        ("frobenius_error", "component_error"),
        ("error of the matrix", "largest error of an element"),
        strict=True,
    ):
        for place, (members, color) in enumerate(classes.values()):
            largest = (
                rows[rows["kernel"].isin(members)].groupby(["distribution", "kernel"])[column].max()
                / roundoff
            )
            largest = largest[largest > 0]
            aside = 0.8 * ((place + 0.5) / len(classes) - 0.5)
            for index, name in enumerate(names):
                values = largest[name] if name in largest else largest[:0]
                if len(values):
                    axes.plot(
                        [index + aside] * 2,
                        [min(values), max(values)],
                        "_-",
                        color=color,
                        ms=4.0,
                        zorder=3,
                    )
                    axes.plot(
                        index + aside, float(np.median(values)), "o", color=color, ms=4.5, zorder=4
                    )
            if column == "component_error":
                bounds = (
                    rows[rows["kernel"].isin(members)]
                    .groupby("distribution")["component_bound"]
                    .max()
                    / roundoff
                )
                half = 0.4 / len(classes)
                at = np.arange(len(names)) + aside
                axes.hlines(
                    [bounds.get(name, np.nan) for name in names],
                    at - half,
                    at + half,
                    color=color,
                    ls=BOUND,
                    zorder=2,
                )
        axes.set_xticks(np.arange(len(names)), names, rotation=90)
        axes.set(xlabel="", ylabel="units of roundoff (log)", title=title)
        axes.set_xlim(-0.6, len(names) - 0.4)
        logarithmic(axes)
    most = rows[rows["precision"].isna()].groupby("distribution")["k"].max()
    ks = [most.get(name, np.nan) for name in names]
    grid[1].hlines(
        ks, np.arange(len(names)) - 0.45, np.arange(len(names)) + 0.45, color="#999999", zorder=1
    )
    sizes = ", ".join(dict.fromkeys(rows["m"].astype(str) + "×" + rows["n"].astype(str)))
    handles = [
        *_handles(data, classes),
        Line2D([], [], color="#999999", label="K, the a-priori bound of any order of summation"),
    ]
    caption = [
        f"Largest error of each kernel over all problems of a distribution (M×N = {sizes}, K = "
        f"{rows['k'].min()} to {rows['k'].max()}): "
        "the median of a class, and its range. Not drawn: exact results."
    ]
    details = ["Against float64. An element's error is relative to that element of |A||B|."]
    return finish(
        figure, data, f"Accuracy by distribution on {data.device}", handles, caption, details
    )
