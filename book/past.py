"""Make the parts of pages about the fastest rungs beside cuBLAS, over the shapes of a campaign."""

import math
from collections.abc import Sequence

from ladder.core.stats import geometric_mean
from ladder.figures.data import View
from ladder.figures.shapes import fastest_rungs

from book.data import Row, Story, Unmeasured

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


def fastest_on(story: Story, kernel: str) -> tuple[list[str], int]:
    """Return on which problems that nothing was tuned on a 16-bit rung is the fastest, in bfloat16,
    and of how many.
    """
    rows = [row for view in story.of_16_bits() for row in fastest_of(view, tuned=False)]
    return [row["problem"] for row in rows if row["kernel"] == kernel], len(rows)


def held_out(story: Story, name: str) -> str:
    """Return how fast the rungs are on the problems of a published campaign that nothing was tuned
    on.
    """
    data = story.campaign(name)
    rows = fastest_of(data, tuned=False)
    if not rows:
        raise Unmeasured
    least = min(float(row["ratio"]) for row in rows)
    means = _means(data, rows)
    return f"{means}, and {least:.2f} times on the worst (geometric means of {len(rows)} shapes)"


def fastest_of(data: View, tuned: bool) -> list[Row]:
    """Return the fastest rungs on the problems that they were tuned on, or on the others."""
    return [row for row in fastest_rungs(data) if (row["problem"] in TUNED) is tuned]


def _of_best(data: View, row: Row) -> float:
    """Return a rung's ratio to cuBLAS's fastest algorithm; NaN if none was timed."""
    others = data.best[data.best["kernel"] == "cublaslt_best"].set_index("problem")["ratio"]
    return float(row["ratio"]) / float(others.get(row["problem"], math.nan))


def _means(data: View, rows: Sequence[Row]) -> str:
    """Return the mean of ratios to cuBLAS, and to the faster one of cuBLAS and its fastest
    algorithm.
    """
    ratios = [float(row["ratio"]) for row in rows]
    of_best = [_of_best(data, row) for row in rows]
    both = zip(ratios, of_best, strict=True)
    least = [min(ratio, own) for ratio, own in both if not math.isnan(own)]
    texts = []
    for values, whom in ((ratios, "cuBLAS"), (least, "its fastest algorithm")):
        if values:
            texts.append(f"{geometric_mean(values):.2f} times as fast as {whom}")
    return " and ".join(texts)
