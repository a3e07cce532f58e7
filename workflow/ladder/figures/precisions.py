"""Draw what each precision costs: the error and the throughput of launches back to back."""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ladder.core.places import HOME
from ladder.figures.data import View
from ladder.figures.layout import arrange, panels, save_drawing
from ladder.model.baselines import is_baseline
from ladder.model.kernel_file import is_rung

DATASETS = (
    ("nvidia-h100-80gb-hbm3/default", "float32"),
    ("nvidia-h100-80gb-hbm3/half", "float16"),
    ("nvidia-h100-80gb-hbm3/half", "bfloat16"),
)
"""The published campaigns and element types, all of one device model."""
PROBLEM = "4096"
DRAWING = HOME / "docs" / "img" / "precisions.svg"
SPLIT = "FP32 from FP16 × 3"
COLORS = {
    "FP32": "#4477aa",
    SPLIT: "#228833",
    "TF32": "#aa3377",
    "FP16": "#ee6677",
    "BF16": "#997700",
}


def points(views: Iterable[View]) -> list[dict[str, Any]]:
    """Return the rows of cuBLAS and the fastest rung of each precision, back to back at `PROBLEM`."""
    records: list[dict[str, Any]] = []
    for data in views:
        rows = data.best[data.best["problem"] == PROBLEM].sort_values("tflops")
        for precision in COLORS:
            mine = [
                row | {"precision": precision}
                for row in rows.to_dict("records")
                if _precision(data, row) == precision
            ]
            for whose in (is_baseline, is_rung):
                records += [row for row in mine if whose(row["kernel"])][-1:]
    return records


def _precision(data: View, row: dict[str, Any]) -> str:
    """Return the precision of a kernel as `COLORS` names it."""
    if row["element_type"] != "float32":
        return {"float16": "FP16", "bfloat16": "BF16"}[row["element_type"]]
    if row["precision"] == "tf32" or row["kernel"] == "cublas_tf32":
        return "TF32"
    return SPLIT if row["tensor_cores"] and row["kernel"] != data.reference else "FP32"


def draw(views: Iterable[View]) -> Figure:
    """Draw the throughput of launches back to back against the error, on logarithmic axes."""
    shown = points(views)
    figure, (axes,) = panels(1, 4.2)
    for point in shown:
        ours, color = is_rung(point["kernel"]), COLORS[point["precision"]]
        marker, face = ("o", color) if ours else ("s", "white")
        x, y = point["frobenius_error"], point["tflops"]
        axes.plot(x, y, color=color, ls="", ms=10, zorder=3, marker=marker, mfc=face)
        if ours:
            left = point["precision"] in ("TF32", "FP16", "BF16")
            axes.annotate(
                f"{point['precision']}, rung {point['kernel'][:2]}",
                (x, y),
                xytext=(-11 if left else 11, 0 if point["precision"] != "BF16" else 14),
                textcoords="offset points",
                ha="right" if left else "left",
                va="center",
                color=color,
            )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="relative error of C (Frobenius norm)",
        ylabel="TFLOP/s, back to back",
        xlim=(5e-8, 5e-3),
    )
    axes.margins(y=0.15)
    axes.grid(color="#dddddd", lw=0.6)
    handles = [
        Line2D([], [], color="#444444", ls="", marker=marker, mfc=face, ms=10, label=label)
        for marker, face, label in (("o", "#444444", "the fastest rung"), ("s", "white", "cuBLAS"))
    ]
    rungs, title = {point["precision"]: point for point in shown if is_rung(point["kernel"])}, ""
    if {"FP32", SPLIT} <= set(rungs):
        split, plain = rungs[SPLIT], rungs["FP32"]
        times = split["tflops"] / plain["tflops"]
        than = "smaller" if split["frobenius_error"] <= plain["frobenius_error"] else "larger"
        title = f"{SPLIT}: {times:.1f} times as fast as FP32, with a {than} error"
    return arrange(figure, title, handles)


def write(views: Sequence[View], path: Path = DRAWING) -> Path:
    """Write the figure as SVG."""
    return save_drawing(partial(draw, views), path)
