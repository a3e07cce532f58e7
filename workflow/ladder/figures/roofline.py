"""Draw measured throughput beside limits: the roofs of peak and bandwidth, and the model of issue
slots and register banks.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ladder.analysis.kernel_model import l1_tb_s
from ladder.figures.data import GRAY, REFERENCE, SIZE, WIDTH, View, three
from ladder.figures.labels import name_ends, name_points
from ladder.figures.layout import finish, logarithmic, panels
from ladder.figures.parameters import MOST
from ladder.figures.scaling import LIMIT, points
from ladder.figures.selection import evenly

NEAR, NAMED = 0.55, 8
"""The lower end of the panel of `issue` as a share of the upper one, and the most names in it."""
ROOF = "#4682b4"


def roofline(data: View) -> Figure:
    """Draw every rung at one size under the measured peak and bandwidth, at the traffic of the
    loads and stores of its threads.
    """
    rows = data.at(data.headline).reset_index()
    models = data.models.drop(columns="problem")
    rows = rows.merge(models, on=data.key, how="left").set_index("kernel")
    kernels = rows.loc[[kernel for kernel in data.kernels if kernel in rows.index]]
    drawn = kernels[kernels["intensity"] > 0]  # kernels that declare no traffic have no intensity
    l1 = l1_tb_s(data.environment) if data.environment["kind"] == "cuda" else None
    bandwidth = l1 or data.environment["peaks"]["copy_tb_s"]
    height, colors, named = 5.2, data.colors, []
    figure, (axes,) = panels(1, height)
    highest = max(1.7 * data.peak if data.peak else 0, 1.5 * data.rate(rows["tflops"].max()))
    ridge = (data.peak or highest) / data.rate(bandwidth)  # where the roof meets the peak
    known = [*drawn["intensity"], ridge]
    low, high = float(np.nanmin(known)) / 3, float(np.nanmax(known)) * 1.5
    axes.set(xlim=(low, high), ylim=(data.rate(rows["tflops"].min()) / 2, highest))
    slope = [data.rate(bandwidth * at) for at in (low, ridge)]
    axes.plot([low, ridge], slope, color=ROOF, zorder=2)
    text = f"{'L1 and shared memory' if l1 else 'memory, measured copy'}: {bandwidth:.3g} TB/s"
    axes.text(0.02, 0.02, text, transform=axes.transAxes, color=ROOF)
    if data.peak:
        axes.plot([ridge, high], [data.peak] * 2, color=LIMIT, ls=":")
        text = f"{data.peak_name}, measured: {three(data.peak)}"
        axes.text(ridge, data.peak * 1.05, text, color=LIMIT, va="bottom")
    axes.set(ylabel=f"{data.unit} (log)", xlabel=f"FLOP/byte (log), {data.where()}")
    logarithmic(axes)
    logarithmic(axes, "x")
    for kernel, row in drawn.iterrows():
        at, rate = float(row["intensity"]), float(data.rate(row["tflops"]))
        points(axes, [at], [rate], drawn.loc[[kernel]], colors[str(kernel)], 7.0)
        named.append((at, rate, data.brief(str(kernel)), _readable(colors[str(kernel)])))
    crowd, tall = 0.5 * drawn["intensity"].max(), 0.75 * height
    name_ends(axes, [place for place in named if place[0] >= crowd], SIZE, tall)
    name_points(axes, [place for place in named if place[0] < crowd], SIZE, 0.75 * WIDTH, tall)
    if data.reference in rows.index:
        rate = data.rate(rows.loc[data.reference, "tflops"])
        axes.axhline(rate, color=REFERENCE, ls="--", lw=1.0, zorder=2)
        axes.annotate(
            f"{data.nice(data.reference)}: {three(rate)}",
            (0.3, rate),
            (0, -2),
            ("axes fraction", "data"),
            textcoords="offset points",
            va="top",
        )
    above = data.element_type == "float32" and kernels["tensor_cores"].any()
    caption = [
        "Traffic: every load and store of a thread, wherever it is found"
        + (". L1: 128 B a cycle and SM." if l1 else ": caches can lift a rung above the roof."),
        "Rungs on the tensor cores may lie above the FP32 peak." if above else "",
    ]
    details = ["Each kernel's own bound by the model: models.csv."]
    best, title = data.rate(kernels["tflops"][kernels.index.isin(data.plain)].max()), "Roofline"
    if data.peak and best > 0:
        which = "The fastest rung" + ("" if data.plain == data.kernels else " on CUDA cores")
        title = f"{which} reaches {100 * best / data.peak:.0f} % of the measured peak"
    return finish(figure, data, title, (), caption, details, edged=kernels)


def _readable(color: Any) -> Any:
    """Return the color of a name for that of its point."""
    return "#444444" if color == GRAY else color


def modeled(data: View) -> pd.DataFrame:
    """Return the measured configurations that the model of issue covers, of kernels that the
    confirmation did not find incorrect.
    """
    rated = data.summary[data.summary["tflops"].notna() & data.summary["kernel"].isin(data.colors)]
    return rated.merge(data.models[[*data.key, "issue_tflops"]].dropna(), on=data.key)


def issue(data: View) -> Figure:
    """Draw every configuration at the problem where it is fastest, against the throughput that its
    main loop could issue alone.
    """
    rows = modeled(data)
    rows = rows.loc[rows.groupby(["kernel", "configuration"])["tflops"].idxmax()]
    height = 5.6
    figure, (axes,) = panels(1, height)
    colors, named = data.colors, []
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
    low = NEAR * top
    axes.plot([low, top], [low, top], color="#000000", ls=":", zorder=2)
    axes.set(
        xlim=(low, top),
        ylim=(low, top),
        xlabel=f"{data.unit} by the model",
        ylabel=f"{data.unit} measured",
    )
    named = sorted((place for place in named if low < min(place[:2])), key=lambda place: -place[1])
    name_points(axes, named[:NAMED], SIZE, 0.9 * WIDTH, 0.85 * height)
    outside = int((rows[["x", "y"]].min(axis=1) < low).sum())
    near = int(((rows["y"] / rows["x"] - 1).abs() <= 0.1).sum())
    caption = [
        f"Each configuration at the problem where it is fastest; numbers: the fastest ones of "
        f"{min(len(named), NAMED)} rungs.",
        f"Outside the panel: {outside} slower ones." if outside else "",
        f"Drawn are {MOST} of a kernel, evenly spaced by throughput." if crowded else "",
        "Dotted: as predicted. Below it, something else limits a kernel.",
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
        f"{near} of {len(rows)} configurations are within 10 % of what their loop can issue",
        (),
        caption,
        details,
        intervals="",
    )
