"""Draw how far results are from float64, and at what speed."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ladder.core.types import ELEMENT_TYPES
from ladder.figures.data import View
from ladder.figures.layout import finish, logarithmic, panels, text_size
from ladder.figures.scaling import points

MOST_SHAPES, IMAGE_DPI = 1000, 150
"""The most points of a panel that are drawn as shapes, and the resolution of the image that replaces more.

The image makes an SVG file several times smaller.
"""


def accuracy(data: View) -> Figure:
    """Draw the errors of the best configuration of every kernel and baseline against K, and against its speed."""
    rows = data.best[data.best["frobenius_error"].notna()].assign(marks="")  # marks are about times
    figure, grid = panels(data, 3, 1.35 if data.in_column else 2.9)
    colours, markers, size = data.colours(), data.markers(), 0.55 * text_size(data.width)
    described = (
        ("k", "frobenius_error", "K (log)", r"$|C-R|_F\,/\,|R|_F$ (log)", "Frobenius error"),
        ("k", "component_error", "K (log)", r"$|C-R|\,/\,(|A||B|)$ (log)", "largest error of an element"),
        (
            "ratio",
            "frobenius_error",
            f"% of {data.nice(data.reference)}'s rate (log)",
            r"$|C-R|_F\,/\,|R|_F$ (log)",
            "error and speed",
        ),
    )
    order = [*data.kernels, *data.baselines]
    for axes, (x, y, across, up, title) in zip(grid, described, strict=True):
        for place, kernel in enumerate(order):
            mine = rows[(rows["kernel"] == kernel) & (rows[y] > 0)]
            aside = (
                1.0 + 0.5 * (place / max(len(order) - 1, 1) - 0.5) if x == "k" else 100.0
            )  # side by side, because many problems share a K
            if len(mine):
                points(axes, aside * mine[x], mine[y], mine, colours[kernel], markers[kernel], size)
        if y == "component_error":
            bounds = rows.dropna(subset="component_bound").sort_values("k")
            for _, bound in bounds.groupby([bounds["precision"].fillna(""), "distribution"]):
                axes.plot(bound["k"], bound["component_bound"], color="#b22222", ls=":", zorder=2)
        axes.set(xlabel=across, ylabel=up, title=title)
        logarithmic(axes)
        logarithmic(axes, "x")
    bound = Line2D([], [], color="#b22222", ls=":", label="the bound of an element")
    notes = [
        "Against float64; the kernels of a K side by side. Errors of the sweep's check, of each problem's best configuration."
    ]
    handles = [*data.handles(rows, lines=False), bound]
    finish(figure, data, f"Accuracy on {data.environment['name']}", handles, notes)
    if len(rows) > MOST_SHAPES:
        figure.set_dpi(IMAGE_DPI)
        for collection in (collection for axes in figure.axes for collection in axes.collections):
            collection.set_rasterized(True)
    return figure


def distributions(data: View) -> Figure:
    """Draw, for each distribution, the largest error of every kernel and baseline over all problems, in units of roundoff."""
    rows = data.best[data.best["frobenius_error"].notna()].assign(marks="")  # marks are about times
    figure, grid = panels(data, 2, 3.4)
    colours, markers, size = data.colours(), data.markers(), 0.55 * text_size(data.width)
    roundoff = ELEMENT_TYPES[data.element_type].unit_roundoff
    names, order = list(dict.fromkeys(rows["distribution"])), [*data.kernels, *data.baselines]
    for axes, column, title in zip(
        grid, ("frobenius_error", "component_error"), ("Frobenius error", "largest error of an element"), strict=True
    ):
        for place, kernel in enumerate(order):
            mine = rows[(rows["kernel"] == kernel) & (rows[column] > 0)].sort_values(column).groupby("distribution").tail(1)
            at = mine["distribution"].map(names.index) + 0.7 * ((place + 0.5) / len(order) - 0.5)
            points(axes, at, mine[column] / roundoff, mine, colours[kernel], markers[kernel], size)
        axes.set_xticks(np.arange(len(names)), names, rotation=90)
        axes.set(xlabel="", ylabel="units of roundoff (log)", title=title)
        logarithmic(axes)
    kept = rows[rows["precision"].isna()].groupby("distribution")[["component_bound", "k"]].max()
    for column, scale, dash in (("component_bound", 1 / roundoff, ":"), ("k", 1, "-")):
        bounds = [kept[column].get(name, np.nan) * scale for name in names]
        grid[1].hlines(bounds, np.arange(len(names)) - 0.45, np.arange(len(names)) + 0.45, color="#b22222", ls=dash, zorder=2)
    lines = [
        Line2D([], [], color="#b22222", ls=":", label="the bound of an element"),
        Line2D([], [], color="#b22222", ls="-", label="K, the a-priori bound of any order of summation"),
    ]
    sizes = ", ".join(dict.fromkeys(rows["m"].astype(str) + "×" + rows["n"].astype(str)))
    notes = [
        f"Against float64: of each kernel the largest over all problems of a distribution, M×N = {sizes}, K = {rows['k'].min()} to "
        f"{rows['k'].max()}. An element's error is relative to that element of |A||B|. Not drawn: what is exact."
    ]
    handles = [*data.handles(rows, lines=False), *lines]
    return finish(figure, data, f"Accuracy by distribution on {data.environment['name']}", handles, notes)
