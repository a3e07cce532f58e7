"""Timed rounds: launches and their reference, interleaved in a seeded random order, until each median is known well enough."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ladder.core import clock
from ladder.core.stats import DRIFT, paired_ratio, relative_half_width, trend
from ladder.devices.base import Device, Errors, Launch, Refused, Sample, Timed
from ladder.measuring.verify import fault
from ladder.model.campaign import Limits

WARM_MOST = 3
"""The warm-up takes at most this many times a device's `warm_seconds`."""
LONG_US = 1e5
"""A launch that takes so long is not repeated just to warm up."""
SETTLED = 0.02
"""The warm-up ends when two successive rounds agree within this share of the time."""
RACE_SAMPLES = 5
"""The fewest samples of a configuration that loses the race."""
RACE_MARGIN = 0.05
"""A configuration loses if even the upper end of its ratio is below the lower end of the best one's by this share."""
MOST_DISCARDED = 3
"""The most rounds, or sustained samples, that do not count because the process was stopped meanwhile: a kernel could stop it at will."""
COMPANY = 0.05
"""The most that other threads of the process may compute while the reference is timed, as a share of its CPU time. By rights it is 0; the
system's account of a thread that runs may be late by a few milliseconds."""
ALIKE = 0.1
"""Launches whose times differ from the reference's by at most this share are repeated as often: the first launch of a sample is slower."""
DRIFT_EVERY = 1.1
"""The growth of the samples from one look for a drift to the next: large enough to be cheap, and to find few drifts that are none."""


@dataclass
class Series:
    """The samples of one candidate. Times are those of one launch, in microseconds; element i of every list is from round i."""

    repeats: int
    """Launches per sample. The sample's time is divided by this."""
    samples: list[float] = field(default_factory=list)
    reference: list[float] = field(default_factory=list)
    readings: list[Mapping[str, Any]] = field(default_factory=list)
    """What `Device.monitor` returned while the round ran."""
    stop: str = ""
    """Why sampling ended: `target`, `race`, `drift`, `max_samples`, `max_seconds`, or `fault`; sustained, `settled` or `max_seconds`."""
    fault: str = ""
    """What the audit of a timed launch found; "" for nothing."""
    errors: Errors | None = None
    """Errors of every element of a timed launch's result, in a round chosen at random."""


def measure(
    device: Device, launches: Mapping[int, Launch], reference: Launch, state: str, limits: Limits, seed: int, best: float = 0.0
) -> Iterator[tuple[int, Series] | None]:
    """Measure several launches side by side. Yields each key with its samples as soon as they suffice, and None after every round.

    A round draws new operands, then times the reference and every launch that is not done once, in random order, and audits each. In one
    round, chosen at random, every element is compared; samples of several launches end after a random one there, and give no times. Launches
    shorter than `limits.sample_us` are repeated within a sample; in state `cold` only if the device rotates copies of the operands for that.
    Each cold sample begins after a flush of the caches. With `limits.race` a launch leaves early if it is clearly slower than the best of
    these, or than one whose ratio to the reference is at least `best`.

    In state `sustained` there is one round. In it each sample is repeated back to back until clock and power have settled, and only what
    follows counts: its mean time, its clock and its power.

    Raises `Refused` if the reference becomes wrong, or if threads that a call has left behind compute while it is timed: also if they sleep
    whenever the device looks for them.
    """
    cold, start, random = state == "cold", clock.now(), np.random.default_rng(seed)
    # in random order: the first one in a round is timed while the clock still rises
    keys: list[int | None] = [[*launches, None][i] for i in random.permutation(len(launches) + 1)]
    given: dict[int | None, Launch] = {key: reference if key is None else launches[key] for key in keys}

    def seeds() -> int:
        return int(random.integers(2**63))

    def round_of(samples: Mapping[int | None, Sample], seed: int, compare: bool = False) -> dict[int | None, Timed]:
        return dict(zip(samples, device.time_round(list(samples.values()), cold, seed, compare), strict=True))

    def total(samples: Mapping[int | None, Sample]) -> float:
        return sum(timed.us for timed in round_of(samples, seeds()).values())

    # the first launches include loading code; the second ones show how long a launch takes
    single = {key: device.sample(launch, 1, cold) for key, launch in given.items()}
    times = round_of(single, seeds())
    quick = {key: single[key] for key, took in times.items() if took.us < LONG_US}
    times |= round_of(quick, seeds()) if quick else {}
    counts = _repeats({key: took.us for key, took in times.items()}, limits.sample_us if device.rotates or not cold else 0.0)
    device.reserve(max(counts.values()), cold)
    ready = {key: device.sample(launch, counts[key], cold) for key, launch in given.items()}
    if state == "sustained":
        yield from _sustain(device, given, ready, {key: times[key].us * counts[key] for key in given}, random)
        return
    # until two rounds agree; a launch as long as the warm-up has warmed up everything by now
    warming = {key: sample for key, sample in ready.items() if times[key].us < device.warm_seconds * 1e6}
    before = sum(times[key].us for key in warming) if max(counts.values()) == 1 else math.inf
    while warming:
        now, elapsed = total(warming), clock.now() - start
        yield None
        least = device.warm_seconds
        if elapsed > WARM_MOST * least or (elapsed > least and abs(now - before) < SETTLED * now):
            break
        before = now

    series = {key: Series(counts[key]) for key in launches}
    active, lows = dict(series), {}
    discarded, process, thread = 0, 0, 0
    # one round is compared whole. It ends after any launch of a sample: one that leaves its work to the last does not know which that is
    short = {key: device.sample(given[key], int(random.integers(1, count)), cold) for key, count in counts.items() if count > 1}
    compared, turn = int(random.integers(min(RACE_SAMPLES, limits.min_samples))), 0
    while active:
        order: list[int | None] = [[*active, None][i] for i in random.permutation(len(active) + 1)]
        compare = turn == compared
        # the reference for the problem's own operands exists already
        seed = device.given.seed if compare else seeds()
        stops = clock.stops()
        times = round_of({key: short.get(key, ready[key]) if compare else ready[key] for key in order}, seed, compare)
        yield None
        if clock.stops() > stops and discarded < MOST_DISCARDED:
            discarded += 1
            continue
        faults = {key: fault(took.audit, device.given, given[key].tf32) for key, took in times.items()}
        # a launch that overwrites an operand spoils it for those after it in the round
        spoilt = next((place for place, key in enumerate(order) if times[key].audit.changed), len(order))
        counted = spoilt == len(order) and not (compare and short)
        if faults[None] and order.index(None) <= spoilt:
            raise Refused("incorrect", f"the reference beside it became wrong: {faults[None]}", fatal=True)
        ratios = {}
        for key, mine in active.items():
            if order.index(key) <= spoilt and faults[key]:
                mine.fault, mine.stop = f"sample {turn + 1}: {faults[key]}", "fault"
            elif spoilt == len(order):
                mine.errors = times[key].errors or mine.errors
            if counted and not mine.stop:
                mine.samples.append(times[key].us / counts[key])
                mine.reference.append(times[None].us / counts[None])
                mine.readings.append(_reading(device, times[key]))
                if len(mine.samples) >= min(RACE_SAMPLES, limits.min_samples):
                    ratios[key] = paired_ratio(mine.reference, mine.samples)
                    lows[key] = ratios[key][1]
        if compare and spoilt == len(order):
            compared = -1
        if counted:
            turn, process, thread = turn + 1, process + times[None].cpu_ns[0], thread + times[None].cpu_ns[1]
        if turn >= min(RACE_SAMPLES, limits.min_samples) and process > (1 + COMPANY) * thread:
            share = f"{process / max(thread, 1) - 1:.0%} of its own CPU time"
            why = f"threads that a call has left behind computed beside the reference, for {share}; expected none to compute then"
            raise Refused("launch_error", why, fatal=True)
        for key in list(active):
            if key in ratios:
                active[key].stop = active[key].stop or _stop(active[key], ratios[key], limits, max(best, *lows.values()))
            if active[key].stop:
                yield key, active.pop(key)


def _sustain(
    device: Device,
    given: Mapping[int | None, Launch],
    samples: Mapping[int | None, Sample],
    us: Mapping[int | None, float],
    random: np.random.Generator,
) -> Iterator[tuple[int, Series] | None]:
    """Measure each sample back to back, in random order. Yields as `measure` does; `us` is roughly what a sample takes."""
    discarded = 0
    keys, times, readings = list(samples), dict[int | None, Timed](), dict[int | None, Mapping[str, Any]]()
    for place in random.permutation(len(keys)):
        key = keys[place]
        stops = clock.stops()
        timed = device.sustain(samples[key], us[key], int(random.integers(2**63)))
        while clock.stops() > stops and discarded < MOST_DISCARDED:
            discarded, stops = discarded + 1, clock.stops()
            timed = device.sustain(samples[key], us[key], int(random.integers(2**63)))
        times[key] = timed
        joules = (
            {"power_w": timed.power_w, "energy_j": timed.power_w * timed.us / samples[key].times / 1e6} if timed.power_w else {}
        )
        readings[key] = _reading(device, timed) | joules
        yield None
        if why := fault(timed.audit, device.given, given[key].tf32):
            if key is None:
                raise Refused("incorrect", f"the reference beside it became wrong: {why}", fatal=True)
            yield key, Series(samples[key].times, stop="fault", fault=f"sustained: {why}")
            del times[key]
    reference = times.pop(None).us / samples[None].times
    for key, timed in times.items():
        assert key is not None
        stop, repeats = "settled" if timed.settled else "max_seconds", samples[key].times
        yield key, Series(repeats, [timed.us / repeats], [reference], [readings[key]], stop, errors=timed.errors)


def _reading(device: Device, timed: Timed) -> dict[str, Any]:
    """Return what the device says of itself during a sample. A clock that it counted replaces one that was read."""
    return {**device.reading, **({"sm_clock_mhz": timed.sm_clock_mhz} if timed.sm_clock_mhz else {})}


def _repeats(times: Mapping[int | None, float], sample_us: float) -> dict[int | None, int]:
    """Return how often to repeat each launch in a sample. `times` are those of one launch; the reference's key is None."""
    reference = times[None]
    alike = {key: reference if abs(time - reference) <= ALIKE * reference else time for key, time in times.items()}
    return {key: max(1, math.ceil(sample_us / max(time, 0.5))) for key, time in alike.items()}


def _stop(series: Series, ratio: tuple[float, float, float], limits: Limits, best: float) -> str:
    n, (median, low, high) = len(series.samples), ratio
    if limits.race and n >= RACE_SAMPLES and high * (1 + RACE_MARGIN) < best:
        return "race"
    if n < limits.min_samples:
        return ""
    if max(relative_half_width(series.samples), (high - median) / median, (median - low) / median) <= limits.target:
        return "target"
    if _due(n, 2 * limits.min_samples) and (_drifts(series.samples) or _drifts(np.array(series.reference) / series.samples)):
        return "drift"
    if n >= limits.max_samples:
        return "max_samples"
    if sum(series.samples) * series.repeats > limits.max_seconds * 1e6:
        return "max_seconds"
    return ""


def _due(n: int, first: int) -> bool:
    """Return whether to look for a drift after n samples: at `first`, and each time they have grown by `DRIFT_EVERY`."""
    return n == first or (n > first and int(math.log(n / first, DRIFT_EVERY)) > int(math.log((n - 1) / first, DRIFT_EVERY)))


def _drifts(values: ArrayLike) -> bool:
    return abs(trend(values)) > DRIFT
