"""Hold the data of a figure, with the names, colors and markers that all figures share."""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.patches import Patch

from ladder.analysis.finalists import AS_WARM
from ladder.analysis.kernel_model import KEY
from ladder.analysis.tables import BETWEEN, headline_problem
from ladder.core import verdicts
from ladder.core.stats import between_processes
from ladder.core.types import ELEMENT_TYPES, OF_CUDA, rate_unit
from ladder.core.verdicts import NOT_KNOWN, SAME
from ladder.model.baselines import is_baseline
from ladder.model.hardware_limits import measured_peak, peak_tflops
from ladder.model.kernel_file import is_rung, known

WIDTH, SIZE = 8.6, 14.0
"""The width of a figure in inches, and the size of its text in points: 9 pixels on a screen that is
400 wide.
"""
MOST = 6
"""The most rungs that have a color of their own."""
GRAY, REFERENCE = "#bdbdbd", "#000000"
"""The colors of all other rungs, and of the reference."""
RUNG, CONTEXT = "#4477aa", "#8c8c8c"
"""The colors of rungs that stand by their names, and of what is not ranked."""
DASHES = ["--", ":", "-.", (0, (3, 1, 1, 1, 1, 1)), (0, (5, 1)), (0, (1, 1))]
"""The dashes of what is not ranked, in order."""
BASELINE_NAME = {
    "cublas": "cuBLAS",
    "cublas_fp32_sums": "cuBLAS, FP32 sums",
    "cublas_fast_accum": "cuBLAS, fast accumulation",
    "cublas_tf32": "cuBLAS TF32",
    "cublas_bf16x9": "cuBLAS BF16x9",
    "cublaslt_best": "cuBLASLt's best",
    "blas_1": "BLAS, 1 thread",
    "blas_all": "BLAS, all threads",
}
RATE, RATIO = ("tflops", "tflops_low", "tflops_high"), ("ratio", "ratio_low", "ratio_high")
"""The columns of a value and of the ends of its interval."""
MARKS = {
    "unsteady": ("u", "#000000", "the reference differs from itself"),
    "disturbed": ("o", "#9467bd", "other processes computed meanwhile"),
    "throttled": ("t", "#d62728", "the clock was held down"),
    "drifting": ("d", "#ff7f0e", "times rose or fell within a process"),
    "multimodal": ("m", "#e377c2", "p90/p10 above 1.05"),
    "gaps": ("i", "#8c564b", "the device was idle between launches"),
    "raced": ("~", "#17becf", "eliminated early, few samples"),
    "short gauntlet": ("g", "#2ca02c", "fewer than 20 problems of the gauntlet asked"),
    "16-bit sums": ("s", "#bcbd22", "cuBLAS adds parts of K in 16 bits"),
    "few": ("f", "#8f8f8f", "fewer than three processes"),
}
"""The marks of `best.csv`: the letter in text, the color of a marker's edge, and the meaning."""


def marks_of(row: Mapping[str, Any]) -> list[str]:
    """Return the marks of a row, the gravest first."""
    marks = str(row["marks"]).split("; ")
    return [mark for mark in MARKS if mark in marks]


def three(value: float) -> str:
    """Return a number with three significant digits, without an exponent."""
    if 1e-4 <= abs(value) < 1000:
        return f"{value:#.3g}".rstrip(".")
    return f"{value:.0f}" if 1000 <= value < 1e6 else f"{value:.3g}"


def letters(row: Mapping[str, Any]) -> str:
    """Return the letters of a row's marks."""
    return "".join(MARKS[mark][0] for mark in marks_of(row))


def lettered(value: str, row: Mapping[str, Any]) -> str:
    """Return a value with the letters of its row's marks, such as `~7.01 m`."""
    marks = marks_of(row)
    return ("~" if "raced" in marks else "") + " ".join(
        [value, *(MARKS[mark][0] for mark in marks if mark != "raced")]
    )


def edge(row: Mapping[str, Any]) -> str:
    """Return the color of the edge of a row's marker: that of its gravest mark, or white."""
    return MARKS[marks_of(row)[0]][1] if marks_of(row) else "#ffffff"


def marks_in(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the marks of rows, the gravest first."""
    found = {mark for row in rows for mark in marks_of(row)}
    return [mark for mark in MARKS if mark in found]


def ends(rows: pd.DataFrame, columns: Sequence[str], scale: float = 1.0) -> tuple[Any, Any, Any]:
    """Return the values in columns and the ends of their intervals; the values replace ends that a
    single process does not give.
    """
    value, low, high = (scale * rows[name].to_numpy(dtype=float) for name in columns)
    return value, np.where(low > 0, low, value), np.where(np.isfinite(high), high, value)


class View:
    """A dataset as a figure shows it: its tables for one element type and state, and what labels
    need.
    """

    def __init__(
        self, tables: Mapping[str, pd.DataFrame], environment: Mapping[str, Any], state: str
    ) -> None:
        tables = {
            name: table.astype({"problem": str}) if "state" in table else table
            for name, table in tables.items()
        }
        summary, best = tables["summary"], tables["best"]
        self.models = tables["models"]
        self.key = [name for name in KEY if name in self.models]
        """The columns that identify a configuration on a problem there: all, or without batches."""
        self.environment, self.state = environment, state
        self.summary, self.pairs, self.rounds, self.references = (
            tables[name][tables[name]["state"] == state]
            for name in ("summary", "pairs", "rounds", "references")
        )
        square = best["problem"].str.fullmatch(r"\d+")
        best = best.assign(
            square=square,
            as_warm=best["reason"].astype(str).str.startswith(AS_WARM) & best["tflops"].isna(),
        )
        self.best = best[(best["state"] == state) & best["tflops"].notna()]
        """The best configurations with a rate in this state."""
        self.as_warm = best[(best["state"] == state) & best["as_warm"]]
        """The best configurations that were not measured in this state, because it makes no
        difference to them.
        """
        self.sustained = best[(best["state"] == "sustained") & best["tflops"].notna()]
        """The best configurations with a rate of launches back to back."""
        keys = ["kernel", "element_type", "problem"]
        warm = best[(best["state"] == "warm") & best["tflops"].notna()]
        self.whole = pd.concat(
            [self.best, warm.merge(self.as_warm[keys], on=keys).assign(as_warm=True)],
            ignore_index=True,
        )
        """`best` and `as_warm`; the latter with their rates in the warm state."""
        self.left_out = str(best["shown"].iloc[0]) if "shown" in best else ""
        """A sentence about what figures do not show of a large campaign, or ""."""
        self.order = list(dict.fromkeys(best["problem"]))
        """The labels of all problems, in order."""
        self.headline = headline_problem(best) if best["tflops"].notna().any() else ""
        """The label of the problem at which the ladder is shown."""
        self.unit, self.unit_size = rate_unit(environment["kind"])
        self.device = environment["name"]
        easier = set(best.loc[best["precision"].notna(), "kernel"])
        have = set(self.whole["kernel"])
        names = [kernel for kernel in dict.fromkeys(best["kernel"]) if kernel in have]
        self.kernels = [
            kernel for kernel in names if not is_baseline(kernel) and kernel not in easier
        ]
        self.reference = str(summary["reference"].iloc[0]) if len(summary) else ""
        others = [kernel for kernel in names if kernel not in self.kernels]
        self.baselines = sorted(others, key=lambda kernel: kernel != self.reference)
        """The reference, then what is not ranked: other baselines, and kernels that round their
        operands.
        """
        self.names = [*self.kernels, *self.baselines]
        tensor = set(self.whole.loc[self.whole["tensor_cores"].astype(bool), "kernel"])
        self.plain = [kernel for kernel in self.kernels if kernel not in tensor] or self.kernels
        """The rungs without tensor cores, or all if each uses them."""
        self.apart = [
            name
            for name in self.names
            if name in easier or (name in self.kernels and name not in self.plain)
        ]
        """What panels of other rungs have no place for: it is several times as fast."""
        self.element_type = str(summary["element_type"].iloc[0]) if len(summary) else ""
        gpus = max(self.references["uuid"].nunique(), 1)
        self.measured = (
            f"{'One' if gpus == 1 else gpus} {self.device}, {environment['time'][:10]}, "
            f"{self.element_type}, {state}."
        )
        """On what, when and how all was measured."""
        self.distribution = ", ".join(dict.fromkeys(summary["distribution"].astype(str)))
        on_tensor = self.element_type in OF_CUDA
        self.peak_name, self.by_clock = (
            (f"{8 * ELEMENT_TYPES[self.element_type].size}-bit peak", "tensor cores × clock")
            if on_tensor
            else ("FP32 peak", "lanes × clock")
        )
        attributes, peak = environment["attributes"], measured_peak(environment, self.element_type)
        self.peak = peak / self.unit_size if peak else None
        """The measured peak in the device's unit; None where it is not measured."""
        known = self.peak and environment["kind"] == "cuda" and attributes.get("max_sm_clock_mhz")
        self.clock_peak = (
            peak_tflops(environment, self.element_type, on_tensor) / self.unit_size
            if known
            else None
        )
        """That peak by arithmetic: operations per clock, at the highest clock."""

    def rate(self, tflops: Any) -> Any:
        """Convert TFLOP/s to the device's unit."""
        return tflops / self.unit_size

    @staticmethod
    def easier(row: Mapping[str, Any]) -> bool:
        """Return whether a row belongs to a call or kernel that rounds its operands."""
        return bool(pd.notna(row["precision"]))

    def nice(self, kernel: str) -> str:
        """Return the display name of a kernel or baseline."""
        return BASELINE_NAME.get(kernel, kernel.replace("_", " "))

    def at(self, problem: str) -> pd.DataFrame:
        """Return the rows of `whole` for one problem, by kernel: rungs in their order, then the
        baselines.
        """
        rows = (
            self.whole[self.whole["problem"] == problem]
            .drop_duplicates("kernel")
            .set_index("kernel")
        )
        return rows.loc[[kernel for kernel in self.names if kernel in rows.index]]

    def where(self) -> str:
        """Return the sizes of the problem at which the ladder is shown, as text."""
        sizes = self.headline.replace("x", " × ")
        return sizes if "×" in sizes else f"M = N = K = {sizes}"

    def builds_on(self, kernel: str) -> str | None:
        """Return the rung that a rung improves, by its header or as the one before it; None if it
        was not measured.
        """
        header = known().get(kernel)
        base = header.builds_on if header and header.builds_on else self._below.get(kernel)
        return base if base in self._below else None

    @cached_property
    def _below(self) -> dict[str, str | None]:
        """The rung before each rung."""
        rungs = [name for name in self.kernels if is_rung(name)]
        return dict(zip(rungs, [None, *rungs], strict=False))

    def gain(self, kernel: str, other: str, problem: str) -> Mapping[str, Any] | None:
        """Return the row of `pairs` for a rung's gain over another one, or what `over` computes if
        there is none.
        """
        row = self._gains.get((kernel, problem))
        return (
            row if row is not None and row["other"] == other else self.over(kernel, other, problem)
        )

    def over(self, kernel: str, other: str, problem: str) -> Mapping[str, Any] | None:
        """Return the speedup over another kernel or baseline, each at its best: `ratio` and
        `verdict`, as in `pairs.csv`.

        It uses the rounds in which both were timed. If they were timed apart, it uses their ratios
        to the reference.
        """
        rounds = self.rounds[self.rounds["problem"] == problem]
        rounds = rounds.assign(speedup=rounds["reference_us"] / rounds["time_us"])
        of_kernel, of_other = (rounds[rounds["kernel"] == name] for name in (kernel, other))
        medians, of_others = (
            rows.groupby("process")["speedup"].median() for rows in (of_kernel, of_other)
        )
        processes = []
        for process, both in of_kernel.merge(
            of_other, on=["process", "round"], suffixes=("", "_other")
        ).groupby("process"):
            # if so, the rounds are the same
            if (both["reference_us"] == both["reference_us_other"]).all():
                processes.append(list(both["time_us_other"] / both["time_us"]))
            else:
                processes.append([medians[process] / of_others[process]])
        if not processes:
            return None
        ratio, low, high = between_processes(processes)
        return {
            "ratio": ratio,
            "verdict": verdicts.of(low, high) if math.isfinite(high) else verdicts.UNCONFIRMED,
        }

    @cached_property
    def shapes(self) -> list[str]:
        """The labels of all problems that are not squares, by size."""
        rows = self.best[~self.best["square"]].sort_values(["m", "n", "k"], kind="stable")
        return list(dict.fromkeys(rows["problem"]))

    @cached_property
    def _gains(self) -> dict[tuple[str, str], Mapping[str, Any]]:
        return _first(self.pairs[self.pairs["pair"] == "gain"])

    @cached_property
    def best_rows(self) -> dict[tuple[str, str], Mapping[str, Any]]:
        """The rows of `best` by kernel and problem."""
        return _first(self.best)

    @cached_property
    def prominent(self) -> list[str]:
        """The rungs that have a color, at most `MOST`, in order.

        They are the fastest one without tensor cores at the headline, the fastest ones of all
        problems, and the others that are fastest at the headline.
        """
        if len(self.kernels) <= MOST:
            return self.kernels
        at = self.at(self.headline)
        first = at.loc[at.index.isin(self.plain), "ratio"].nlargest(1).index
        rows = self.whole[self.whole["kernel"].isin(self.kernels)]
        fastest = rows.loc[rows.groupby("problem")["ratio"].idxmax(), "kernel"].value_counts().index
        here = at.loc[at.index.isin(self.kernels), "ratio"].nlargest(MOST).index
        chosen = list(dict.fromkeys([*first, *fastest[: MOST // 2], *here]))[:MOST]
        return [kernel for kernel in self.kernels if kernel in chosen]

    @cached_property
    def colors(self) -> dict[str, Any]:
        """The color of each kernel and baseline, in hues that color-blind readers can
        distinguish.
        """
        palette = sns.color_palette("colorblind")
        hues = dict(zip(self.prominent, (palette[i] for i in (0, 1, 2, 3, 4, 9)), strict=False))
        rungs = {kernel: hues.get(kernel, GRAY) for kernel in self.kernels}
        return rungs | {
            kernel: REFERENCE if kernel == self.reference else CONTEXT for kernel in self.baselines
        }

    def dashes(self) -> dict[str, Any]:
        """Return the dashes of each kernel and baseline; only what is not ranked has any."""
        unranked = dict(
            zip(
                self.baselines[self.reference in self.baselines :],
                DASHES * len(self.baselines),
                strict=False,
            )
        )
        return dict.fromkeys([*self.kernels, self.reference], "-") | unranked

    def as_warm_note(self) -> str:
        """Return a sentence that says from which size on each kernel's `cold` equals its `warm`,
        because its line ends there.
        """
        problems: dict[str, list[str]] = {}
        for kernel in self.names:
            rows = self.as_warm[self.as_warm["kernel"] == kernel]
            words = (
                [f"from {rows.loc[rows['square'], 'm'].min()} up"] if rows["square"].any() else []
            )
            words += [
                f"at {problem.replace('x', '×')}"
                for problem in rows.loc[~rows["square"], "problem"]
            ]
            if words:
                problems.setdefault(", ".join(words), []).append(self.brief(kernel))
        if not problems:
            return ""
        listed = "; ".join(f"{', '.join(kernels)} {where}" for where, kernels in problems.items())
        return f"Lines end where a launch takes so long that {self.state} is as warm: {listed}."

    def brief(self, kernel: str) -> str:
        """Return the number of a rung, or the name of a baseline."""
        return self.nice(kernel) if is_baseline(kernel) else kernel.split("_")[0]

    def kind_of_interval(self) -> str:
        """Return the kind of the intervals of `best`, such as `95 % between-process intervals`."""
        return (
            f"95 % {self.best['interval'].iloc[0]} intervals" if len(self.best) else "no intervals"
        )

    def intervals(self) -> str:
        """Return a sentence about the kind and width of the intervals of `best`."""
        best = self.best
        if best.empty:
            return "no results"
        kind = str(best["interval"].iloc[0])
        width = (
            ((best["tflops_high"] - best["tflops_low"]) / 2 / best["tflops"])
            .replace(np.inf, np.nan)
            .quantile(0.9)
        )
        count = span(best["samples"])
        of = f" in {span(best['processes'])} processes" if kind == BETWEEN else ""
        within = f"nine in ten within ±{100 * width:.1f} %" if width < 1 else NOT_KNOWN
        return f"Intervals: {kind}, 95 %, {within}; n = {count} samples a point{of}."

    def note(self, intervals: str | None = None) -> str:
        """Return what every figure's description says: device, power limit, software, operands,
        date, commit, samples, intervals and peaks.

        `intervals` replaces the sentence about the intervals of `best`.
        """
        env = self.environment
        attributes, limit = env["attributes"], env["attributes"].get("power_limit_w")
        commit = (env["project"]["commit"] or "unknown")[:10] + (
            ", changed" if env["project"]["dirty"] else ""
        )
        name = env["name"] + (f" (power limit {limit:g} W)" if limit else "")
        whose = (
            f"{name}, {attributes['library']}, {self.element_type}, operands "
            f"{self.distribution}, {self.state}"
        )
        sentences = [
            f"{whose}, {env['time'][:10]}, commit {commit}.",
            self.intervals() if intervals is None else intervals,
        ]
        if self.peak:
            by_clock = f"; {three(self.clock_peak)} by {self.by_clock}" if self.clock_peak else ""
            sentences.append(
                f"{self.peak_name} {three(self.peak)} {self.unit}, measured{by_clock}."
            )
        if "repeated_launch_us" in env:
            sentences.append(
                f"Empty launch {env['launch_us']:.2g} µs, repeated {env['repeated_launch_us']:.2g}."
            )
        return " ".join(filter(None, sentences))


def _first(table: pd.DataFrame) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Return the first row of each kernel and problem."""
    return {(row["kernel"], row["problem"]): row for row in reversed(table.to_dict("records"))}


def span(values: Sequence[float]) -> str:
    """Return the range of whole numbers as text: `5–8`, or `5`."""
    low, high = int(min(values)), int(max(values))
    return str(low) if low == high else f"{low}–{high}"


def gain_text(gain: Mapping[str, Any]) -> str:
    """Return a gain over another rung as text, such as `×1.92`, or `≈ ×1.00` if it cannot be
    distinguished from none.
    """
    return f"{'≈ ' if gain['verdict'] == SAME else ''}×{three(gain['ratio'])}"


def hatches(row: Mapping[str, Any]) -> str:
    """Return the hatch of a bar; only bars of marked rows have one."""
    return "////" if marks_of(row) else ""


HATCHED = Patch(facecolor="#ffffff", edgecolor="#666666", hatch="////", label="hatched: flagged")
