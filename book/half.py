"""Make the part of a page about the fastest rungs of 16-bit elements beside cuBLAS."""

import math
from collections.abc import Sequence
from statistics import median

from ladder.core.stats import geometric_mean
from ladder.core.types import OF_CUDA
from ladder.core.verdicts import SAME, interval
from ladder.figures.data import View
from ladder.model.baselines import ALGORITHMS
from ladder.model.problem import Problem

from book.data import Row, Story
from book.markdown import interval_notes, markdown_table, problem_text, whence
from book.past import TUNED, cells, fastest_of, fastest_rungs, reference_errors

COLUMNS = [
    "problem",
    "rung",
    "TFLOP/s",
    "cuBLAS",
    "between-process",
    "FP32 sums",
    "fastest algorithm",
    "error",
    "configuration",
]
LARGE = 500
"""The throughput in TFLOP/s from which on a problem with aligned rows counts as large."""


def half(story: Story, name: str) -> str:
    """Return, for each 16-bit type of a published campaign, the fastest rung on every problem and
    back to back, as ratios of throughput.
    """
    parts = []
    for element_type in reversed(OF_CUDA):
        data = story.campaign(name, element_type)
        if not data.best.empty:
            parts.append(f"**{element_type}.** {_warm(data)}")
            sustained = story.campaign(name, element_type, "sustained")
            if not sustained.best.empty:
                parts.append(_sustained_rates(sustained))
    return "\n\n".join([f"{whence(data)}.", *parts])


def held_out_of_16_bits(story: Story, name: str, element_type: str) -> str:
    """Return how fast the rungs are on problems that nothing was tuned on, beside cuBLAS's choice
    and its fastest algorithm, by group.
    """
    data = story.campaign(name, element_type)
    return _by_group(data, fastest_of(data, tuned=False))


def _by_group(data: View, rows: Sequence[Row]) -> str:
    """Return the geometric means of the fastest rungs for large, smaller and unaligned problems,
    and how many are ahead.

    Each is beside cuBLAS's choice, and beside the faster one of that choice and the fastest
    algorithm that was timed.
    """
    groups: dict[str, list[tuple[float, float]]] = {
        f"large shapes ({LARGE} TFLOP/s or more)": [],
        "smaller ones": [],
        "shapes whose rows do not begin at 16 bytes": [],
    }
    large, small, unaligned = groups.values()
    for row in rows:
        group = unaligned if not _is_aligned(row) else large if row["tflops"] >= LARGE else small
        group.append(
            (float(row["ratio"]), min(float(row["ratio"]), _over(data, row, "cublaslt_best")))
        )
    means = [
        f"{' and '.join(f'{geometric_mean(of):.2f}' for of in zip(*group, strict=True))} times as "
        f"fast on {len(group)} {what}"
        for what, group in groups.items()
        if group
    ]
    chosen, fastest = zip(*large, *small, *unaligned, strict=True)
    ahead, of_fastest = (sum(ratio >= 1 for ratio in ratios) for ratios in (chosen, fastest))
    return (
        f"compared with cuBLAS's choice and with the fastest of up to {ALGORITHMS} of its "
        f"algorithms, the fastest {data.element_type} rungs are {'; '.join(means)} (geometric "
        f"means). They are ahead on {ahead} and {of_fastest} of all {len(rows)}, and "
        f"{min(chosen):.2f} and {min(fastest):.2f} times as fast on the worst"
    )


def _over(data: View, row: Row, baseline: str) -> float:
    """Return a rung's speedup over a baseline in the rounds that timed both; infinite if the
    baseline was not timed.
    """
    both = data.over(row["kernel"], baseline, row["problem"])
    return float(both["ratio"]) if both else math.inf


def _warm(data: View) -> str:
    rows = fastest_rungs(data)
    errors = reference_errors(data)
    lines = []
    for row in rows:
        others = (_over(data, row, name) for name in ("cublas_fp32_sums", "cublaslt_best"))
        lines.append(cells(row, errors, *others))
        lines[-1].insert(2, f"{row['tflops']:.0f}")
    ahead = sum(row["ratio"] >= 1 for row in rows)
    behind = [problem_text(row["problem"]) for row in rows if row["ratio_high"] < 1]
    listed = f" ({'; '.join(behind)})" if behind else ""
    ratios = [float(row["ratio"]) for row in rows]
    text = (
        f"Single launches are ahead of cuBLAS on {ahead} of these {len(rows)} problems, and with "
        "the whole interval behind on "
        f"{len(behind)}{listed}. The median is ×{median(ratios):.3f}, the least ×{min(ratios):.3f}"
    )
    if set(data.order) <= set(TUNED):
        text += ". The rungs were tuned on these problems."
    else:
        groups = _by_group(data, rows)
        text += f". {groups[0].upper()}{groups[1:]}."
    nulls = data.pairs[data.pairs["pair"] == "null"]
    called = nulls[nulls["verdict"] != SAME]
    with_rungs, without = (
        data.rounds[data.rounds["kernel"].isin(kernels)].groupby("problem")["reference_us"].median()
        for kernels in (data.kernels, [data.reference])
    )
    apart = 100 * (with_rungs / without - 1)
    most = f", by at most {100 * abs(called['ratio'] - 1).max():.1f} %" if len(called) else ""
    text += (
        f"\n\ncuBLAS compared with itself in the same rounds is called different on {len(called)} "
        f"of {len(nulls)} problems{most}. The "
        "column *cuBLAS* divides by its time in rounds without the rungs; in the rounds of the "
        f"rungs, it takes {apart.min():+.1f} to "
        f"{apart.max():+.1f} % longer. The next two columns are ratios of the same rounds."
    )
    return f"{text}\n\n{markdown_table(COLUMNS, lines, (0, 1, -1), interval_notes(data)[1])}"


def _is_aligned(row: Row) -> bool:
    """Return whether all rows of a problem's operands begin at 16 bytes."""
    problem = Problem(row["m"], row["n"], row["k"], padding=row["padding"])
    return all(leading % 8 == 0 for leading in (problem.lda, problem.ldb, problem.ldc))


def _sustained_rates(data: View) -> str:
    measured = set(data.best["problem"])
    energy = data.best[data.best["kernel"] == data.reference].set_index("problem")["energy_j"]
    sentences = [
        f"at {problem_text(row['problem'])} {row['tflops']:.0f} TFLOP/s, ×{row['ratio']:.3f} of "
        f"cuBLAS ({interval('.3f', row['ratio'], row['ratio_low'], row['ratio_high'])}), with "
        f"×{row['energy_j'] / energy[row['problem']]:.3f} of its energy, at "
        f"{row['sm_clock_mhz']:.0f} MHz"
        for row in fastest_rungs(data, [problem for problem in data.order if problem in measured])
    ]
    return f"Sustained, with clock and power settled: {'; '.join(sentences)}."
