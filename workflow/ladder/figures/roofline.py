"""Draw rates under the roofs of peak and bandwidth."""

import math

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ladder.analysis.kernel_model import KEY, l1_tb_s
from ladder.figures.data import View, edges, marks_note
from ladder.figures.layout import finish, logarithmic, panels, text_size
from ladder.figures.scaling import points
from ladder.model.campaign import is_baseline


def roofline(data: View) -> Figure:
    """Draw every rung at one size under the measured peak and bandwidth: at the traffic it issues, and at the least possible traffic."""
    rows, size, small = data.at(data.headline).reset_index(), text_size(data.width), 0.85 * text_size(data.width)
    rows, colours, markers = rows.merge(data.models.drop(columns="problem"), on=KEY, how="left"), data.colours(), data.markers()
    rows = rows.set_index("kernel").loc[[kernel for kernel in rows["kernel"] if kernel in {*data.kernels, data.reference}]]
    least = float(rows["compulsory_intensity"].max())
    figure, (axes,) = panels(data, 1, 4.6 if not data.in_column else 3.0)
    low, high = np.nanmin([*rows["intensity"], least]) / 3, least * 3
    bottom = data.rate(rows["tflops"].min()) / 3
    roofs = [(data.environment["peaks"]["copy_tb_s"], "#b22222", "memory, measured copy")]
    l1 = l1_tb_s(data.environment) if data.environment["kind"] == "cuda" else None
    if l1:
        roofs.append((l1, "#4682b4", "L1 and shared memory"))
    top = data.peak or data.rate(max(bandwidth for bandwidth, _, _ in roofs) * high)
    labels = []
    for bandwidth, colour, name in roofs:
        edge = top / data.rate(bandwidth) if data.peak else high
        axes.plot([low, edge], [data.rate(bandwidth * low), data.rate(bandwidth * edge)], color=colour, zorder=2)
        middle = (max(low, edge * bottom / data.rate(bandwidth * edge)) * edge) ** 0.5
        at = middle, data.rate(bandwidth * middle) * 1.08
        label = axes.text(*at, f"{name}: {bandwidth:.3g} TB/s", color=colour, fontsize=small, ha="center", va="bottom")
        label.set(rotation=np.degrees(np.arctan2(at[1], at[0])), rotation_mode="anchor", transform_rotates_text=True)
        labels.append(label)
    if data.peak:
        axes.plot([edge, high], [data.peak] * 2, color="#000000", ls=":")
        axes.text(high, data.peak * 1.06, f"measured FP32 peak: {data.peak:.3g} {data.unit}", fontsize=small, ha="right")
    axes.axvline(least, color="#999999", lw=0.08 * size, zorder=1)
    handles = []
    for kernel in rows.index:
        row, rate = rows.loc[kernel], data.rate(rows.loc[kernel, "tflops"])
        colour, marker = ("#000000", "_") if is_baseline(kernel) else (colours[kernel], markers[kernel])
        axes.plot([row["intensity"], least], [rate] * 2, color=colour, lw=0.07 * size, ls=":", zorder=3)
        axes.plot(
            least,
            rate,
            marker,
            color=colour,
            mfc="white",
            ms=(1.4 if is_baseline(kernel) else 0.6) * size,
            mew=0.15 * size,
            zorder=4,
        )
        if row["intensity"] > 0:  # baselines and kernels that declare no traffic have none
            points(axes, [row["intensity"]], [rate], rows.loc[[kernel]], colour, marker, 0.8 * size)
        axes.plot([row["intensity"]] * 2, [rate, data.rate(row["bound_tflops"])], color=colour, lw=0.09 * size, zorder=3)
        axes.plot(row["intensity"], data.rate(row["bound_tflops"]), "_", color=colour, ms=0.9 * size, mew=0.16 * size, zorder=4)
        handles.append(Line2D([], [], marker=marker, color=colour, ls="", label=f"{data.label(kernel)}: {rate:.3g}"))
    highest = max(1.7 * top, 1.3 * data.rate(rows["tflops"].max()))
    axes.set(xlim=(low, high), ylim=(bottom, highest))
    axes.set(ylabel=f"{data.unit} (log)", xlabel="arithmetic intensity in FLOP/byte (log)")
    logarithmic(axes)
    logarithmic(axes, "x")
    notes = [
        "Filled: by every element that the threads read or write, wherever it is found, so caches can lift it above the memory roof; "
        "the tick above it is its own bound by the model.",
        "Open: by every element of A, B and C once, the least traffic there can be. L1: 128 B a cycle and SM.",
        "Without a tick: on the tensor cores, of which the FP32 peak is no bound." if rows["tensor_cores"].any() else "",
        marks_note(rows.to_dict("records")),
    ]
    finish(figure, data, f"Roofline at {data.where()} on {data.environment['name']}", [*handles, *edges(rows)], notes)
    # A roof rises a decade for each decade to the right. Matplotlib takes this angle from two points that are close to each other: its
    # sixth decimal, which the file shows, depends on the CPU.
    width, height = axes.get_position().size * figure.get_size_inches()
    angle = math.degrees(math.atan2(height / math.log10(highest / bottom), width / math.log10(high / low)))
    for label in labels:
        label.set(rotation=round(angle, 1), transform_rotates_text=False)
    return figure
