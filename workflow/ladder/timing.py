"""Timed rounds: what is measured and its reference, interleaved in a seeded random order, until the median is known well enough."""

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from ladder.campaign import Limits
from ladder.devices import Device, Launch
from ladder.statistics import median_interval, relative_half_width

WARM_SECONDS = 0.05
"""The least time to warm up for: clocks of an idle GPU take tens of milliseconds to rise."""
MAX_WARM_SECONDS = 1.0
SETTLED = 0.02
"""Two successive rounds that agree within this share of the time end the warm-up."""


@dataclass
class Series:
    """The samples of one contestant. Times of one launch in microseconds; element i of both lists is from round i."""

    repeats: int
    """Launches a sample; the time is the sample's divided by this."""
    samples: list[float] = field(default_factory=list)
    reference: list[float] = field(default_factory=list)
    stop: str = ""
    """Why sampling ended: `target`, `max_samples` or `max_seconds`."""


def measure(
    device: Device, launches: Mapping[int, Launch], reference: Launch, state: str, limits: Limits, seed: int
) -> Iterator[tuple[int, Series] | None]:
    """Measure several launches side by side; yields each key with its samples as soon as they suffice, and None after every round.

    A round times every launch that is not done and the reference once, in random order. In state `warm` launches shorter than
    `limits.sample_us` are repeated within a sample; in `cold` each is one launch after a flush of the caches.
    """
    cold = state == "cold"
    repeats, reference_repeats = {}, 1
    first = dict(zip([*launches, None], device.time_round([*launches.values(), reference], cold), strict=True))
    # the first launches include the loading of code; the second ones tell how long one takes
    second = first if max(first.values()) > 1e5 else _round(device, launches, reference, cold)
    for key in launches:
        repeats[key] = 1 if cold else _repeats(second[key], limits.sample_us)
    reference_repeats = 1 if cold else _repeats(second[None], limits.sample_us)
    ready: dict[int | None, Launch] = {key: device.repeated(launch, repeats[key]) for key, launch in launches.items()}
    ready[None] = device.repeated(reference, reference_repeats)
    counts: dict[int | None, int] = {None: reference_repeats, **dict(repeats.items())}
    yield from _warm_up(device, ready, cold)

    random = np.random.default_rng(seed)
    series = {key: Series(repeats[key]) for key in launches}
    active = dict(series)
    while active:
        order: list[int | None] = [[*active, None][i] for i in random.permutation(len(active) + 1)]
        times = dict(zip(order, device.time_round([ready[key] for key in order], cold), strict=True))
        for key, mine in list(active.items()):
            mine.samples.append(times[key] / counts[key])
            mine.reference.append(times[None] / counts[None])
            mine.stop = _stop(mine, limits)
            if mine.stop:
                yield key, active.pop(key)
        yield None


def _round(device: Device, launches: Mapping[int, Launch], reference: Launch, cold: bool) -> dict[int | None, float]:
    return dict(zip([*launches, None], device.time_round([*launches.values(), reference], cold), strict=True))


def _repeats(time_us: float, sample_us: float) -> int:
    return max(1, math.ceil(sample_us / max(time_us, 0.5)))


def _warm_up(device: Device, ready: Mapping[int | None, Launch], cold: bool) -> Iterator[None]:
    start, before = time.perf_counter(), math.inf
    while True:
        total = sum(device.time_round(list(ready.values()), cold))
        elapsed = time.perf_counter() - start
        yield None
        if elapsed > MAX_WARM_SECONDS or (elapsed > WARM_SECONDS and abs(total - before) < SETTLED * total):
            return
        before = total


def _stop(series: Series, limits: Limits) -> str:
    n = len(series.samples)
    if n < limits.min_samples:
        return ""
    if max(relative_half_width(series.samples), ratio_half_width(series)) <= limits.target:
        return "target"
    if n >= limits.max_samples:
        return "max_samples"
    if sum(series.samples) * series.repeats > limits.max_seconds * 1e6:
        return "max_seconds"
    return ""


def ratio_half_width(series: Series) -> float:
    """Relative half width of the interval of the median ratio to the reference."""
    ratios = np.array(series.reference) / np.array(series.samples)
    median, low, high = median_interval(ratios)
    return max(high - median, median - low) / median
