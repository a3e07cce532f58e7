"""Draw measured throughput beside limits: the roofs of peak and bandwidth, and the model of issue
slots and register banks.
"""

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ladder.analysis.kernel_model import KEY, l1_tb_s
from ladder.figures.data import GRAY, REFERENCE, WIDTH, View, three
from ladder.figures.labels import name_ends, name_points
from ladder.figures.layout import finish, logarithmic, panels
from ladder.figures.parameters import MOST
from ladder.figures.scaling import LIMIT, points
from ladder.figures.selection import evenly

ROOF = "#4682b4"


def roofline(data: View) -> Figure:
    """Draw every rung at one size under the measured peak, in two panels: at the traffic of its
    loads, and at the least possible traffic.
    """
    rows = data.at(data.headline).reset_index()
    rows = rows.merge(data.models.drop(columns="problem"), on=KEY, how="left").set_index("kernel")
    kernels = rows.loc[[kernel for kernel in data.kernels if kernel in rows.index]]
    l1 = l1_tb_s(data.environment) if data.environment["kind"] == "cuda" else None
    memory = data.environment["peaks"]["copy_tb_s"]
    copied = "memory, measured copy"
    height = 4.2
    figure, grid = panels(2, height, most=2)
    colors = data.colors()
    wide, tall = 0.75 * WIDTH / 2, 0.75 * height
    bottom = data.rate(rows["tflops"].min()) / 2
    highest = max(1.7 * data.peak if data.peak else 0, 1.5 * data.rate(rows["tflops"].max()))
    sides = (
        (
            "intensity",
            l1 or memory,
            "L1 and shared memory" if l1 else copied,
            "what each thread loads and stores",
        ),
        ("compulsory_intensity", memory, copied, "each element of A, B and C once"),
    )
    for axes, (column, bandwidth, name, what) in zip(grid, sides, strict=True):
        drawn = kernels[kernels[column] > 0]  # kernels that declare no traffic have no intensity
        ridge = (data.peak or highest) / data.rate(bandwidth)  # where the roof meets the peak
        known = [*drawn[column], ridge]
        low, high = float(np.nanmin(known)) / 3, float(np.nanmax(known)) * 1.5
        axes.set(xlim=(low, high), ylim=(bottom, highest), title=f"traffic: {what}")
        axes.plot(
            [low, ridge],
            [data.rate(bandwidth * low), data.rate(bandwidth * ridge)],
            color=ROOF,
            zorder=2,
        )
        text = f"{name}: {bandwidth:.3g} TB/s"
        axes.text(0.02, 0.02, text, transform=axes.transAxes, fontsize=8.0, color=ROOF)
        if data.peak:
            axes.plot([ridge, high], [data.peak] * 2, color=LIMIT, ls=":")
            text = f"{data.peak_name}, measured: {three(data.peak)}"
            axes.text(ridge, data.peak * 1.05, text, fontsize=8.0, color=LIMIT, va="bottom")
        axes.set(ylabel=f"{data.unit} (log)", xlabel="FLOP/byte (log)")
        logarithmic(axes)
        logarithmic(axes, "x")
        named = []
        for kernel, row in drawn.iterrows():
            at, rate = float(row[column]), float(data.rate(row["tflops"]))
            points(axes, [at], [rate], drawn.loc[[kernel]], colors[str(kernel)], 7.0)
            named.append((at, rate, data.brief(str(kernel)), _readable(colors[str(kernel)])))
        crowd = 0.5 * drawn[column].max()
        name_ends(axes, [place for place in named if place[0] >= crowd], 8.0, tall)
        name_points(axes, [place for place in named if place[0] < crowd], 8.0, wide, tall)
        if data.reference in rows.index:
            rate = data.rate(rows.loc[data.reference, "tflops"])
            axes.axhline(rate, color=REFERENCE, ls="--", lw=1.0, zorder=2)
            axes.annotate(
                f"{data.nice(data.reference)}: {rate:.3g}",
                (0.45, rate),
                (0, -2),
                ("axes fraction", "data"),
                textcoords="offset points",
                fontsize=8.0,
                va="top",
            )
    above = data.element_type == "float32" and kernels["tensor_cores"].any()
    caption = [
        "Left: every load and store of a thread, wherever it is found",
        ". L1: 128 B a cycle and SM." if l1 else ": caches can lift a rung above the roof.",
        " Rungs on the tensor cores may lie above the FP32 peak." if above else "",
    ]
    details = ["Each kernel's own bound by the model: models.csv."]
    title = f"Roofline at {data.where()} on {data.described}"
    return finish(figure, data, title, (), ["".join(caption)], details, edged=kernels)


def _readable(color: Any) -> Any:
    """Return the color of a name for that of its point."""
    return "#444444" if color == GRAY else color


def modeled(data: View) -> pd.DataFrame:
    """Return the measured configurations that the model of issue covers, of kernels that the
    confirmation did not find incorrect.
    """
    rated = data.summary[
        data.summary["tflops"].notna() & data.summary["kernel"].isin(data.colors())
    ]
    return rated.merge(data.models[[*KEY, "issue_tflops"]].dropna(), on=KEY)


def issue(data: View) -> Figure:
    """Draw every configuration at the problem where it is fastest, against the throughput that its
    main loop could issue alone.
    """
    rows = modeled(data)
    rows = rows.loc[rows.groupby(["kernel", "configuration"])["tflops"].idxmax()]
    height = 4.4
    figure, (axes,) = panels(1, height)
    colors, named = data.colors(), []
    crowded = rows["kernel"].value_counts().max() > MOST
    rows = rows.assign(x=data.rate(rows["issue_tflops"]), y=data.rate(rows["tflops"]))
    for kernel in data.names:
        mine = rows[rows["kernel"] == kernel]
        if len(mine) > MOST:
            mine = mine.sort_values("y").iloc[evenly(len(mine), MOST)]
        if len(mine):
            points(axes, mine["x"], mine["y"], mine, colors[kernel], 5.0)
            best = mine.loc[mine["y"].idxmax()]
            named.append(
                (float(best["x"]), float(best["y"]), data.brief(kernel), _readable(colors[kernel]))
            )
    top = 1.05 * rows[["x", "y"]].max().max()
    axes.plot([0, top], [0, top], color="#000000", ls=":", zorder=2)
    axes.set(
        xlim=(0, top),
        ylim=(0, top),
        xlabel=f"{data.unit} by the model",
        ylabel=f"{data.unit} measured",
    )
    name_points(axes, named, 8.0, 0.9 * WIDTH, 0.85 * height)
    turn = round(math.degrees(math.atan2(height, WIDTH)), 1)
    axes.annotate(
        "as predicted",
        (0.55 * top, 0.55 * top),
        (0, 4),
        textcoords="offset points",
        fontsize=8.0,
        rotation=turn,
        rotation_mode="anchor",
        va="bottom",
    )
    caption = [
        f"{len(rows)} configurations, each at the problem where it is fastest; a number names its "
        "rung's fastest one.",
        f"Drawn are {MOST} of a kernel, evenly spaced by throughput." if crowded else "",
        "Far below the line, something other than issue slots limits a kernel. Above it, the model "
        "counts too much.",
    ]
    details = [
        "The model knows the main loop alone, its issue slots, register banks and reuse cache.",
        "It counts as issued also what branches jump over; what else makes loops faster than "
        "modelled is not known.",
        "The sweep: one process, within-run.",
    ]
    return finish(
        figure,
        data,
        f"Multiply-adds that a loop can issue, on {data.device}",
        (),
        caption,
        details,
        intervals="",
    )
