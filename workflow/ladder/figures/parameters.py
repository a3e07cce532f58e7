"""Draw the sweep of a kernel's configurations."""

import textwrap

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from ladder.figures.data import View, lettered, marks_note, span
from ladder.figures.layout import PANEL, finish, inches, panels, problems, text_size

LOWEST = 0.1
"""The share of the cells, at the low end, that share one color."""
MANY = 9
"""The most problems of a panel that has another beside it."""


def parameters(data: View, kernel: str) -> Figure:
    """Draw heat maps of squares and of other shapes: a row per configuration, a column per problem.

    The text of a cell is the rate; its color is the share of the problem's best rate.
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
    lowest = float(np.floor(share.quantile(LOWEST))) if len(rated) else 0.0
    order = [name for name in dict.fromkeys(rows["configuration"]) if name in set(rated["configuration"])]
    names = {part.split("=")[0]: None for name in order for part in name.split() if "=" in part}
    size = 0.8 * text_size(data.width)
    labels = [" ".join(part.partition("=")[2] for part in name.split()) if names else name for name in order]
    labels = [textwrap.fill(label, int(0.22 * PANEL * 72 / (0.6 * size))) for label in labels]  # leave room for the cells
    lines = max((label.count("\n") + 1 for label in labels), default=1)
    longest = max(len(problem) for across in shapes.values() for problem in across)
    below = 0.5 * longest * text_size(data.width) / 72  # problem labels are slanted
    height = inches(1.35 * lines, size) * max(len(order), 7 // lines) + 0.6 + below
    figure, grid = panels(data, len(shapes), height, 1 if max(map(len, shapes.values())) > MANY else 3)

    def table(values: pd.Series, across: list[str]) -> pd.DataFrame:
        return (
            rated.assign(value=values)
            .pivot(index="configuration", columns="problem", values="value")
            .reindex(order, columns=across)
        )

    cells = [lettered(f"{data.rate(row['tflops']):.3g}", row) for row in rated.to_dict("records")]

    for axes, (title, across) in zip(grid, shapes.items(), strict=True):
        if len(rated):
            text = table(pd.Series(cells, rated.index), across).fillna("")
            sns.heatmap(
                table(share, across), annot=text, fmt="", cmap="cividis", vmin=min(lowest, 99), vmax=100, ax=axes,
                linewidths=0.5, xticklabels=False, yticklabels=False, annot_kws={"fontsize": size},
                cbar_kws={"label": "% of best", "extend": "min", "aspect": 30},
            )  # fmt: skip
        axes.set_title(title)
        problems(axes, across, 0.5, 0.4)
        axes.set(xlabel="", ylabel="")
        axes.set_yticks(np.arange(len(order)) + 0.5, labels, rotation=0, fontsize=size)
    failed = rows.loc[rows["tflops"].isna(), "status"].value_counts()
    raced, finished = rated[rated["stop"] == "race"], rated[rated["stop"] != "race"]
    notes = [f"Rows: {' '.join(names)}."] if names else []
    notes += ["Colour: the share of the problem's best. The sweep: one process, rates of different rounds, within-run."]
    notes += (
        [f"Not drawn: {', '.join(f'{count} {status}' for status, count in failed.items())} (summary.csv)."] if len(failed) else []
    )
    numbers = f"n = {span(finished['samples'])} samples a cell" if len(finished) else "No cell finished"
    numbers += f", n = {span(raced['samples'])} where it lost the race." if len(raced) else "."
    notes += [numbers, marks_note(rated.to_dict("records"))]
    return finish(figure, data, f"{data.nice(kernel)}: {data.unit} by configuration", notes=notes, intervals="")
