"""How far results are from float64, and at what speed."""

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ladder.figures.dataset import Dataset
from ladder.figures.page import finish, logarithmic, panels, text_size
from ladder.figures.scaling import points


def accuracy(data: Dataset) -> Figure:
    """The errors of every kernel's and baseline's best configuration against K, and against its speed."""
    rows = data.best[data.best["frobenius_error"].notna()].assign(marks="")  # which are of times
    figure, grid = panels(data, 3, 2.9)
    colours, markers, size = data.colours(), data.markers(), 0.55 * text_size(data.width)
    described = (
        ("k", "frobenius_error", "K (log)", r"$|C-R|_F\,/\,|R|_F$ (log)", "Frobenius error"),
        ("k", "component_error", "K (log)", r"largest $|C-R|\,/\,(|A||B|)$ (log)", "largest error of an element"),
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
            )  # side by side: many problems share a K
            if len(mine):
                points(axes, aside * mine[x], mine[y], mine, colours[kernel], markers[kernel], size)
        if y == "component_error":
            bounds = rows.dropna(subset="component_bound").sort_values("k")
            for _, bound in bounds.groupby(bounds["precision"].fillna("")):
                axes.plot(bound["k"], bound["component_bound"], color="#b22222", ls=":", zorder=2)
        axes.set(xlabel=across, ylabel=up, title=title)
        logarithmic(axes)
        logarithmic(axes, "x")
    bound = Line2D([], [], color="#b22222", ls=":", label="the bound that an element must keep")
    notes = [
        "Against float64; the kernels of a K side by side. Errors of the sweep's check, of each problem's best configuration."
    ]
    return finish(figure, data, f"Accuracy on {data.environment['name']}", [*data.handles(rows, lines=False), bound], notes)
