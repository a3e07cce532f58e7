"""Draw devices side by side: GPUs of one model, and datasets of one kind of device."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ladder.figures.data import HATCHED, MARKS, RATE, RATIO, View, ends, hatches
from ladder.figures.labels import break_bars
from ladder.figures.layout import finish, inches, panels, problems, ring, rows_of
from ladder.figures.rungs import longest
from ladder.figures.scaling import MANY
from ladder.figures.selection import KERNELS, evenly

MOST, MOST_GPUS = 8, 20
"""The most datasets side by side, and the most GPUs of one dataset."""


def on_all(data: View) -> pd.DataFrame:
    """Return each series of the reference in the sweep once, for the problems that every GPU
    measured.
    """
    series = data.references[data.references["process"].isna()]
    gpus = series.groupby("problem")["uuid"].transform("nunique")
    series = series[gpus == series["uuid"].nunique()]
    return series.assign(other=~series["problem"].str.isdigit()).sort_values(
        ["other", "m", "n", "k"], kind="stable"
    )


def gpus(data: View) -> Figure:
    """Draw how much GPUs of one model differ: every series of the reference, relative to the median
    of the GPUs' medians.
    """
    rows = on_all(data)
    medians = rows.groupby(["problem", "uuid"], sort=False)["median_us"].median()
    middle = rows["problem"].map(medians.groupby("problem").median())
    rows = rows.assign(off=100 * (rows["median_us"] / middle - 1))
    count, slowest = (
        rows["uuid"].nunique(),
        rows.groupby("uuid")["off"].median().sort_values().index,
    )
    uuids = sorted(slowest[evenly(count, MOST_GPUS)])
    every = rows["problem"].unique()
    labels = list(every[evenly(len(every), MANY)])
    rows = rows[rows["problem"].isin(labels)]
    colors = dict(zip(uuids, sns.color_palette("colorblind", len(uuids)), strict=True))
    figure, (axes,) = panels(1, 4.4)
    for index, uuid in enumerate(uuids):
        aside = 0.8 * ((index + 0.5) / len(uuids) - 0.5)
        mine = rows[rows["uuid"] == uuid]
        at = np.array([labels.index(problem) + aside for problem in mine["problem"]])
        held = mine["throttled_share"].fillna(0).to_numpy() > 0
        edges = np.where(held, MARKS["throttled"][1], to_hex(colors[uuid])).tolist()
        axes.scatter(
            at,
            mine["off"],
            s=16,
            color=colors[uuid],
            alpha=0.8,
            edgecolors=edges,
            linewidths=1.0,
            zorder=3,
        )
        off, half = mine.groupby("problem")["off"].median()[labels], 0.3 / len(uuids)
        x = np.arange(len(labels)) + aside
        axes.hlines(off, x - half, x + half, color=colors[uuid], zorder=4)
    axes.axhline(0, color="#444444", lw=0.8, zorder=1)
    problems(axes, labels)
    reference = data.nice(data.reference)
    axes.set_ylabel(f"{reference}'s time,\n% off the median")
    counts = rows["uuid"].value_counts()
    handles: list[Artist] = [
        Patch(color=colors[uuid], label=f"{uuid[:12]}…, {counts[uuid]} series") for uuid in uuids
    ]
    if (rows["throttled_share"].fillna(0) > 0).any():
        handles.append(ring(MARKS["throttled"][1], "edge: throttled"))
    caption = [
        "A dot is one series of the sweep, a line the median of a GPU's. "
        f"{len(labels)} of {len(every)} problems that every GPU has."
    ]
    details = ["What was timed beside the reference differs between GPUs: each kernel ran on one."]
    if len(uuids) < count:
        caption.append(f"{len(uuids)} of {count} GPUs.")
    off = medians.groupby("problem").agg(lambda each: 100 * (each.max() / each.min() - 1))
    title = f"{count} GPUs of one model differ by up to {off.max():.2g} % in {reference}'s time"
    return finish(figure, data, title, handles, caption, details, intervals="")


def comparison(datasets: Mapping[str, View]) -> Figure:
    """Draw datasets side by side at one problem: each kernel's rate, and its rate relative to the
    reference of the same dataset.
    """
    first = next(iter(datasets.values()))
    both = set.intersection(*(set(data.best["problem"]) for data in datasets.values()))
    ordered = [data.headline for data in datasets.values()] + first.order
    problem = next((shown for shown in ordered if shown in both), first.headline)
    names = [*first.kernels, *(kernel for data in datasets.values() for kernel in data.names)]
    tables = {name: data.at(problem) for name, data in datasets.items()}
    count = len(datasets)
    if count > MOST:
        rates = pd.Series(
            {name: each["tflops"].get(first.reference) for name, each in tables.items()}
        )
        kept = rates.sort_values().index[evenly(count, MOST)]
        datasets, tables = ({name: each[name] for name in kept} for each in (datasets, tables))
    shown = [
        kernel
        for kernel in dict.fromkeys(names)
        if any(kernel in table.index for table in tables.values())
    ]
    shown = shown[:KERNELS]
    figure, grid = panels(2, inches(len(shown) * (0.7 * len(datasets) + 0.6) + 3))
    palette = dict(zip(datasets, sns.color_palette("viridis", len(datasets) + 1), strict=False))
    described = (
        (RATE, 1 / first.unit_size, first.unit),
        (RATIO, 100.0, f"% of {first.nice(first.reference)}"),
    )
    for axes, (columns, scale, label) in zip(grid, described, strict=True):
        thick = 0.85 / len(datasets)
        for index, (name, table) in enumerate(tables.items()):
            have = [kernel for kernel in shown if kernel in table.index]
            y = np.array([shown.index(kernel) + (index + 0.5) * thick - 0.425 for kernel in have])
            value, low, high = ends(table.loc[have], columns, scale)
            hatch = [hatches(row) for row in table.loc[have].to_dict("records")]
            axes.barh(
                y,
                value,
                thick,
                color=palette[name],
                hatch=hatch,
                edgecolor="#ffffff",
                lw=0,
                label=name,
                zorder=2,
            )
            axes.hlines(y, low, high, color="#d62728", lw=1.3, zorder=3)
        rows_of(axes, [first.nice(kernel) for kernel in shown])
        axes.grid(axis="y", visible=False)
        right = 1.25 * scale * longest(pd.concat(tables.values()), columns[0])
        axes.set(xlabel=label, xlim=(0, right))
        bars = [bar for container in axes.containers for bar in container]
        break_bars(axes, [(bar.get_y() + thick / 2, thick, bar.get_width()) for bar in bars])
    handles = [
        Patch(color=palette[name], label=f"{name}: {data.device}")
        for name, data in datasets.items()
    ]
    if any(hatches(row) for table in tables.values() for row in table.to_dict("records")):
        handles.append(HATCHED)
    caption = [
        f"Red: {first.kind_of_interval()}. Percentages are relative to the reference of the same "
        "dataset.",
        "White cuts: the bar is longer than the axis.",
        f"{MOST} of {count} datasets, evenly spaced by the reference's rate."
        if count > MOST
        else "",
    ]
    details = [f"{name}: {data.note()}" for name, data in list(datasets.items())[1:]]
    details.append(f"{next(iter(datasets))}:")  # `finish` appends the note of this dataset
    where = f"M = N = K = {problem}" if problem.isdigit() else problem.replace("x", "×")
    return finish(
        figure,
        first,
        f"Best configurations at {where}, {first.element_type}",
        handles,
        caption,
        details,
        measured="",
    )
