"""Make the part of a page about the fastest rungs of 16-bit elements beside cuBLAS."""

from collections.abc import Sequence
from statistics import median

from ladder.claims.study import NOTHING
from ladder.core.stats import geometric_mean
from ladder.core.types import OF_CUDA
from ladder.core.verdicts import SAME, interval
from ladder.figures.data import View, lettered
from ladder.model.problem import Problem
from ladder.publishing.page_cells import _code, _kind, _legend, _shown, _table, _whence
from ladder.publishing.page_data import Row, Story
from ladder.publishing.page_past import TUNED, fastest_rungs

COLUMNS = ["problem", "rung", "TFLOP/s", "cuBLAS", "between-process", "FP32 sums", "fastest algorithm", "error", "configuration"]


def half(story: Story, name: str) -> str:
    """Return, for each 16-bit type of a published campaign, the fastest rung on every problem and back to back, as ratios of throughput."""
    parts = []
    for element_type in reversed(OF_CUDA):
        data = story.campaign(name, element_type)
        if data is not None and len(data.best):
            parts.append(f"**{element_type}.** {_warm(data)}")
            sustained = story.campaign(name, element_type, "sustained")
            if sustained is not None and len(sustained.best):
                parts.append(_sustained_rates(sustained))
    return "\n\n".join([f"{_whence(data)}.", *parts]) if parts and data else f"{NOTHING.capitalize()}."


def held_out_of_16_bits(story: Story, name: str, element_type: str) -> str:
    """Return how many of the problems that nothing was tuned on have a rung ahead of cuBLAS, and the mean where rows are aligned."""
    data = story.campaign(name, element_type)
    rows = [row for row in fastest_rungs(data) if row["problem"] not in TUNED] if data else []
    if not rows:
        return NOTHING
    ahead, least, aligned = sum(row["ratio"] >= 1 for row in rows), min(row["ratio"] for row in rows), _aligned(rows)
    return (
        f"ahead of cuBLAS on {ahead} of {len(rows)} shapes that no kernel was tuned on, and {least:.3f} times as fast on the worst; where "
        f"rows begin at 16 bytes they are {geometric_mean(aligned):.3f} times as fast (geometric mean of {len(aligned)} shapes)"
    )


def _warm(data: View) -> str:
    rows = fastest_rungs(data)
    baselines = {kernel: of.set_index("problem") for kernel, of in data.best.groupby("kernel")}
    errors = baselines[data.reference]["frobenius_error"]
    lines = []
    for row in rows:
        others = [
            f"×{row['ratio'] / baselines[kernel]['ratio'][row['problem']]:.3f}"
            if kernel in baselines and row["problem"] in baselines[kernel].index
            else "–"
            for kernel in ("cublas_fp32_sums", "cublaslt_best")
        ]
        lines.append([
            _shown(row["problem"]), _code(row["kernel"]), f"{row['tflops']:.0f}", lettered(f"×{row['ratio']:.3f}", row),
            interval(".3f", row["ratio"], row["ratio_low"], row["ratio_high"]), *others,
            f"×{row['frobenius_error'] / errors[row['problem']]:.2f}", f"`{row['configuration']}`",
        ])  # fmt: skip
    ahead, behind = sum(row["ratio"] >= 1 for row in rows), [_shown(row["problem"]) for row in rows if row["ratio_high"] < 1]
    ratios, listed = [float(row["ratio"]) for row in rows], f" ({'; '.join(behind)})" if behind else ""
    text = (
        f"Single launches are ahead of cuBLAS on {ahead} of these {len(rows)} problems, and with the whole interval behind on "
        f"{len(behind)}{listed}. The median is ×{median(ratios):.3f}, the least ×{min(ratios):.3f}"
    )
    if set(data.order) <= set(TUNED):
        text += ". The rungs were tuned on these problems:"
    else:
        text += ". Nothing was tuned on these problems"
        aligned = _aligned(rows)
        text += f"; over the {len(aligned)} whose rows begin at 16 bytes, the geometric mean is ×{geometric_mean(aligned):.3f}:"
    nulls = data.pairs[data.pairs["pair"] == "null"]
    called = nulls[nulls["verdict"] != SAME]
    if len(called):
        off = max(abs(called["ratio"] - 1))
        text = (
            f"**Read differences below {off:.1%} as none:** cuBLAS beside itself, the same call, is called different on {len(called)} of "
            f"{len(nulls)} problems, by at most that. {text}"
        )
    return f"{text}\n\n{_legend(_table(COLUMNS, lines, words=(0, 1, -1)), *_kind(data)[1])}"


def _aligned(rows: Sequence[Row]) -> list[float]:
    """Return the ratios of those rows in whose problems all rows of the operands begin at 16 bytes."""
    problems = [Problem(row["m"], row["n"], row["k"], padding=row["padding"]) for row in rows]
    whole = [all(leading % 8 == 0 for leading in (it.lda, it.ldb, it.ldc)) for it in problems]
    return [float(row["ratio"]) for row, aligned in zip(rows, whole, strict=True) if aligned]


def _sustained_rates(data: View) -> str:
    sentences = [
        f"at {_shown(row['problem'])} {row['tflops']:.0f} TFLOP/s, ×{row['ratio']:.3f} of cuBLAS "
        f"({interval('.3f', row['ratio'], row['ratio_low'], row['ratio_high'])}), with ×{_joules(data, row):.3f} of its energy, at "
        f"{row['sm_clock_mhz']:.0f} MHz"
        for row in _fastest_where_measured(data)
    ]
    return f"Sustained, with clock and power settled: {'; '.join(sentences)}."


def _fastest_where_measured(data: View) -> Sequence[Row]:
    data.order = [problem for problem in data.order if problem in set(data.best["problem"])]
    return fastest_rungs(data)


def _joules(data: View, row: Row) -> float:
    reference = data.best[data.best["kernel"] == data.reference].set_index("problem")["energy_j"]
    return float(row["energy_j"]) / float(reference[row["problem"]])
