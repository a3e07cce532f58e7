"""Draw the same configurations compiled in several ways, side by side."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ladder.figures.data import RUNG, View
from ladder.figures.layout import finish, inches, panels, rows_of
from ladder.figures.scaling import points
from ladder.figures.selection import evenly
from ladder.model.kernel import COMPILERS, Configuration

WIDEST = 90
"""The percentage of the differences that fit the panels; larger ones are drawn at the edge, with
their values, if they are far.
"""
MOST = 400
"""The most dots of a kernel and way."""
FAR = 2.0
"""How much larger than that a difference must be to be drawn at the edge."""


def compared(data: View) -> pd.DataFrame:
    """Return the sweep's rates of kernels beside those of the first way of compiling.

    There is a row per configuration, problem and way except the first; none if there is only one
    way. `build` is the way, `first` the first way, `percent` how much faster than the first it is,
    and `marks` are those of both.
    """
    rows = data.summary[data.summary["kernel"].isin(data.kernels) & data.summary["tflops"].notna()]
    parsed = {
        label: Configuration.of(data.element_type, label)
        for label in rows["configuration"].unique()
    }
    every = [parsed[label] for label in rows["configuration"]]
    rows = rows.assign(
        build=[
            Configuration("", (), configuration.build)
            .label.replace("-", COMPILERS[0])
            .removeprefix("compiler=")
            for configuration in every
        ],
        parameters=[Configuration("", configuration.parameters).label for configuration in every],
    )
    first = rows["build"].iloc[0] if len(rows) else ""
    key = ["kernel", "parameters", "problem"]
    firsts = rows.loc[rows["build"] == first, [*key, "ratio", "marks"]]
    both = rows[rows["build"] != first].merge(firsts, on=key, suffixes=("", "_first"))
    marks = both["marks"].fillna("") + "; " + both["marks_first"].fillna("")
    return both.assign(
        first=first, percent=100 * (both["ratio"] / both["ratio_first"] - 1), marks=marks
    )


def compilers(data: View) -> Figure:
    """Draw how much faster other ways of compiling are than the first one.

    There is a dot per configuration and problem, and a bar at each kernel's median.
    """
    rows = compared(data)
    ways, beyond = list(dict.fromkeys(rows["build"])), 0
    widest = max(1.0, FAR * float(np.percentile(rows["percent"].abs(), WIDEST)))
    widest = min(widest, float(rows["percent"].abs().max()) or 1.0)
    figure, grid = panels(len(ways), inches(1.4 * len(data.kernels) + 3))
    random = np.random.default_rng(0)
    for axes, way in zip(grid, ways, strict=True):
        for place, kernel in enumerate(data.kernels):
            mine = rows[(rows["build"] == way) & (rows["kernel"] == kernel)]
            median = mine["percent"].median()
            if len(mine) > MOST:
                mine = mine.sort_values("percent").iloc[evenly(len(mine), MOST)]
            percent = mine["percent"]
            y = place + random.uniform(-0.3, 0.3, len(percent))
            far = (percent.abs() > widest).to_numpy()
            points(axes, percent[~far], y[~far], mine[~far], RUNG, 4.0)
            beyond += far.sum()
            for side in (-1, 1):
                values = sorted(side * percent[far & (side * percent > 0)])
                if values:
                    extremes = values[0], values[-1]
                    axes.annotate(
                        "…".join(dict.fromkeys(f"{side * value:+.0f}" for value in extremes)),
                        (side * 1.12 * widest, place),
                        (side * widest, place),
                        arrowprops={"arrowstyle": "->", "color": RUNG, "lw": 1.2},
                        color=RUNG,
                        ha="right" if side > 0 else "left",
                        va="center",
                    )
            if len(percent):
                axes.plot(
                    [median] * 2, [place - 0.42, place + 0.42], color="#222222", lw=2.0, zorder=5
                )
        axes.axvline(0, color="#444444", lw=0.8, zorder=2)
        rows_of(axes, [data.nice(kernel) for kernel in data.kernels])
        axes.set_xlim(-1.15 * widest, 1.15 * widest)
        axes.locator_params(axis="x", nbins=5)
        axes.set(
            title=way if len(ways) > 1 else "", xlabel=f"% faster than {rows['first'].iloc[0]}"
        )
    medians = rows[rows["build"] == ways[0]].groupby("kernel")["percent"].median()
    ends = f"{medians.min():+.1f} to {medians.max():+.1f} %"
    caption = [
        "A dot is a configuration and problem of the sweep, in one process; black: the median.",
        f"Arrows: {beyond} differences beyond ±{widest:.3g} %." if beyond else "",
    ]
    details = [
        "Quotients of ratios to the reference; intervals are within-run. Eliminated configurations "
        "have few samples."
    ]
    return finish(
        figure,
        data,
        f"{ways[0]} against {rows['first'].iloc[0]}: {ends} by kernel",
        (),
        caption,
        details,
        intervals="",
        edged=rows,
    )
