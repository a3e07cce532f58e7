"""Draw the sweep of a kernel's configurations."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ladder.figures.data import SIZE, WIDTH, View, lettered, span, three
from ladder.figures.labels import LETTER
from ladder.figures.labels import cells as write_cells
from ladder.figures.layout import finish, inches, panels, problems
from ladder.figures.selection import evenly

LOWEST = 0.1
"""The share of the cells, at the low end, that share one color."""
STEPS = 4
"""The colors of the legend."""
MOST = 30
"""The most configurations of a kernel."""


def parameters(data: View, kernel: str) -> Figure:
    """Draw heat maps of squares and of other shapes: a row per configuration, a column per problem.

    The text of a cell is the rate, unless rates would overlap; its color is the share of the
    problem's best rate.
    """
    rows = data.summary[data.summary["kernel"] == kernel]
    rated, every = rows[rows["tflops"].notna()], rows.sort_values(["m", "n", "k"], kind="stable")
    square = every["problem"].str.fullmatch(r"\d+")
    shapes = {
        "squares": list(dict.fromkeys(every.loc[square, "problem"])),
        "other shapes": list(dict.fromkeys(every.loc[~square, "problem"])),
    }
    shapes = {name: listed for name, listed in shapes.items() if listed}
    share = 100 * rated["tflops"] / rated.groupby("problem")["tflops"].transform("max")
    lowest = min(float(np.floor(share.quantile(LOWEST))), 99.0) if len(rated) else 0.0
    have, sampled = set(rated["configuration"]), ""
    order = [name for name in dict.fromkeys(rows["configuration"]) if name in have]
    if len(order) > MOST:
        ranked = share.groupby(rated["configuration"]).sum().sort_values(ascending=False).index
        best, others = ranked[: MOST // 2], ranked[MOST // 2 :]
        order = [*best, *others[evenly(len(others), MOST // 2)]]
        sampled = (
            f"The {len(best)} of {len(ranked)} configurations with the highest mean, and "
            f"{MOST // 2} of the others, evenly spaced in that order."
        )
        rated = rated[rated["configuration"].isin(order)]
    settings = [dict(part.split("=") for part in name.split() if "=" in part) for name in order]
    names = list(dict.fromkeys(name for setting in settings for name in setting))
    table_left = [[setting.get(name, "") for name in names] for setting in settings]
    size = SIZE
    longest = max(len(problem) for across in shapes.values() for problem in across)
    below = 0.5 * longest * SIZE / 72  # problem labels are slanted
    above = 0.7 * size / 72 * max(map(len, names), default=0)  # names of parameters stand upright
    height = inches(1.3) * max(len(order), 7) + 0.6 + below + above
    figure, grid = panels(len(shapes), height)

    def spread(values: pd.Series, across: list[str]) -> pd.DataFrame:
        return (
            rated.assign(value=values)
            .pivot(index="configuration", columns="problem", values="value")
            .reindex(order, columns=across)
        )

    texts = [lettered(f"{data.rate(row['tflops']):.3g}", row) for row in rated.to_dict("records")]
    widest = LETTER * size / 72 * max(map(len, texts), default=1)
    room = grid[0].get_position().width * WIDTH / widest  # for so many texts beside each other

    for axes, (title, across) in zip(grid, shapes.items(), strict=True):
        if len(rated):
            text = (
                spread(pd.Series(texts, rated.index), across).fillna("")
                if len(across) <= room
                else None
            )
            sns.heatmap(
                spread(share, across),
                annot=text,
                fmt="",
                cmap="cividis",
                vmin=lowest,
                vmax=100,
                ax=axes,
                linewidths=0.5,
                xticklabels=False,
                yticklabels=False,
                annot_kws={"fontsize": size},
                cbar=False,
            )
            for cell in axes.texts:  # none leaves the panel: they need no measuring
                cell.set_in_layout(False)
        axes.set_title(title)
        problems(axes, across, 0.5, 0.4)
        axes.set(xlabel="", ylabel="")
        axes.set_yticks([])
        if names:
            write_cells(axes, names, table_left, size, left=True, first=0.5)
    failed = rows.loc[rows["tflops"].isna(), "status"].value_counts()
    raced, finished = rated[rated["stop"] == "race"], rated[rated["stop"] != "race"]
    numbers = (
        f"n = {span(finished['samples'])} samples a cell" if len(finished) else "No cell finished"
    )
    numbers += f", n = {span(raced['samples'])} where it was eliminated." if len(raced) else "."
    lost = (
        f"Not drawn: {', '.join(f'{count} {status}' for status, count in failed.items())} "
        "(summary.csv)."
        if len(failed)
        else ""
    )
    hidden = (
        ""
        if max(map(len, shapes.values())) <= room
        else "Without numbers where they would overlap: summary.csv has them."
    )
    caption = [
        sampled,
        f"Color: the share of the problem's best, in the sweep of one process; the darkest is "
        f"{lowest:.0f} % or less. {numbers}",
        hidden,
        lost,
    ]
    title = f"{data.nice(kernel)}: {data.unit} by configuration"
    if len(rated):
        means = share.groupby(rated["configuration"]).mean()
        best, worst = three(means.max()), three(means.min())
        title = (
            f"{data.nice(kernel)}, {data.unit}: configurations have {worst} to {best} % of the best"
        )
    details = ["Values of different rounds; their intervals are within-run."]
    steps = np.linspace(0, 1, STEPS)
    handles = [
        Patch(color=color, label=f"{lowest + step * (100 - lowest):.0f} %")
        for step, color in zip(steps, mpl.colormaps["cividis"](steps), strict=True)
    ]
    return finish(figure, data, title, handles, caption, details, intervals="", lettered=rated)
