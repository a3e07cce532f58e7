"""The figures, each drawn from `summary.csv` or `best.csv` and the environment alone; no device is touched.

Every figure is written as SVG, PNG and PDF, the same bytes for the same data.
"""

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from ladder.jobs import write_whole
from ladder.statistics import geometric_mean
from ladder.tables import is_baseline
from ladder.units import InputError, rate_unit

FORMATS = ("svg", "png", "pdf")
MARKERS = "osD^vPX<>hp*"
BASELINE_STYLE = {
    "cublas": ("#000000", "-"),
    "cublas_tf32": ("#7f7f7f", "--"),
    "blas_1": ("#000000", "-"),
    "blas_all": ("#7f7f7f", "--"),
}
BASELINE_NAME = {
    "cublas": "cuBLAS",
    "cublas_tf32": "cuBLAS, TF32 (context)",
    "blas_1": "BLAS, 1 thread",
    "blas_all": "BLAS, all threads (context)",
}


class Dataset:
    """The tables of one device and state, with what every figure's labels need."""

    def __init__(self, summary: pd.DataFrame, best: pd.DataFrame, environment: Mapping[str, Any], state: str) -> None:
        self.summary = summary[summary["state"] == state]
        self.best = best[best["state"] == state].assign(square=lambda t: (t["m"] == t["n"]) & (t["n"] == t["k"]))
        self.environment, self.state = environment, state
        self.unit, self.unit_size = rate_unit(environment["kind"])
        self.kernels = [kernel for kernel in dict.fromkeys(self.best["kernel"]) if not is_baseline(kernel)]
        self.baselines = [kernel for kernel in dict.fromkeys(self.best["kernel"]) if is_baseline(kernel)]
        self.reference = str(summary["reference"].iloc[0]) if len(summary) else ""
        self.peak = environment["peaks"]["fp32_tflops"] / self.unit_size

    def rate(self, tflops: Any) -> Any:
        """TFLOP/s in the device's unit."""
        return tflops / self.unit_size

    def largest(self) -> int:
        """The largest square size that every kernel has a result for (else the largest of any)."""
        squares = self.best[self.best["square"]]
        common = [set(squares.loc[squares["kernel"] == kernel, "m"]) for kernel in self.kernels]
        sizes = set.intersection(*common) if common else set()
        return int(max(sizes or set(squares["m"]) or {0}))

    def colours(self) -> dict[str, Any]:
        """A colour a kernel: a ladder is ordered, so are they; dark to light, as the colour-blind see it too."""
        return dict(zip(self.kernels, sns.color_palette("viridis", len(self.kernels) + 1), strict=False))

    def markers(self) -> dict[str, str]:
        """A marker a kernel."""
        return {kernel: MARKERS[i % len(MARKERS)] for i, kernel in enumerate(self.kernels)}

    def note(self) -> str:
        """The line below every figure: device, software, date, commit, samples and intervals."""
        env, best = self.environment, self.best
        n = f"n = {best['samples'].min():.0f}–{best['samples'].max():.0f} samples a point" if len(best) else "no results"
        width = ((best["high_us"] - best["low_us"]) / 2 / best["median_us"]).quantile(0.9) if len(best) else 0
        library = env["attributes"]["library"]
        commit = (env["project"]["commit"] or "unknown")[:10] + (", changed" if env["project"]["dirty"] else "")
        return (
            f"{env['name']}, {library}, {self.state}, {env['time'][:10]}, commit {commit}. Medians, {n}; "
            f"nine in ten 95 % intervals within ±{100 * width:.1f} %."
        )


def _nice(kernel: str) -> str:
    return BASELINE_NAME.get(kernel, kernel.replace("_", " "))


def _style() -> None:
    sns.set_theme(context="notebook", style="whitegrid", rc={
        "figure.dpi": 100, "savefig.dpi": 160, "axes.spines.top": False, "axes.spines.right": False, "font.size": 10,
        "axes.titlesize": 12, "axes.labelsize": 10, "xtick.labelsize": 9, "ytick.labelsize": 9, "legend.fontsize": 9,
        "svg.hashsalt": "gemm-ladder", "svg.fonttype": "path", "pdf.fonttype": 42, "grid.linewidth": 0.6,
    })  # fmt: skip


def _plain(value: float, _: Any = None) -> str:
    return f"{value:g}" if value < 1e5 else f"{value:.0f}"


def _annotate(figure: Figure, data: Dataset, title: str) -> None:
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
    figure.text(0.01, 0.005, data.note(), ha="left", va="bottom", fontsize=7.5, color="#444444")


def _lines(axes: Axes, data: Dataset, column: str, scale: Callable[[Any], Any]) -> None:
    squares = data.best[data.best["square"]].sort_values("m")
    colours, markers = data.colours(), data.markers()
    for kernel in [*data.kernels, *data.baselines]:
        rows = squares[squares["kernel"] == kernel]
        if rows.empty:
            continue
        if is_baseline(kernel):
            colour, dash = BASELINE_STYLE[kernel]
            axes.plot(rows["m"], scale(rows[column]), dash, color=colour, lw=2, label=_nice(kernel), zorder=3)
        else:
            sns.lineplot(x=rows["m"], y=scale(rows[column]), ax=axes, color=colours[kernel], marker=markers[kernel], ms=6, lw=1.8,
                         label=_nice(kernel), errorbar=None, zorder=4)  # fmt: skip
    sizes = sorted(squares["m"].unique())
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel("M = N = K")


def _others(axes: Axes, data: Dataset, column: str, scale: Callable[[Any], Any]) -> None:
    rows = data.best[~data.best["square"]].sort_values(["m", "n", "k"])
    labels = list(dict.fromkeys(rows["problem"]))
    colours, markers = data.colours(), data.markers()
    # kernels side by side, so that those of equal speed do not hide each other
    offsets = (
        dict(zip(data.kernels, np.linspace(-0.3, 0.3, len(data.kernels) or 1), strict=True)) if len(data.kernels) > 1 else {}
    )
    for kernel in [*data.kernels, *data.baselines]:
        mine = rows[rows["kernel"] == kernel]
        at = [labels.index(problem) + offsets.get(kernel, 0.0) for problem in mine["problem"]]
        if is_baseline(kernel):
            colour, dash = BASELINE_STYLE[kernel]
            for x, y in zip(at, scale(mine[column]), strict=True):
                axes.plot([x - 0.35, x + 0.35], [y, y], dash, color=colour, lw=2, zorder=3)
        else:
            axes.scatter(
                at, scale(mine[column]), color=colours[kernel], marker=markers[kernel], s=40, zorder=4, edgecolor="white", lw=0.5
            )
    axes.set_xticks(range(len(labels)), [label.replace("x", "×\u200b") for label in labels], rotation=30, ha="right")
    axes.set_xlim(-0.6, len(labels) - 0.4)
    axes.set_xlabel("M×N×K")


def _two_panels(
    data: Dataset, title: str, column: str, scale: Callable[[Any], Any], label: str, limit: float | None, limit_label: str
) -> Figure:
    """Squares as lines on the left, other shapes on the right, and a dotted line at `limit`."""
    others = data.best.loc[~data.best["square"], "problem"].nunique()
    widths = [3, max(1, 0.55 * others)] if others else [1]
    figure, axes = plt.subplots(1, len(widths), figsize=(11, 5.6), sharey=True, squeeze=False, width_ratios=widths)
    panels = list(axes[0])
    _lines(panels[0], data, column, scale)
    if others:
        _others(panels[1], data, column, scale)
    panels[0].set_ylabel(label)
    for panel in panels:
        panel.set_yscale("log")
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_major_formatter(FuncFormatter(_plain))
        panel.yaxis.set_minor_locator(NullLocator())
        if limit:
            panel.axhline(limit, color="#b22222", ls=":", lw=1.6, zorder=2, label=limit_label)
    handles, names = panels[0].get_legend_handles_labels()
    if panels[0].get_legend():
        panels[0].get_legend().remove()
    figure.legend(handles[::-1], names[::-1], loc="center left", bbox_to_anchor=(0.995, 0.5), frameon=False)
    _annotate(figure, data, title)
    figure.tight_layout(rect=(0, 0.03, 1, 0.98))
    return figure


def performance(data: Dataset) -> Figure:
    """Rate against size: the best configuration of every kernel, the baselines and the measured peak."""
    title = f"GEMM on {data.environment['name']}: best configuration of every kernel"
    return _two_panels(data, title, "tflops", data.rate, f"{data.unit} (log)", data.peak, f"measured FP32 peak, {data.peak:.3g}")


def ratio(data: Dataset) -> Figure:
    """Rate relative to the reference of the same rounds."""
    name = BASELINE_NAME.get(data.reference, data.reference)
    title = f"Speed relative to {name} on {data.environment['name']}"
    return _two_panels(data, title, "ratio", lambda r: 100 * r, f"per cent of {name}'s rate (log)", None, "")


def ladder(data: Dataset) -> Figure:
    """Every rung at one size and its gain over the rung below, beside the reference; and its geometric mean over all problems."""
    size, reference = data.largest(), BASELINE_NAME.get(data.reference, data.reference)
    rows = data.best[(data.best["square"]) & (data.best["m"] == size)].set_index("kernel")
    shown = [kernel for kernel in [*data.kernels, data.reference] if kernel in rows.index]
    rates = {kernel: float(data.rate(rows.loc[kernel, "tflops"])) for kernel in shown}
    figure, axes = plt.subplots(figsize=(11, 1.8 + 0.45 * max(len(shown), 1)))
    colours = data.colours() | {kernel: style[0] for kernel, style in BASELINE_STYLE.items()}
    names = [_nice(kernel) for kernel in shown]
    palette = {_nice(kernel): colours[kernel] for kernel in shown}
    sns.barplot(x=list(rates.values()), y=names, hue=names, palette=palette, legend=False, ax=axes)
    below: float | None = None
    for index, kernel in enumerate(shown):
        text = f" {rates[kernel]:.3g}"
        if not is_baseline(kernel):
            text += f"   ×{rates[kernel] / below:.2f}" if below else ""
            below = rates[kernel]
            mean = geometric_mean(list(data.best.loc[data.best["kernel"] == kernel, "ratio"]))
            text += f"   {100 * rows.loc[kernel, 'ratio']:.3g} % of {reference} here, {100 * mean:.3g} % over all problems"
        axes.text(rates[kernel], index, text, va="center", fontsize=8)
    axes.set_xlabel(
        f"{data.unit}; then the gain over the rung below and the rate relative to {reference} (over all: geometric mean)"
    )
    axes.set_ylabel("")
    axes.set_xlim(0, 1.6 * max(rates.values(), default=1))
    _annotate(figure, data, f"The ladder at M = N = K = {size} on {data.environment['name']}")
    figure.tight_layout(rect=(0, 0.05, 1, 0.98))
    return figure


def parameters(data: Dataset, kernel: str) -> Figure:
    """A heat map: configurations down, problems across, the rate as text and as a share of the problem's best as colour."""
    rows = data.summary[data.summary["kernel"] == kernel]
    problems = list(dict.fromkeys(rows["problem"]))
    table = rows.pivot_table(index="configuration", columns="problem", values="tflops", sort=False).reindex(columns=problems)
    table = data.rate(table.reindex([c for c in dict.fromkeys(rows["configuration"]) if c in table.index]))
    failed = rows.loc[rows["tflops"].isna(), ["configuration", "status"]].drop_duplicates()
    figure, axes = plt.subplots(figsize=(3.6 + 0.85 * max(len(problems), 1), 1.9 + 0.3 * max(len(table), 1)))
    if len(table):
        text = table.map(lambda value: "" if np.isnan(value) else f"{value:.3g}")
        sns.heatmap(100 * table / table.max(), annot=text, fmt="", cmap="cividis", vmin=0, vmax=100, ax=axes, linewidths=0.5,
                    annot_kws={"fontsize": 8}, cbar_kws={"label": "% of the problem's best"})  # fmt: skip
    axes.set_xlabel("problem, M or M×N×K")
    axes.set_ylabel("")
    axes.tick_params(axis="y", rotation=0)
    axes.tick_params(axis="x", rotation=30)
    _annotate(figure, data, f"{_nice(kernel)}: {data.unit} by configuration")
    if len(failed):
        counts = ", ".join(f"{count} {status}" for status, count in failed["status"].value_counts().items())
        axes.set_title(f"not drawn: {counts} (see summary.csv)", fontsize=8, loc="left")
    figure.tight_layout(rect=(0, 0.04, 1, 0.98))
    return figure


FIGURES: dict[str, Callable[[Dataset], Figure]] = {"performance": performance, "ratio": ratio, "ladder": ladder}


def draw(name: str, data: Dataset) -> Figure:
    """The figure of a name: one of `FIGURES`, or `parameters-<kernel>`. Raises `InputError` for another."""
    if name.startswith("parameters-"):
        return parameters(data, name.removeprefix("parameters-"))
    if name not in FIGURES:
        raise InputError(f"unknown figure {name}; expected {', '.join(FIGURES)} or parameters-<kernel>")
    return FIGURES[name](data)


def save(figure: Figure, stem: Path) -> None:
    """Write `stem` with the suffix of every format; no file holds the time at which it was drawn."""
    for suffix in FORMATS:
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}[suffix]
        file = io.BytesIO()
        figure.savefig(file, format=suffix, metadata=metadata, bbox_inches="tight")
        write_whole(stem.with_suffix(f".{suffix}"), file.getvalue())
    plt.close(figure)


def read(path: Path) -> pd.DataFrame:
    """A table as `draw_all` takes it."""
    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def draw_all(summary: pd.DataFrame, best: pd.DataFrame, environment: Mapping[str, Any], folder: Path) -> None:
    """Draw and write every figure of a dataset, `<figure>-<state>.<format>`."""
    _style()
    folder.mkdir(parents=True, exist_ok=True)
    for state in dict.fromkeys(summary["state"]):
        data = Dataset(summary, best, environment, state)
        for name in [*FIGURES, *(f"parameters-{kernel}" for kernel in data.kernels)]:
            save(draw(name, data), folder / f"{name}-{state}")
