"""Draw the headline: every rung as a share of the baseline's throughput at the ladder's problem."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ladder.figures.data import WIDTH, View
from ladder.figures.layout import finish, inches, rows_of
from ladder.model.kernel_file import known

BEYOND = 125.0
"""The share in percent from which on a bar is in the panel beyond the break of the axis."""
FASTER, SLOWER = "#009e73", "#56b4e9"


def _label(kernel: str) -> str:
    """Return the idea of a rung and its number."""
    number, _, name = kernel.partition("_")
    header = known().get(kernel)
    return f"{(header and header.label) or name.replace('_', ' ')}  {number}"


def compared_with_baseline(data: View) -> pd.DataFrame:
    """Return the rows of the rungs that have a ratio to the baseline at the ladder's problem."""
    rows = data.at(data.headline)
    return rows[rows.index.isin(data.kernels) & rows["ratio"].notna()]


def headline(data: View) -> Figure:
    """Draw a bar for each rung; bars above `BEYOND` end in a panel of their own, behind a break of
    the axis.
    """
    rows = compared_with_baseline(data)
    shares, reference = 100 * rows["ratio"], data.nice(data.reference)
    far = shares[shares > BEYOND]
    at = data.sustained[data.sustained["problem"] == data.headline].set_index("kernel")["ratio"]
    held = 100 * at.reindex(far.index).dropna()
    height = inches(1.7 * len(rows) + 5)
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    widths = [5, 1.2] if len(far) else [5]
    grid = figure.subplots(1, len(widths), sharey=True, squeeze=False, width_ratios=widths)[0]
    near: Axes = grid[0]
    for axes in grid:
        colors = [FASTER if low > 1 else SLOWER for low in rows["ratio_low"]]
        axes.barh(range(len(rows)), shares, 0.72, color=colors, lw=0, zorder=2)
        axes.grid(axis="y", visible=False)
    for y, share in enumerate(shares):
        axes, inside = (grid[-1], True) if share > BEYOND else (near, 30 < share <= 100)
        axes.text(
            share - 1.5 if inside else share + 1.5,
            y,
            f"{share:.3g} %",
            va="center",
            ha="right" if inside else "left",
            zorder=4,
        )
    for kernel, share in held.items():
        grid[-1].plot(share, rows.index.get_loc(kernel), marker="D", ms=5, color="k", zorder=5)
    near.axvline(100, color="#000000", zorder=3)
    near.set_xlim(0, BEYOND)
    near.set_xticks(range(0, 101, 25))
    rows_of(near, [_label(str(kernel)) for kernel in rows.index])
    near.set_xlabel(f"% of {reference}'s throughput; line: {reference}")
    if len(far):
        low, high = min([*far, *held]), far.max()
        grid[1].set_xlim(low - 30, high + 5)
        ticks = [low, high] if high - low > 40 else [low]
        grid[1].set_xticks([round(share, -1) for share in ticks])
        grid[1].spines["left"].set_visible(False)
        grid[1].tick_params(left=False, labelleft=False)
        for axes, x in ((near, 1), (grid[1], 0)):  # the break of the axis
            axes.plot(
                [x],
                [0],
                marker=[(-1, -1.5), (1, 1.5)],
                ms=8,
                color="#000000",
                clip_on=False,
                transform=axes.transAxes,
                zorder=5,
            )
    title = f"Every rung beside {reference} on {data.device}, {data.where()}, {data.element_type}"
    return finish(
        figure,
        data,
        title,
        caption=[
            f"Single launches on one {data.device}.",
            "Green: faster than the baseline, by the 95 % interval.",
            *(["Diamond: sustained, launched back to back."] if len(held) else []),
        ],
    )
