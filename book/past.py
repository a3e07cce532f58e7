"""Make the parts of pages about the fastest rungs beside cuBLAS, over the shapes of a campaign."""

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

import pandas as pd
from ladder.core.stats import geometric_mean
from ladder.core.verdicts import interval
from ladder.figures.data import View, lettered

from book import answers
from book.data import Row, Story, Unmeasured
from book.markdown import (
    interval_notes,
    kernel_text,
    markdown_table,
    problem_text,
    times_text,
    whence,
)

ACCURATE = 1.05
"""An error counts as no larger than the reference's up to this factor."""
TUNED = (
    "256",
    "512",
    "1024",
    "2048",
    "4096",
    "8192",
    "16384",
    "64x4096x4096",
    "8192x128x8192",
    "256x256x16384",
    "2049x2047x2051",
    "8192x8192x128",
)
"""The problems that the rungs were tuned on. What holds in general, the other problems say."""


def reference_errors(data: View) -> pd.Series:
    """Return the error of the reference on each problem."""
    reference = data.best[data.best["kernel"] == data.reference]
    return reference.set_index("problem")["frobenius_error"]


def fastest_rungs(data: View, problems: Sequence[str] = ()) -> list[Any]:
    """Return the row of `best` of the fastest rung on every problem, or on these, each in its
    fastest configuration.

    Rungs whose error is at most `ACCURATE` times cuBLAS's have precedence. There may be none:
    cuBLAS may split K into more and shorter sums.
    """
    errors = reference_errors(data)
    rungs = data.best[data.best["kernel"].isin(data.kernels)]
    precise = rungs["frobenius_error"] <= ACCURATE * rungs["problem"].map(errors)
    by_merit = rungs.assign(precise=precise).sort_values(["precise", "ratio"])
    return [by_merit[by_merit["problem"] == problem].iloc[-1] for problem in problems or data.order]


def fastest_on(story: Story, kernel: str) -> tuple[list[str], int]:
    """Return on which problems that nothing was tuned on a 16-bit rung is the fastest, in bfloat16,
    and of how many.
    """
    rows = [row for view in story.of_16_bits() for row in fastest_of(view, tuned=False)]
    return [row["problem"] for row in rows if row["kernel"] == kernel], len(rows)


def past(story: Story, name: str) -> str:
    """Return the fastest rung on every problem of a published campaign, beside cuBLAS's own choice
    and its fastest algorithm.

    The problems that nothing was tuned on come first.
    """
    data = story.campaign(name)
    rule = (
        f"{whence(data)}. A rung whose error is more than ×{ACCURATE} of cuBLAS's is passed over."
    )
    parts = [_beside(story, data, tuned) for tuned in (False, True) if fastest_of(data, tuned)]
    return "\n\n".join([rule, *parts])


def held_out(story: Story, name: str) -> str:
    """Return how fast the rungs are on the problems of a published campaign that nothing was tuned
    on.
    """
    data = story.campaign(name)
    rows = fastest_of(data, tuned=False)
    if not rows:
        raise Unmeasured
    least = min(float(row["ratio"]) for row in rows)
    means = _means(data, rows, medians=False)
    return (
        f"on {len(rows)} shapes that no kernel was tuned on, the fastest rungs are {means}, and "
        f"{least:.2f} times as fast on the worst"
    )


def fastest_of(data: View, tuned: bool) -> list[Row]:
    """Return the fastest rungs on the problems that they were tuned on, or on the others."""
    return [row for row in fastest_rungs(data) if (row["problem"] in TUNED) is tuned]


def cells(row: Row, errors: pd.Series, *others: float) -> list[str]:
    """Return the cells of a fastest rung: problem, rung, ratio and interval, its speedups over
    `others`, its error as a multiple of the reference's, and its configuration.
    """
    return [
        problem_text(row["problem"]),
        kernel_text(row["kernel"]),
        lettered(f"×{row['ratio']:.3f}", row),
        interval(".3f", row["ratio"], row["ratio_low"], row["ratio_high"]),
        *map(times_text, others),
        f"×{row['frobenius_error'] / errors[row['problem']]:.2f}",
        f"`{row['configuration']}`",
    ]


def _of_best(data: View, row: Row) -> float:
    """Return a rung's ratio to cuBLAS's fastest algorithm; NaN if none was timed."""
    others = data.best[data.best["kernel"] == "cublaslt_best"].set_index("problem")["ratio"]
    return float(row["ratio"]) / float(others.get(row["problem"], math.nan))


def _means(data: View, rows: Sequence[Row], medians: bool = True) -> str:
    """Return the mean, and the median, of ratios to cuBLAS, and to the faster one of cuBLAS and its
    fastest algorithm.
    """
    ratios = [float(row["ratio"]) for row in rows]
    of_best = [_of_best(data, row) for row in rows]
    both = zip(ratios, of_best, strict=True)
    least = [min(ratio, own) for ratio, own in both if not math.isnan(own)]
    texts = []
    for values, whom in ((ratios, "cuBLAS"), (least, "its fastest algorithm")):
        if values:
            middle = f"; median {median(values):.3f}" if medians else ""
            mean = f"{geometric_mean(values):.3f} times as fast as {whom}"
            texts.append(f"{mean} (geometric mean{middle})")
    return " and ".join(texts)


def _beside(story: Story, data: View, tuned: bool) -> str:
    """Return rows of `best` beside cuBLAS, and how many of them are ahead.

    Tuned shapes have no mean: it says how well they were chosen.
    """
    rows, errors = fastest_of(data, tuned), reference_errors(data)
    aligned = {
        (place["problem"], place["rung"]): place["aligned"]["ratio"]
        for answer in answers.of(story.root, "placement")
        for place in answer.measured["rows"]
        if answer.device == data.environment["device"]
    }
    lines = []
    for row in rows:
        at = aligned.get((row["problem"], f"{row['kernel']} {row['configuration']}"), math.nan)
        lines.append(cells(row, errors, at, _of_best(data, row)))
    algorithms = data.summary[
        (data.summary["kernel"] == "cublaslt_best") & (data.summary["configuration"] != "-")
    ]
    offered = algorithms[algorithms["status"] == "correct"].groupby("problem").size()
    timed = (
        f" The fastest algorithm is of {offered.min()} to {offered.max()} that cuBLASLt offered, "
        "and cuBLAS's own call."
        if len(offered)
        else ""
    )
    columns = [
        "problem",
        "rung",
        "cuBLAS",
        "between-process",
        "at 2 MiB",
        "its fastest algorithm",
        "error",
        "configuration",
    ]
    ahead, surely = (sum(row[column] >= 1 for row in rows) for column in ("ratio", "ratio_low"))
    beyond = sum(_of_best(data, row) >= 1 for row in rows)
    precise = sum(row["frobenius_error"] <= ACCURATE * errors[row["problem"]] for row in rows)
    middle = median(row["ratio"] for row in rows)
    tuning = (
        f"The rungs were tuned on these {len(rows)} problems; the median of the ratios to "
        f"cuBLAS is ×{middle:.3f}"
        if tuned
        else f"Nothing was tuned on these {len(rows)} problems: the rungs are {_means(data, rows)}"
    )
    text = (
        f"{tuning}.{timed} They are ahead of cuBLAS on {ahead}, on {surely} with the whole "
        f"interval, and of its fastest algorithm on {beyond}; errors are at most ×{ACCURATE} of "
        f"cuBLAS's on {precise}:"
    )
    return f"{text}\n\n{markdown_table(columns, lines, (0, 1, -1), interval_notes(data)[1])}"


def elsewhere(story: Story, name: str, other: str) -> str:
    """Return the problems on which the fastest rungs or their configurations differ between two
    published campaigns.
    """
    both = [story.campaign(campaign) for campaign in (name, other)]
    fastest = [{row["problem"]: row for row in fastest_rungs(data)} for data in both]
    problems, rows = [problem for problem in fastest[0] if problem in fastest[1]], []
    for problem in problems:
        pair = [of[problem] for of in fastest]
        if len({(row["kernel"], row["configuration"]) for row in pair}) > 1:
            cells = [
                f"{kernel_text(row['kernel'])} {lettered(times_text(row['ratio']), row)}<br>"
                f"`{row['configuration']}`"
                for row in pair
            ]
            rows.append([problem_text(problem), *cells])
    columns = ["problem", *(data.environment["name"] for data in both)]
    text = (
        f"On {len(problems) - len(rows)} of {len(problems)} problems the fastest rung and its "
        "configuration are the same."
    )
    table = markdown_table(columns, rows, words=(0, 1, 2))
    return f"{text} On the others:\n\n{table}" if rows else text
