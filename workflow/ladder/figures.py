"""The figures, each drawn from a dataset's tables and environment alone; no device is touched.

Every figure is written as SVG, PNG and PDF, the same bytes for the same data.
"""

import io
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
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
from ladder.models import KEY, l1_tb_s
from ladder.statistics import geometric_mean
from ladder.tables import is_baseline
from ladder.units import ELEMENT_TYPES, InputError, rate_unit

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
    """The tables of one device, element type and state, with what every figure's labels need."""

    def __init__(
        self, summary: pd.DataFrame, best: pd.DataFrame, models: pd.DataFrame, environment: Mapping[str, Any], state: str
    ) -> None:
        self.models = models
        self.summary = summary[summary["state"] == state]
        self.best = best[best["state"] == state].assign(square=lambda t: (t["m"] == t["n"]) & (t["n"] == t["k"]))
        self.environment, self.state = environment, state
        self.unit, self.unit_size = rate_unit(environment["kind"])
        self.kernels = [kernel for kernel in dict.fromkeys(self.best["kernel"]) if not is_baseline(kernel)]
        self.baselines = [kernel for kernel in dict.fromkeys(self.best["kernel"]) if is_baseline(kernel)]
        self.reference = str(summary["reference"].iloc[0]) if len(summary) else ""
        self.element_type = str(summary["element_type"].iloc[0]) if len(summary) else ""
        self.peak: float | None = environment["peaks"]["fp32_tflops"] / self.unit_size if self.element_type == "float32" else None
        """The measured peak, which is one of float32."""

    def rate(self, tflops: Any) -> Any:
        """TFLOP/s in the device's unit."""
        return tflops / self.unit_size

    def largest(self) -> tuple[str, pd.DataFrame]:
        """The problem that the ladder is shown at, in words, and its rows of `best`.

        It is the largest that every kernel has a result for (else the largest of any), among the squares where there are any.
        """
        rows = self.best[self.best["square"]] if self.best["square"].any() else self.best
        kernels = rows.groupby("problem")["kernel"].agg(lambda of: len(set(of) & set(self.kernels)))
        rows = rows[rows["problem"].map(kernels) == kernels.max()]
        rows = rows[rows["problem"] == rows.loc[(rows["m"] * rows["n"] * rows["k"]).idxmax(), "problem"]]
        m, n, k = rows.iloc[0][["m", "n", "k"]]
        return f"M = N = K = {m}" if m == n == k else f"M = {m}, N = {n}, K = {k}", rows

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
        empty = (
            f" Empty launch {env['launch_us']:.2g} µs, repeated {env['repeated_launch_us']:.2g}."
            if "repeated_launch_us" in env
            else ""
        )
        return (
            f"{env['name']}, {library}, {self.element_type}, {self.state}, {env['time'][:10]}, commit {commit}. Medians, {n}; "
            f"nine in ten 95 % intervals within ±{100 * width:.1f} %.{empty}"
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
    return _two_panels(
        data, title, "tflops", data.rate, f"{data.unit} (log)", data.peak, f"measured FP32 peak, {data.peak or 0:.3g}"
    )


def ratio(data: Dataset) -> Figure:
    """Rate relative to the reference of the same rounds."""
    name = BASELINE_NAME.get(data.reference, data.reference)
    title = f"Speed relative to {name} on {data.environment['name']}"
    return _two_panels(data, title, "ratio", lambda r: 100 * r, f"per cent of {name}'s rate (log)", None, "")


def ladder(data: Dataset) -> Figure:
    """Every rung at one size and its gain over the rung below, beside the reference; and its geometric mean over all problems."""
    (where, rows), reference = data.largest(), BASELINE_NAME.get(data.reference, data.reference)
    rows = rows.set_index("kernel")
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
    _annotate(figure, data, f"The ladder at {where} on {data.environment['name']}")
    figure.tight_layout(rect=(0, 0.05, 1, 0.98))
    return figure


def roofline(data: Dataset) -> Figure:
    """Every rung at one size, under the measured peak and bandwidth: at the traffic it issues, and at the least it could do with."""
    where, rows = data.largest()
    rows = rows.merge(data.models.drop(columns="problem"), on=KEY, how="left")
    rows, colours, markers = rows.set_index("kernel"), data.colours(), data.markers()
    least = float(rows["compulsory_intensity"].max())
    figure, axes = plt.subplots(figsize=(11, 6.2))
    low, high = np.nanmin([*rows["intensity"], least]) / 3, least * 3
    bottom = data.rate(rows["tflops"].min()) / 3
    roofs = [(data.environment["peaks"]["copy_tb_s"], "#b22222", "memory, measured copy")]
    l1 = l1_tb_s(data.environment) if data.environment["kind"] == "cuda" else None
    if l1:
        roofs.append((l1, "#4682b4", "L1 and shared memory, 128 B a cycle and SM"))
    top = data.peak or data.rate(max(bandwidth for bandwidth, _, _ in roofs) * high)
    for bandwidth, colour, name in roofs:
        edge = top / data.rate(bandwidth) if data.peak else high
        axes.plot([low, edge], [data.rate(bandwidth * low), data.rate(bandwidth * edge)], color=colour, lw=1.8, zorder=2)
        middle = (max(low, edge * bottom / data.rate(bandwidth * edge)) * edge) ** 0.5
        at = middle, data.rate(bandwidth * middle) * 1.08
        axes.text(*at, f"{name}: {bandwidth:.3g} TB/s", color=colour, fontsize=8.5, ha="center", va="bottom", rotation_mode="anchor",
                  rotation=np.degrees(np.arctan2(at[1], at[0])), transform_rotates_text=True)  # fmt: skip
    if data.peak:
        axes.plot([edge, high], [data.peak] * 2, color="#000000", ls=":", lw=1.8)
        axes.text(high, data.peak * 1.06, f"measured FP32 peak: {data.peak:.3g} {data.unit}", fontsize=8.5, ha="right")
    axes.axvline(least, color="#999999", lw=0.8, zorder=1)
    for kernel in [kernel for kernel in [*data.kernels, data.reference] if kernel in rows.index]:
        row, rate = rows.loc[kernel], data.rate(rows.loc[kernel, "tflops"])
        colour, marker = ("#000000", "_") if is_baseline(kernel) else (colours[kernel], markers[kernel])
        axes.plot([row["intensity"], least], [rate] * 2, color=colour, lw=0.7, ls=":", zorder=3)
        axes.plot(least, rate, marker, color=colour, mfc="white", ms=14 if is_baseline(kernel) else 6, mew=1.5, zorder=4)
        axes.plot(row["intensity"], rate, marker, color=colour, ms=8, mec="white", mew=0.6, zorder=5)
        axes.plot([row["intensity"]] * 2, [rate, data.rate(row["bound_tflops"])], color=colour, lw=0.9, zorder=3)
        axes.plot(row["intensity"], data.rate(row["bound_tflops"]), "_", color=colour, ms=9, mew=1.6, zorder=4)
        axes.plot([], [], marker, color=colour, ls="", label=f"{_nice(kernel)}: {rate:.3g}")
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(bottom, top * 1.7), ylabel=f"{data.unit} (log)")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(_plain))
        axis.set_minor_locator(NullLocator())
    axes.set_xlabel(
        "arithmetic intensity in FLOP/byte (log)\n"
        "filled: by every element that the threads read or write, wherever it is found, so caches can lift it above the memory roof;\n"
        "the tick above it is its own bound by the model. Open: by every element of A, B and C once, the least traffic there can be"
    )
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles[::-1], names[::-1], title=data.unit, loc="center left", bbox_to_anchor=(0.995, 0.55), frameon=False)
    _annotate(figure, data, f"Roofline at {where} on {data.environment['name']}")
    figure.tight_layout(rect=(0, 0.03, 1, 0.98))
    return figure


def _size(rows: pd.DataFrame) -> Any:
    """Bytes of an element, for every row."""
    return rows["element_type"].map({name: element.size for name, element in ELEMENT_TYPES.items()})


COUNTED: dict[str, tuple[str, Callable[[pd.DataFrame], Any]]] = {
    "global_read_sectors": ("sectors of 32 B read by threads", lambda t: t["global_sectors"]),
    "l2_read_sectors": ("sectors of 32 B read from L2\n(model: none found in L1)", lambda t: t["global_sectors"]),
    "shared_wavefronts": ("shared-memory wavefronts", lambda t: t["shared_wavefronts_model"]),
    "bank_conflicts": ("wavefronts added by bank conflicts", lambda t: t["bank_conflicts_model"]),
    "dram_read_bytes": ("bytes read from device memory\n(model: A and B once)", lambda t: _size(t) * t["k"] * (t["m"] + t["n"])),
    "instructions": ("instructions of warps\n(model: multiply-adds alone)", lambda t: t["flops"] / 64),
    "warps_percent": ("resident warps, % of the most\n(model: occupancy)", lambda t: 100 * t["occupancy"]),
    "issue_percent": ("cycles in which an instruction was issued, %\n(no model)", lambda t: t["occupancy"] * np.nan),
}
"""Columns of `counters.csv` that are drawn, with what the model says of them."""


def counters(data: Dataset, counts: pd.DataFrame) -> Figure:
    """Model against hardware counter, a panel a counter, a line a rung."""
    rows = counts.merge(data.models, on=KEY, how="left", suffixes=("", "_model"))
    names = [_nice(kernel) for kernel in rows["kernel"]]
    figure, grid = plt.subplots(2, 4, figsize=(15, 2.6 + 0.5 * max(len(rows), 2)), sharey=True)
    for axes, (column, (label, modelled)) in zip(grid.flat, COUNTED.items(), strict=True):
        unit = 1 if column.endswith("_percent") else rows["flops"] / 2000
        logarithmic = column in ("global_read_sectors", "l2_read_sectors", "shared_wavefronts")
        for values, marker, colour, name in (
            (modelled(rows), "s", "#d55e00", "model"),
            (rows[column], "o", "#0072b2", "counted"),
        ):
            values = values.astype(float).replace(0, np.nan if logarithmic else 0) / unit
            axes.plot(values, names, marker, color=colour, mfc="none" if marker == "s" else colour, ms=9 if marker == "s" else 5,
                      mew=1.6, clip_on=False, label=name)  # fmt: skip
        axes.set_title(label, fontsize=9)
        if logarithmic:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
            axes.xaxis.set_major_formatter(FuncFormatter(_plain))
            axes.xaxis.set_minor_locator(NullLocator())
        else:
            axes.set_xlim(0, 105 if column.endswith("_percent") else None)
        axes.set_xlabel("%" if column.endswith("_percent") else "per 1000 multiply-adds", fontsize=8.5)
    grid[0, 0].invert_yaxis()
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="upper right", ncols=2, frameon=False)
    size = f" at M = N = K = {rows['m'].iloc[0]}" if len(rows) else ""
    _annotate(figure, data, f"Model and hardware counters{size} on {data.environment['name']}")
    missing = rows["reason"].dropna()
    if len(missing):
        text = f"{len(missing)} of {len(rows)} not counted: {missing.iloc[0][:150]}"
        figure.text(0.01, 0.93, text, fontsize=9, color="#b22222", va="top")
    figure.tight_layout(rect=(0, 0.04, 1, 0.94 if len(missing) else 0.98))
    return figure


def gpus(data: Dataset) -> Figure:
    """How much GPUs of one model differ: the reference, which every measurement has beside it, on each relative to all of them."""
    rows = data.summary[data.summary["reference_us"].notna()].sort_values(["m", "n", "k"], kind="stable")
    relative = 100 * (rows["reference_us"] / rows.groupby("problem")["reference_us"].transform("median") - 1)
    names = [f"{uuid[:12]}…" for uuid in sorted(rows["uuid"].unique())]
    whose = rows["uuid"].map(dict(zip(sorted(rows["uuid"].unique()), names, strict=True)))
    figure, axes = plt.subplots(figsize=(11, 5.2))
    common = {
        "x": rows["problem"],
        "y": relative,
        "hue": whose,
        "hue_order": names,
        "palette": "colorblind",
        "dodge": True,
        "ax": axes,
    }
    sns.stripplot(**common, size=3.5, alpha=0.5, legend=False, jitter=False)
    sns.boxplot(**common, fliersize=0, linewidth=0.8, boxprops={"alpha": 0.35}, gap=0.2)
    axes.axhline(0, color="#444444", lw=0.8, zorder=1)
    axes.set_xlabel("problem, M or M×N×K")
    reference = BASELINE_NAME.get(data.reference, data.reference)
    axes.set_ylabel(f"time of {reference}, % above the median of all GPUs")
    axes.legend(title="GPU", loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    _annotate(figure, data, f"{len(names)} × {data.environment['name']}: {reference}, timed beside every kernel")
    figure.tight_layout(rect=(0, 0.03, 1, 0.98))
    return figure


def parameters(data: Dataset, kernel: str) -> Figure:
    """A heat map: configurations down, problems across, the rate as text and as a share of the problem's best as colour."""
    rows = data.summary[data.summary["kernel"] == kernel]
    problems = list(dict.fromkeys(rows["problem"]))
    table = rows.pivot_table(index="configuration", columns="problem", values="tflops", sort=False).reindex(columns=problems)
    table = data.rate(table.reindex([c for c in dict.fromkeys(rows["configuration"]) if c in table.index]))
    lost = rows[rows["stop"] == "race"].pivot_table(index="configuration", columns="problem", values="samples")
    lost = lost.reindex(index=table.index, columns=table.columns).notna()
    failed = rows.loc[rows["tflops"].isna(), ["configuration", "status"]].drop_duplicates()
    figure, axes = plt.subplots(figsize=(3.6 + 0.85 * max(len(problems), 1), 1.9 + 0.3 * max(len(table), 1)))
    if len(table):
        text = table.map(lambda value: "" if np.isnan(value) else f"{value:.3g}").where(~lost, lambda shown: "~" + shown)
        sns.heatmap(100 * table / table.max(), annot=text, fmt="", cmap="cividis", vmin=0, vmax=100, ax=axes, linewidths=0.5,
                    annot_kws={"fontsize": 8}, cbar_kws={"label": "% of the problem's best"})  # fmt: skip
    axes.set_xlabel("problem, M or M×N×K")
    axes.set_ylabel("")
    axes.tick_params(axis="y", rotation=0)
    axes.tick_params(axis="x", rotation=30)
    _annotate(figure, data, f"{_nice(kernel)}: {data.unit} by configuration")
    notes = []
    if len(failed):
        counts = ", ".join(f"{count} {status}" for status, count in failed["status"].value_counts().items())
        notes.append(f"not drawn: {counts} (see summary.csv)")
    if lost.to_numpy().any():
        fewest = rows.loc[rows["stop"] == "race", "samples"].min()
        notes.append(f"~: lost the race, n = {fewest:.0f} samples or more")
    axes.set_title("; ".join(notes), fontsize=8, loc="left")
    figure.tight_layout(rect=(0, 0.04, 1, 0.98))
    return figure


def comparison(datasets: Mapping[str, Dataset]) -> Figure:
    """Datasets of one campaign and device kind side by side: each kernel's rate, and its rate relative to each one's own reference."""
    first = next(iter(datasets.values()))
    where, common = min((data.largest() for data in datasets.values()), key=lambda found: found[1].iloc[0]["m"])
    labels = {name: f"{name}: {data.environment['name']}" for name, data in datasets.items()}
    rows = pd.concat([data.best.assign(dataset=labels[name]) for name, data in datasets.items()], ignore_index=True)
    rows = rows[rows["problem"] == common["problem"].iloc[0]]
    shown = [kernel for kernel in [*first.kernels, first.reference] if kernel in set(rows["kernel"])]
    figure, panels = plt.subplots(1, 2, figsize=(12, 2.2 + 0.3 * len(shown) * len(datasets)), sharey=True)
    reference = _nice(first.reference)
    for axes, column, low, high, scale, label in (
        (panels[0], "tflops", "tflops_low", "tflops_high", 1 / first.unit_size, first.unit),
        (panels[1], "ratio", "ratio_low", "ratio_high", 100.0, f"per cent of the rate of {reference} in the same dataset"),
    ):
        scaled = rows.assign(kernel=rows["kernel"].map(_nice), **{name: rows[name] * scale for name in (column, low, high)})
        order, hues = [_nice(kernel) for kernel in shown], list(labels.values())
        sns.barplot(
            scaled, x=column, y="kernel", hue="dataset", order=order, hue_order=hues, palette="viridis", errorbar=None, ax=axes
        )
        for hue, bars in zip(hues, axes.containers, strict=True):
            mine = scaled[scaled["dataset"] == hue].set_index("kernel").reindex(order)
            middles = [bar.get_y() + bar.get_height() / 2 for bar in bars]
            axes.hlines(middles, mine[low], mine[high], color="#b22222", lw=1.6)
        axes.set(xlabel=f"{label} (line: 95 % interval)", ylabel="", xlim=(0, None))
        axes.get_legend().remove()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="center left", bbox_to_anchor=(0.995, 0.5), frameon=False)
    figure.suptitle(f"Best configurations at {where}, {first.element_type}", x=0.01, ha="left", fontsize=13, fontweight="bold")
    notes = "\n".join(f"{name}: {data.note()}" for name, data in datasets.items())
    figure.text(0.01, 0, notes, ha="left", va="top", fontsize=7.5, color="#444444")
    figure.tight_layout(rect=(0, 0.02, 1, 0.98))
    return figure


FIGURES: dict[str, Callable[[Dataset], Figure]] = {
    "performance": performance,
    "ratio": ratio,
    "ladder": ladder,
    "roofline": roofline,
    "gpus": gpus,
}


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


def draw_all(
    summary: pd.DataFrame,
    best: pd.DataFrame,
    models: pd.DataFrame,
    environment: Mapping[str, Any],
    folder: Path,
    threads: int = 1,
) -> None:
    """Draw and write every figure of a dataset, `<figure>-<state>.<format>`; `<figure>-<element type>-<state>` of types but float32."""
    _style()
    folder.mkdir(parents=True, exist_ok=True)
    states, tasks = list(dict.fromkeys(summary["state"])), []
    for element_type, state in product(dict.fromkeys(summary["element_type"]), states):
        mine = [table[table["element_type"] == element_type] for table in (summary, best, models)]
        data = Dataset(mine[0], mine[1], mine[2], environment, state)
        if data.best.empty:  # nothing has a rate, as where all that was asked for `cold` is as `warm`
            continue
        # the sweep is that of the first state; another may have followed its best configurations only
        sweeps = [f"parameters-{kernel}" for kernel in data.kernels] if state == states[0] else []
        which = state if element_type == "float32" else f"{element_type}-{state}"
        several = data.summary.loc[data.summary["reference_us"].notna(), "uuid"].nunique() > 1
        names = [name for name in (*FIGURES, *sweeps) if several or name != "gpus"]
        tasks += [(data, name, folder / f"{name}-{which}") for name in names]
    if threads == 1:
        list(map(_draw_and_save, tasks))
        return
    with ProcessPoolExecutor(threads, mp_context=get_context("fork")) as pool:
        list(pool.map(_draw_and_save, tasks))


def _draw_and_save(task: tuple[Dataset, str, Path]) -> None:
    data, name, stem = task
    save(draw(name, data), stem)


def draw_counters(
    counts: pd.DataFrame,
    summary: pd.DataFrame,
    best: pd.DataFrame,
    models: pd.DataFrame,
    environment: Mapping[str, Any],
    stem: Path,
) -> None:
    """Draw model against count and write it as `stem` in every format."""
    _style()
    save(counters(Dataset(summary, best, models, environment, str(summary["state"].iloc[0])), counts), stem)


def draw_comparison(
    tables: Mapping[str, tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]],
    environments: Mapping[str, Mapping[str, Any]],
    stem: Path,
) -> None:
    """Draw datasets side by side, in the first element type and state measured, and write it as `stem` in every format.

    `tables` are each one's summary, best and models.
    """
    _style()
    datasets = {}
    for name, (summary, best, models) in tables.items():
        element_type, state = summary["element_type"].iloc[0], str(summary["state"].iloc[0])
        mine = [table[table["element_type"] == element_type] for table in (summary, best, models)]
        datasets[name] = Dataset(mine[0], mine[1], mine[2], environments[name], state)
    save(comparison(datasets), stem)
