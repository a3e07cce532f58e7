"""Medians, their intervals, and ratios of paired samples. Nothing here does input or output or
touches a device.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.95
DRIFT = 3.29
"""Samples drift if the absolute value of their `trend` exceeds this: p < 0.001."""


@lru_cache(maxsize=1024)
def median_ranks(n: int, confidence: float = CONFIDENCE) -> tuple[int, float]:
    """Return the ends of the median's interval for n samples: a rank (from 0), and how far to
    interpolate from its value to the next inward.

    The number of samples below the true median is binomial(n, 1/2) for any distribution of the
    samples. So intervals that end at whole ranks cover the median with known probabilities. Between
    the two that enclose `confidence`, the ends are interpolated (Hettmansperger and Sheather,
    Confidence intervals based on interpolated order statistics, Statistics & Probability Letters 4,
    1986). If n is too small for
    `confidence` (n < 6 at 95 %), the interval is the whole range.
    """
    tails = [sum(math.comb(n, below) for below in range(rank + 1)) / 2**n for rank in range(n // 2)]
    covered = [1 - 2 * tail for tail in tails]
    rank = sum(share >= confidence for share in covered) - 1
    if rank < 0 or rank + 1 == len(covered):
        return max(rank, 0), 0.0
    depth = rank + 1
    part = (covered[rank] - confidence) / (covered[rank] - covered[rank + 1])
    return rank, (n - depth) * part / (depth + (n - 2 * depth) * part)


def median_interval(samples: ArrayLike) -> tuple[Any, Any, Any]:
    """Return the median of the samples and the ends of its distribution-free 95 % interval. Raises
    `ValueError` for no samples.

    For the rounds of one process this is the within-run interval. Of an array with more dimensions
    the last one has the samples, and the results are arrays of the others.
    """
    ordered: NDArray[np.float64] = np.sort(np.asarray(samples, dtype=float))
    size = ordered.shape[-1]
    if size == 0:
        raise ValueError("no samples")
    rank, share = median_ranks(size)
    inner = min(rank + 1, size - 1)

    def end(rank: int, inner: int) -> Any:
        return ordered[..., rank] + share * (ordered[..., inner] - ordered[..., rank])

    median = (ordered[..., (size - 1) // 2] + ordered[..., size // 2]) / 2
    return median, end(rank, inner), end(-1 - rank, -1 - inner)


def relative_half_width(samples: ArrayLike) -> float:
    """Return the larger distance from the median to an end of its interval, relative to the
    median.
    """
    median, low, high = median_interval(samples)
    return float(max(high - median, median - low) / median)


def paired_ratio(reference: ArrayLike, samples: ArrayLike) -> tuple[Any, Any, Any]:
    """Return the median of `reference / samples` with its interval: how many times as fast as the
    reference the samples are.

    Both are times and have the same shape, as in `median_interval`. Element i of both is from round i, so that drift
    between rounds cancels.
    """
    return median_interval(np.asarray(reference, dtype=float) / np.asarray(samples, dtype=float))


NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)
"""Where and with what weights Gauss and Legendre sum a function from -1 to 1."""


@lru_cache(maxsize=1024)
def student_t(degrees: float, confidence: float = CONFIDENCE) -> float:
    """Return the two-sided quantile of Student's t: |t| stays below it with probability
    `confidence`.

    With a = atan(t / sqrt(degrees)) the probability is the integral of cos(x)^(degrees - 1) from 0
    to a, as a share of that to pi/2. For whole degrees of freedom it is a finite sum (Abramowitz
    and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4). Bisection finds the angle.
    Raises `ValueError` for less than one degree of freedom.
    """
    if degrees < 1:
        raise ValueError("no degrees of freedom")
    whole = math.exp(math.lgamma(degrees / 2) - math.lgamma((degrees + 1) / 2))

    def share(angle: float) -> float:
        if degrees % 1:
            heights = np.cos(angle * (NODES + 1) / 2) ** (degrees - 1)
            return float(angle * (WEIGHTS @ heights) / (math.sqrt(math.pi) * whole))
        odd = degrees % 2
        term, total = (math.cos(angle), 0.0) if odd else (1.0, 0.0)
        for k in range(1 + int(odd), int(degrees), 2):
            total += term
            term *= k / (k + 1) * math.cos(angle) ** 2
        return 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total

    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if share(middle) < confidence else (low, middle)
    return math.sqrt(degrees) * math.tan((low + high) / 2)


def _logarithms(processes: Sequence[ArrayLike]) -> tuple[Any, Any, Any]:
    """Return the median log value of each process, and the ends of its interval. Raises
    `ValueError` for no process, or one without a round.
    """
    if not len(processes):
        raise ValueError("no processes")
    if len({np.shape(rounds) for rounds in processes}) == 1:  # usual, and faster at once
        return median_interval(np.log(np.asarray(processes, dtype=float)))
    each = (median_interval(np.log(np.asarray(rounds, dtype=float))) for rounds in processes)
    medians, lows, highs = zip(*each, strict=True)
    return medians, lows, highs


def _mean_of(processes: Sequence[ArrayLike]) -> tuple[float, float, int]:
    """Return the mean over processes of each process's median log value, the variance of this mean,
    and its degrees of freedom.

    For a single process the variance is infinite. Raises `ValueError` for no process, or one
    without a round.
    """
    values = _logarithms(processes)[0]
    n, variance = len(values), math.inf
    mean = math.fsum(values) / n
    if n > 1:
        variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n
    return mean, variance, n - 1


def _interval(
    mean: float, variance: float, degrees: float, confidence: float
) -> tuple[float, float, float]:
    """Return exp(mean) with the ends of its interval by Student's t; without degrees of freedom the
    interval is from 0 to infinity.
    """
    half = student_t(degrees, confidence) * math.sqrt(variance) if degrees else math.inf
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def between_processes(
    processes: Sequence[ArrayLike], confidence: float = CONFIDENCE
) -> tuple[float, float, float]:
    """Return the estimate and the between-process interval of a positive quantity that each process
    found in some rounds.

    Model: log quantity = kernel + process + round, with processes drawn at random. The value of a
    process is the median of its rounds' logarithms, and the estimate is the mean of these values.
    The interval is that of Student's t, from the variance between the values, with one degree of
    freedom fewer than processes. In a balanced nested design the variance between the values is the
    variance between processes plus what is left of the variance between rounds. The variance of the
    mean consists of just these two (Searle, Casella and McCulloch, Variance Components, 1992,
    chapter 3). A single process gives only its value: the interval is from 0 to infinity. Raises
    `ValueError` for no process, or one without a round.
    """
    return _interval(*_mean_of(processes), confidence)


def between_runs(
    a: Sequence[ArrayLike], b: Sequence[ArrayLike], confidence: float = CONFIDENCE
) -> tuple[float, float, float]:
    """Return the estimate and interval of `a / b`, a positive quantity that each of two runs found
    in its own processes.

    Each run follows the model of `between_processes` with its own variances. The interval is
    Welch's for the difference of the logarithms (The generalization of "Student's" problem when
    several different population variances are involved, Biometrika 34, 1947). If a run has only one
    process, the interval is from 0 to infinity. Raises `ValueError` as
    `between_processes` does.
    """
    (first, *of_a), (second, *of_b) = _mean_of(a), _mean_of(b)
    return _interval(first - second, *_welch(of_a, of_b), confidence)


def _welch(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Return the variance of a difference and its degrees of freedom, from those of the two
    means.
    """
    variance = a[0] + b[0]
    if variance == 0:
        return variance, 1
    if math.isinf(variance):
        return variance, 0
    terms = math.fsum(term**2 / degrees for term, degrees in (a, b) if term)
    degrees = variance**2 / terms
    nearest = round(degrees)  # equal variances have whole degrees of freedom
    return variance, nearest if abs(degrees - nearest) < 1e-9 * degrees else degrees


def half_of_difference(
    a: tuple[float, int], b: tuple[float, int], confidence: float = CONFIDENCE
) -> float:
    """Return half the width of Welch's interval of the difference of two means.

    Each is given as half the width of its own interval at `CONFIDENCE`, and its degrees of freedom:
    0 for an exact value, with width 0, or for a mean of which no interval is known, with infinite
    width.
    """
    variance, degrees = _welch(
        *((half and (half / student_t(max(n, 1))) ** 2, n) for half, n in (a, b))
    )
    return (student_t(degrees, confidence) if degrees else 1) * math.sqrt(variance)


def within_processes(processes: Sequence[ArrayLike]) -> tuple[float, float]:
    """Return the ends of the within-run interval around the estimate of `between_processes`: how
    well one process's rounds fix a median.

    In logarithms, each end is the mean over processes of that end of `median_interval`.
    """
    _, lows, highs = _logarithms(processes)
    return math.exp(np.mean(lows)), math.exp(np.mean(highs))


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of ratios across problems. Raises `ValueError` if there are none,
    or if one is not positive.
    """
    if not len(values) or min(values) <= 0:
        raise ValueError(f"expected positive values, got {list(values)}")
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


def tied(low: ArrayLike, high: ArrayLike, best: int) -> NDArray[np.bool_]:
    """Return which intervals overlap that of the best, element `best`. The best itself is not tied
    with itself.
    """
    lows, highs = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    is_tied: NDArray[np.bool_] = (highs >= lows[best]) & (lows <= highs[best])
    is_tied[best] = False
    return is_tied


def trend(*series: ArrayLike) -> Any:
    """Return how strongly samples rise (above 0) or fall over time, as a standard normal deviate:
    the Mann-Kendall test with ties.

    The deviate is the pairs that rise minus the pairs that fall, over the standard deviation of
    this difference without a trend (Mann, Nonparametric tests against trend, Econometrica 13, 1945;
    Kendall, Rank Correlation Methods, 1975, for the ties). For several series only the pairs within
    each count (Hirsch, Slack and Smith, Techniques of trend analysis, Water Resources Research 18,
    1982). Arrays with more dimensions are as in `median_interval`.
    """
    score: Any = 0.0
    variance: Any = 0.0
    # those of one length together: a step for each round, and not for each round of each series
    for _, alike in groupby(sorted(series, key=np.shape), np.shape):
        values: NDArray[np.float64] = np.asarray([*alike], dtype=float)
        n, ties = values.shape[-1], np.zeros(values.shape)
        for later in range(1, n):
            rises = np.sign(values[..., later:] - values[..., :-later])
            score += rises.sum((0, -1))
            ties[..., later:] += rises == 0
            ties[..., :-later] += rises == 0
        every = len(values) * n * (n - 1) * (2 * n + 5)
        variance += (every - (ties * (2 * ties + 7)).sum((0, -1))) / 18
    return np.sign(score) * (abs(score) - 1) / np.sqrt(np.where(variance > 0, variance, np.inf))
