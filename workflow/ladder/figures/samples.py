"""Draw the distribution of the samples of the best configurations."""

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ladder.figures.data import View, letters
from ladder.figures.layout import finish, inches, panels, rows_of

WIDEST = 25.0
"""The deviation from the median, in percent, beyond which samples are drawn at the edge."""


def _spread(times: pd.Series) -> float:
    low, high = np.quantile(times, (0.1, 0.9))
    return float(high / low)


def problems_and_reasons(data: View) -> dict[str, str]:
    """Return the problems that are drawn, and why: the ladder's, the smallest, and the one whose
    samples spread the most.
    """
    rows = data.rounds
    best = data.best[data.best["problem"].isin(set(rows["problem"]))]
    smallest = best.loc[(best["m"].astype(float) * best["n"] * best["k"]).idxmin(), "problem"]
    spreads = (
        rows.groupby(["problem", "kernel"], sort=False)["time_us"]
        .agg(_spread)
        .groupby("problem", sort=False)
        .median()
    )
    problems = {data.headline: "the ladder's"} if data.headline in set(rows["problem"]) else {}
    problems.setdefault(str(smallest), "smallest")
    problems.setdefault(str(spreads.idxmax()), "widest spread")
    return problems


def samples(data: View) -> Figure:
    """Draw a dot per sample, in the color of its process: its time relative to the median of the
    kernel's best configuration.
    """
    problems = problems_and_reasons(data)
    order = data.names
    figure, grid = panels(len(problems), inches(1.55, 9.0) * len(order) + 0.9)
    processes = sorted(data.rounds["process"].unique())
    colors = dict(zip(processes, sns.color_palette("colorblind", len(processes)), strict=True))
    beyond = 0
    for axes, (problem, why) in zip(grid, problems.items(), strict=True):
        here = data.rounds[data.rounds["problem"] == problem]
        best = (
            data.best[data.best["problem"] == problem].drop_duplicates("kernel").set_index("kernel")
        )
        marks = [letters(best.loc[kernel]) if kernel in best.index else "" for kernel in order]
        labels = [
            f"{data.nice(kernel)} {mark}".rstrip()
            for kernel, mark in zip(order, marks, strict=True)
        ]
        for place, kernel in enumerate(order):
            mine = here[here["kernel"] == kernel]
            times, of = mine["time_us"].to_numpy(), mine["process"].to_numpy()
            off = 100 * (times / np.median(times) - 1) if len(times) else times
            beyond += int((np.abs(off) > WIDEST).sum())
            for index, process in enumerate(processes):
                values = off[of == process].clip(-WIDEST, WIDEST)
                y = np.full(len(values), place + 0.7 * ((index + 0.5) / len(processes) - 0.5))
                axes.scatter(
                    values, y, s=(2.5) ** 2, color=colors[process], alpha=0.7, lw=0, zorder=3
                )
        axes.axvline(0, color="#444444", lw=0.8, zorder=2)
        rows_of(axes, labels)
        axes.set_title(f"{problem.replace('x', '×')}:\n{why}")
        axes.set_xlabel("time, % off the median")
        axes.set_xscale("symlog", linthresh=1, linscale=1)
        edge = min(WIDEST, max(1.0, float(np.abs(axes.get_xlim()).max())))
        ticks = [tick for tick in (-20, -5, -1, -0.5, 0, 0.5, 1, 5, 20) if abs(tick) <= edge]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set_xlim(-1.05 * edge, 1.05 * edge)
    handles = [
        Line2D([], [], ls="", marker="o", color=colors[process], label=f"process {process}")
        for process in processes
    ]
    shown = data.best[data.best["problem"].isin(problems)]
    notes = [
        "Linear to ±1 %, logarithmic beyond.",
        f"{beyond} samples beyond ±{WIDEST:g} % are drawn there." if beyond else "",
    ]
    title = f"Samples of the best configurations on {data.described}"
    return finish(figure, data, title, handles, notes, lettered=shown)
