"""Draw what each precision costs: the error beside the throughput and the energy of launches back
to back.
"""

import math
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ladder.core.places import HOME
from ladder.figures.data import View
from ladder.figures.layout import save_drawing
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
COLORS = {
    "FP32": "#4477aa",
    "FP32 from FP16 × 3": "#228833",
    "TF32": "#aa3377",
    "FP16": "#ee6677",
    "BF16": "#997700",
}


def points(views: Iterable[View]) -> list[dict[str, Any]]:
    """Return cuBLAS and the fastest rung of each precision, back to back at `PROBLEM`, with errors,
    TFLOP/s and GFLOP/J.
    """
    records = []
    for data in views:
        rows = data.best[data.best["problem"] == PROBLEM].sort_values("tflops")
        for precision in COLORS:
            mine = [row for row in rows.to_dict("records") if _precision(data, row) == precision]
            baselines = [row for row in mine if is_baseline(row["kernel"])]
            rungs = [row for row in mine if is_rung(row["kernel"])]
            for row in [*baselines[-1:], *rungs[-1:]]:
                records.append(
                    {
                        "precision": precision,
                        "kernel": row["kernel"],
                        "error": row["frobenius_error"],
                        "tflops": row["tflops"],
                        "gflop_per_j": 1e3 * (row["tflop_per_j"] or math.nan),
                    }
                )
    return records


def _precision(data: View, row: dict[str, Any]) -> str:
    """Return the precision of a kernel as `COLORS` names it."""
    if row["element_type"] != "float32":
        return {"float16": "FP16", "bfloat16": "BF16"}[row["element_type"]]
    if row["precision"] == "tf32" or row["kernel"] == "cublas_tf32":
        return "TF32"
    return (
        "FP32 from FP16 × 3" if row["tensor_cores"] and row["kernel"] != data.reference else "FP32"
    )


def draw(views: Iterable[View]) -> Figure:
    """Draw throughput and operations a joule against the error, on logarithmic axes; without the
    joules where no energy was measured.
    """
    shown = points(views)
    panels = {"tflops": "TFLOP/s, back to back"}
    if not all(math.isnan(point["gflop_per_j"]) for point in shown):
        panels["gflop_per_j"] = "GFLOP a joule, whole board"
    figure = Figure(figsize=(10, 4.4), layout="constrained")
    for axes, (column, label) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
    ):
        _panel(axes, shown, column, label)
    marks = [
        Line2D([], [], color="#444444", ls="", marker=marker, mfc=face, ms=8)
        for marker, face in (("o", "#444444"), ("s", "white"))
    ]
    figure.legend(
        marks,
        ["the fastest rung", "cuBLAS"],
        ncol=2,
        loc="outside upper center",
        frameon=False,
        fontsize=10,
    )
    return figure


def _panel(axes: Axes, shown: list[dict[str, Any]], column: str, label: str) -> None:
    for point in shown:
        ours, color = is_rung(point["kernel"]), COLORS[point["precision"]]
        marker: dict[str, Any] = (
            {"marker": "o", "mfc": color} if ours else {"marker": "s", "mfc": "white"}
        )
        axes.plot(point["error"], point[column], color=color, ls="", ms=8, zorder=3, **marker)
        if ours:
            left = point["precision"] == "FP16"  # for BF16 is to its right
            axes.annotate(
                f"{point['precision']}, rung {point['kernel'][:2]}",
                (point["error"], point[column]),
                xytext=(-9 if left else 9, 0),
                textcoords="offset points",
                ha="right" if left else "left",
                va="center",
                fontsize=10,
                color=color,
            )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="relative error of C (Frobenius norm)",
        ylabel=label,
        xlim=(5e-8, 2e-2),
    )
    axes.margins(y=0.15)
    axes.grid(color="#dddddd", lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def write(views: Sequence[View], path: Path = DRAWING) -> Path:
    """Write the figure as SVG."""
    return save_drawing(partial(draw, views), path)
