"""Medians, their intervals and ratios of paired samples. No input or output, nothing that touches a device."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.95


@lru_cache(maxsize=1024)
def median_ranks(n: int, confidence: float = CONFIDENCE) -> tuple[int, int]:
    """Ranks (from 0) of the order statistics that enclose the median of n samples with at least `confidence`.

    The number of samples below the true median is binomial(n, 1/2), whatever the samples' distribution; the ranks cut off at most
    half of `1 - confidence` at either side (David and Nagaraja, Order Statistics, section 7.1). Where n is too small for that
    (n < 6 at 95 %), the whole range is returned.
    """
    tail, below = (1 - confidence) / 2, 0.0
    for rank in range(n // 2):
        below += math.comb(n, rank) / 2**n
        if below > tail:
            low = max(rank - 1, 0)
            return low, n - 1 - low
    low = max(n // 2 - 1, 0)
    return low, n - 1 - low


def median_interval(samples: ArrayLike, confidence: float = CONFIDENCE) -> tuple[float, float, float]:
    """Median of the samples and the ends of its distribution-free interval; raises `ValueError` for no samples."""
    ordered: NDArray[np.float64] = np.sort(np.asarray(samples, dtype=float))
    if ordered.size == 0:
        raise ValueError("no samples")
    low, high = median_ranks(ordered.size, confidence)
    return float(np.median(ordered)), float(ordered[low]), float(ordered[high])


def relative_half_width(samples: ArrayLike) -> float:
    """The larger distance from the median to an end of its interval, relative to the median."""
    median, low, high = median_interval(samples)
    return max(high - median, median - low) / median


def paired_ratio(reference: ArrayLike, samples: ArrayLike, confidence: float = CONFIDENCE) -> tuple[float, float, float]:
    """Median and interval of `reference / samples` of the same rounds: how many times the reference's speed the samples have.

    Both are times of equal length, element i of both from round i, so that what drifts between rounds cancels.
    """
    return median_interval(np.asarray(reference, dtype=float) / np.asarray(samples, dtype=float), confidence)


def geometric_mean(values: Sequence[float]) -> float:
    """The mean of ratios across problems; raises `ValueError` for none or for values that are not positive."""
    if not len(values) or min(values) <= 0:
        raise ValueError(f"expected positive values, got {list(values)}")
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))
