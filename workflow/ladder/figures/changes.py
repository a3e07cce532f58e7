"""Draw what is faster and slower in one dataset than in another."""

import numpy as np
import pandas as pd
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ladder.figures.data import View
from ladder.figures.layout import finish, inches, panels, problems, rows_of

FASTER, SLOWER, WHITE = "#2166ac", "#b2182b", "#ffffff"
"""Blue and red, which color-blind readers can distinguish. Each cell also shows its value as
text.
"""
MOST = {"kernel": 40, "problem": 9}
"""The most kernels and problems: those that changed the most."""
FULL = 10.0
"""The change in percent from which a cell has its full color."""


def changes(data: View, rows: pd.DataFrame, other: str) -> Figure:
    """Draw the change of each kernel's rate in percent: one cell per kernel and problem, one panel
    per state.

    Cells that are faster or slower have a color. `rows` are those of `compare.changes`, `data` is
    the first of its datasets, and
    `other` is the name of the second.
    """
    every = rows[["kernel", "problem"]].nunique()
    counts = {name: int((rows["verdict"] == name).sum()) for name in ("faster", "slower")}
    change = (rows["ratio"] - 1).abs().where(rows["verdict"].isin(list(counts)), 0)
    for column, count in MOST.items():
        most = change.groupby(rows[column]).max().nlargest(count).index
        rows = rows[rows[column].isin(most)]
    kernels = [kernel for kernel in data.names if kernel in set(rows["kernel"])]
    labels = list(rows["problem"].unique())
    states = rows["state"].unique()
    figure, grid = panels(len(states), inches(1.4 * len(kernels) + 5))
    for axes, state in zip(grid, states, strict=True):
        colors = np.ones((len(kernels), len(labels), 3))
        for row in rows[rows["state"] == state].to_dict("records"):
            y, x = kernels.index(row["kernel"]), labels.index(row["problem"])
            change, distinguishable = 100 * (row["ratio"] - 1), row["verdict"] in counts
            if distinguishable:
                full = np.array(to_rgb(FASTER if change > 0 else SLOWER))
                colors[y, x] = 1 - (1 - full) * (0.25 + 0.75 * min(abs(change) / FULL, 1))
            color, weight = "#8f8f8f", "normal"
            if distinguishable:
                color, weight = WHITE if colors[y, x].mean() < 0.55 else "#111111", "bold"
            axes.text(
                x,
                y,
                f"{change:+.1f}" + ("?" if distinguishable and not row["sure"] else ""),
                ha="center",
                va="center",
                fontsize="small",
                fontweight=weight,
                color=color,
            )
        axes.imshow(colors, aspect="auto", interpolation="nearest")
        rows_of(axes, [data.nice(kernel) for kernel in kernels], 0.5)
        problems(axes, labels)
        axes.grid(visible=False)
        axes.set_title(state)
    handles = [
        Patch(color=FASTER, label="faster"),
        Patch(color=SLOWER, label="slower"),
        Patch(color="#dddddd", label="not distinguishable, or measure again: gray text"),
    ]
    notes = [
        *(
            f"Of {count} {name}s, {MOST[name]}."
            for name, count in every.items()
            if count > MOST[name]
        ),
        f"Change of each kernel's throughput in percent. B is {other}. ?: not significant after "
        "correction for the number of rows.",
    ]
    title = "From A to B, {faster} values are faster and {slower} slower".format(**counts)
    return finish(figure, data, title, handles, notes, ["A is:"])
