"""Timed rounds: launches and their reference, interleaved in a seeded random order, until each
median is known well enough.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ladder.core import clock
from ladder.core.stats import DRIFT, paired_ratio, relative_half_width, trend
from ladder.devices.back_to_back import FIRST_SECONDS, NEXT_SECONDS
from ladder.devices.base import Device, Errors, Launch, Refused, Sample, Timed
from ladder.measuring.protocol import Time
from ladder.measuring.verify import fault
from ladder.model.campaign import SUSTAINED, Limits

WARM_MOST = 3
"""The warm-up takes at most this many times a device's `warm_seconds`."""
LONG_US = 1e5
"""A launch that takes so long is not repeated just to warm up."""
KNOWN_US = 1e4
"""Of a launch that took so long when it was checked it is known how long it takes, if its code was
loaded then.
"""
SETTLED = 0.02
"""The warm-up ends when two successive rounds agree within this share of the time. It ends sooner
if the clock is at most this share below that of what was timed before, or if two successive rounds
agree in it within this share.
"""
LEAST_CLOCK = 0.75
"""But only at so large a share of the clock before: that of an idle device may be steady too."""
SLOW_US, SLOW_RATIO = 5e4, 0.1
"""A launch that takes so long, with a ratio to the reference below this, gets one sample: its ratio
decides nothing.
"""
RACE_SAMPLES = 5
"""The fewest samples of a configuration that loses the race."""
RACE_MARGIN = 0.05
"""A configuration loses if even the upper end of its ratio is below the lower end of the best one's
by this share.
"""
MOST_DISCARDED = 3
"""The most rounds, or sustained samples, that do not count because the process was stopped
meanwhile, or because of gaps: a kernel could cause both at will.
"""
COMPANY, COMPANY_IF_BUSY = 0.05, 0.5
"""The most that other threads of the process may compute while the reference is timed, as a share
of its CPU time; the second is for a machine on which other processes compute too. By rights it is
0; the system's account of a thread that runs may be late by a few milliseconds, and more if threads
wait for cores.
"""
ALIKE = 0.1
"""Launches whose times differ from the reference's by at most this share are repeated as often: the
first launch of a sample is slower.
"""
DRIFT_EVERY = 1.1
"""The growth of the samples from one look for a drift to the next: large enough to be cheap, and to
find few drifts that are none.
"""


@dataclass
class Series:
    """The samples of one candidate. Times are those of one launch, in microseconds; element i of
    every list is from round i.
    """

    repeats: int
    """Launches per sample. The sample's time is divided by this."""
    samples: list[float] = field(default_factory=list)
    reference: list[float] = field(default_factory=list)
    readings: list[Mapping[str, Any]] = field(default_factory=list)
    """What `Device.monitor` returned while the round ran."""
    stop: str = ""
    """Why sampling ended: `target`, `race`, `slow`, `drift`, `max_samples`, `max_seconds`, or
    `fault`; sustained, `settled`, `max_seconds` or `gaps`.
    """
    fault: str = ""
    """What the audit of a timed launch found; "" for nothing."""
    errors: Errors | None = None
    """Errors of every element of a timed launch's result, in a round chosen at random."""
    ratio: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """The ratio to the reference and the ends of its interval, once there are samples for a
    race.
    """

    def add(self, us: float, reference_us: float, limits: Limits) -> None:
        """Count the times of a launch, and of the reference, in one round."""
        self.samples.append(us)
        self.reference.append(reference_us)
        if len(self.samples) >= fewest(limits):
            self.ratio = paired_ratio(self.reference, self.samples)


def fewest(limits: Limits) -> int:
    """Return from how many samples on a launch has a ratio."""
    return min(RACE_SAMPLES, limits.min_samples)


def reason_to_stop(series: Series, limits: Limits, best: float) -> str:
    """Return why a launch has enough samples, as in `Series.stop`; "" if it has not. `best` is the
    lower end of the best ratio so far.
    """
    n, (median, low, high) = len(series.samples), series.ratio
    if limits.race and n >= RACE_SAMPLES and high * (1 + RACE_MARGIN) < best:
        return "race"
    if n < limits.min_samples:
        return ""
    width = relative_half_width(series.samples)
    if max(width, (high - median) / median, (median - low) / median) <= limits.target:
        return "target"
    ratios = np.array(series.reference) / series.samples
    if _due(n, 2 * limits.min_samples) and (_drifts(series.samples) or _drifts(ratios)):
        return "drift"
    if n >= limits.max_samples:
        return "max_samples"
    if sum(series.samples) * series.repeats > limits.max_seconds * 1e6:
        return "max_seconds"
    return ""


@dataclass(eq=False)
class _Member:
    """A launch that takes part in the rounds: one that is measured, or the reference."""

    launch: Launch
    us: float = field(init=False)
    """Roughly what a launch takes; 0 for unknown."""
    sample: Sample = field(init=False)
    short: Sample | None = None
    """What is timed instead in the round that is compared."""
    series: Series = field(init=False)

    def __post_init__(self) -> None:
        known = self.launch.ready and self.launch.us >= KNOWN_US
        self.us = self.launch.us if known else 0.0


class Rounds:
    """Measures several launches side by side. Call `next` for one round after the other, until all
    are `done`.

    A round draws new operands, then times the reference and every launch that is not done once, in
    random order, and audits each. In one round, chosen at random, every element is compared;
    samples of several launches have another number of them there, and give no times. Launches shorter
    than `limits.sample_us` are repeated within a sample; in state `cold` only if the device rotates
    copies of the operands for that. Each cold sample begins after a flush of the caches. With
    `limits.race` a launch leaves early if it is clearly slower than the best of these, or than one
    whose ratio to the reference is at least `request.best`.

    Raises `Refused` if the reference becomes wrong, or if threads that a call has left behind
    compute while it is timed: also if they sleep whenever the device looks for them. On a machine
    that other processes use, all is timed once more before that, and little does not count then.
    """

    def __init__(
        self, device: Device, launches: Sequence[Launch], reference: Launch, request: Time
    ) -> None:
        self.device, self.limits, self.best = device, request.limits, request.best
        self.cold = request.state == "cold"
        self.rotates = self.cold or (request.state == SUSTAINED and device.rotates)
        self.start, self.random = clock.now(), np.random.default_rng(request.seed)
        self.turn, self.compared, self.discarded, self.cpu_ns = 0, -1, 0, (0, 0)
        self.again = False
        self.others, self.risen_mhz, self.warm_mhz = device.watch(), device.mhz, 0.0
        self.active = {place: _Member(launch) for place, launch in enumerate(launches)}
        """The launches that are not done."""
        self.reference = _Member(reference)
        members = [self.reference, *self.active.values()]
        for member, us in zip(members, request.us, strict=False):
            member.us = us
        self.request = request
        self.as_before = dict(zip(members, request.repeats, strict=False))
        """The launches in a sample, where that is known."""
        # in random order: the first one in a round is timed while the clock still rises
        self.everyone = self._shuffled()
        unknown = [member for member in self.everyone if not member.us]
        self._time_roughly(unknown)
        self._count_launches(has_samples=unknown == self.everyone)

    @property
    def done(self) -> bool:
        """Whether all launches are done."""
        return not self.active

    def next(self) -> dict[int, Series]:
        """Time a round, of the warm-up at first; return the launches that are done since, by their
        places, with their samples.
        """
        if self.warming:
            self._warm_up()
            return {}
        order = self._shuffled()
        compare = self.turn == self.compared
        # the reference for the problem's own operands exists already
        seed = self.device.given.seed if compare else self._seed()
        stops = clock.stops()
        samples = [member.short or member.sample if compare else member.sample for member in order]
        times = dict(
            zip(order, self.device.time_round(samples, self.cold, seed, compare), strict=True)
        )
        if self._was_stopped(stops):
            return {}
        # a launch that overwrites an operand spoils it for those after it in the round
        spoilt = next(
            (place for place, member in enumerate(order) if times[member].audit.changed), len(order)
        )
        faults = {member: self._fault(member, times[member]) for member in order[: spoilt + 1]}
        whole = spoilt == len(order)
        if not any(faults.values()) and self._shorter_than_checked(times):
            return {}
        counted = whole and not (compare and any(member.short for member in self.everyone))
        for member in self.active.values():
            series, timed = member.series, times[member]
            if faults.get(member):
                series.fault, series.stop = f"sample {self.turn + 1}: {faults[member]}", "fault"
            elif whole:
                series.errors = timed.errors or series.errors
            if counted and not series.stop:
                us = times[self.reference].us / self.reference.sample.times
                series.add(timed.us / series.repeats, us, self.limits)
                series.readings.append(self._reading(timed))
        if compare and whole:
            self.compared = -1
        if counted:
            self.turn += 1
            self._check_company(times[self.reference])
        best = max([self.best, *(member.series.ratio[1] for member in self.everyone)])
        for member in self.active.values():
            series = member.series
            if series.samples and self._is_slow(member):
                series.stop = series.stop or "slow"
            series.stop = series.stop or reason_to_stop(series, self.limits, best)
        return self._finished()

    def _count_launches(self, has_samples: bool = False) -> None:
        """Begin, with as many launches a sample as their times say. `has_samples` says whether there
        are some of one launch.
        """
        rotates = self.device.rotates or not self.cold
        repeats = self._repeats(self.limits.sample_us if rotates else 0.0)
        if max(repeats.values()) > 1:
            repeats |= self.as_before
        if not has_samples or max(repeats.values()) > 1:
            self._make_samples(repeats)
        for member in self.everyone:
            member.series = Series(member.sample.times)
        self._begin(self.request)

    def _begin(self, request: Time) -> None:
        """Choose what the warm-up repeats, and the round that is compared.

        First comes what still has to load: code, or the graph of several launches. In the round that
        is compared, samples have a random number of launches: one that leaves its work to the last
        does not know which that is. It is the first round if a launch gets one sample.
        """
        self.short = [
            member for member in self.everyone if member.us < self.device.warm_seconds * 1e6
        ]
        self.warming = [
            member
            for member in (self.everyone if request.us else self.short)
            if member.sample.times > 1 or not member.sample.ready
        ]
        single = max(member.sample.times for member in self.everyone) == 1
        self.warm_us = sum(member.us for member in self.short) if single else math.inf
        for member in self.everyone:
            if member.sample.times > 1:
                usual = member.sample.times
                # two at least: the last one's fresh rows show what was kept from the one before
                times = 3 if usual == 2 else int(self.random.integers(2, usual))
                member.short = self.device.sample(member.launch, times, self.cold, fresh=True)
        slow = any(self._is_slow(member) for member in self.everyone)
        self.compared = 0 if slow else int(self.random.integers(fewest(self.limits)))

    def _warm_up(self) -> None:
        """Time a round that does not count, until two agree or the clock is as high as before."""
        us = sum(timed.us for timed in self._round(self.warming))
        elapsed, least = clock.now() - self.start, self.device.warm_seconds
        mhz, before = self.device.mhz, self.warm_mhz
        steady = abs(mhz - before) <= SETTLED * mhz and mhz >= LEAST_CLOCK * self.risen_mhz
        risen = self.risen_mhz > 0 and (self.risen_mhz <= (1 + SETTLED) * mhz or steady)
        settled = elapsed > least and abs(us - self.warm_us) < SETTLED * us
        done = risen or settled or elapsed > WARM_MOST * least
        self.warm_us, self.warm_mhz = us if self.warming == self.short else math.inf, mhz
        self.warming = [] if done else self.short

    def _is_slow(self, member: _Member) -> bool:
        """Return whether a launch gets one sample. One that was disturbed does not decide that."""
        us = min([member.us, *member.series.samples])
        return us >= SLOW_US and self.reference.us < SLOW_RATIO * us

    def _shuffled(self) -> list[_Member]:
        """Return the launches that are not done, and the reference, in random order."""
        members = [*self.active.values(), self.reference]
        return [members[i] for i in self.random.permutation(len(members))]

    def _seed(self) -> int:
        return int(self.random.integers(2**63))

    def _make_samples(self, repeats: Mapping[_Member, int]) -> None:
        if max(repeats.values(), default=1) == 2:  # those of the round that is compared have three
            self.device.sample(self.reference.launch, 3, self.rotates)  # makes room for these
        for member in sorted(repeats, key=lambda member: -repeats[member]):
            member.sample = self.device.sample(member.launch, repeats[member], self.rotates)

    def _round(self, members: Sequence[_Member]) -> list[Timed]:
        return self.device.time_round(
            [member.sample for member in members], self.cold, self._seed()
        )

    def _time_roughly(self, unknown: Sequence[_Member]) -> None:
        """Find out how long a launch takes. The first ones include loading code, the second ones
        show it.
        """
        self._make_samples(dict.fromkeys(unknown, 1))
        for _ in range(2):
            members = [member for member in unknown if member.us < LONG_US]
            for member, timed in zip(members, self._round(members) if members else [], strict=True):
                member.us = timed.us

    def _repeats(self, sample_us: float) -> dict[_Member, int]:
        """Return how often to repeat each launch in a sample."""
        reference = self.reference.us
        alike = {
            member: reference if abs(member.us - reference) <= ALIKE * reference else member.us
            for member in self.everyone
        }
        return {member: max(1, math.ceil(sample_us / max(us, 0.5))) for member, us in alike.items()}

    def _shorter_than_checked(self, times: Mapping[_Member, Timed]) -> bool:
        """Begin again if a launch that took long so far is a short one, and return whether it is.

        Without that, a launch that knows its check by the whole numbers, and waits there, would get
        samples of one launch: others share the cache with the results of many.
        """
        shorter = [
            member
            for member, timed in times.items()
            if member.us >= KNOWN_US and timed.us < self.limits.sample_us
        ]
        for member in shorter:
            member.us = times[member].us
        if shorter:
            self.turn = 0
            self._count_launches()
        return bool(shorter)

    def _was_stopped(self, stops: int) -> bool:
        """Return whether the process was stopped since there were so many `stops`, if that is still
        a reason to discard what was timed.
        """
        stopped = clock.stops() > stops and self.discarded < MOST_DISCARDED
        self.discarded += stopped
        return stopped

    def _fault(self, member: _Member, timed: Timed) -> str:
        """Return what the audit found. Raises `Refused` if that is a fault of the reference's."""
        launch = member.launch
        why = fault(timed.audit, self.device.given, launch.precision)
        if why and member is self.reference:
            raise Refused("incorrect", f"the reference beside it became wrong: {why}", fatal=True)
        return why

    def _reading(self, timed: Timed) -> dict[str, Any]:
        """Return what the device says of itself during a sample. A clock that it counted replaces
        one that was read.
        """
        counted = {"sm_clock_mhz": timed.sm_clock_mhz} if timed.sm_clock_mhz else {}
        return {**self.device.reading, **counted}

    def _check_company(self, reference: Timed) -> None:
        """Raise `Refused` if other threads of the process have computed beside the reference in all
        rounds so far. If other processes use the machine, forget these rounds first.
        """
        process, thread = self.cpu_ns = (
            self.cpu_ns[0] + reference.cpu_ns[0],
            self.cpu_ns[1] + reference.cpu_ns[1],
        )
        if self.turn < fewest(self.limits) or process <= (1 + COMPANY) * thread:
            return
        busy = bool(self.others())
        if busy and not self.again:
            self.again, self.turn, self.cpu_ns = True, 0, (0, 0)
            for member in self.active.values():
                member.series = replace(member.series, samples=[], reference=[], readings=[])
        elif not busy or process > (1 + COMPANY_IF_BUSY) * thread:
            share = f"{process / max(thread, 1) - 1:.0%} of its own CPU time"
            why = (
                "threads that a call has left behind computed beside the reference, for "
                f"{share}; expected none to compute then"
            )
            raise Refused("launch_error", why, fatal=True)

    def _finished(self) -> dict[int, Series]:
        """Remove the launches that are done from the active ones, and return their samples."""
        finished = {key: member.series for key, member in self.active.items() if member.series.stop}
        for key in finished:
            del self.active[key]
        return finished


class Sustained(Rounds):
    """Measures several launches back to back, in state `sustained`: each "round" is one launch, in
    random order.

    A sample is repeated until clock and power have settled, and only what follows counts: its time,
    its clock and its power. Samples follow each other, so that all but the first find a hot board.
    Their launches use copies of the operands in turn if the device rotates
    copies: as many as a sample has launches, of at most twice the L2. A sample with gaps is measured
    again.
    """

    def _begin(self, request: Time) -> None:
        self.todo, self.wait = self._shuffled(), FIRST_SECONDS
        self.stops: dict[_Member, str] = {}

    @property
    def done(self) -> bool:
        """Whether all launches, and the reference, are done."""
        return not self.todo

    def next(self) -> dict[int, Series]:
        """Measure one launch back to back. All but those with a fault are done after the last,
        since they need the reference's time.
        """
        member = self.todo.pop(0)
        series = member.series
        repeats = series.repeats
        while True:
            stops = clock.stops()
            us = member.us * repeats
            timed = self.device.sustain(member.sample, us, self._seed(), self.wait)
            self.wait = NEXT_SECONDS
            idle = timed.gaps and self.discarded < MOST_DISCARDED
            self.discarded += idle
            if not self._was_stopped(stops) and not idle:
                break
        why = self._fault(member, timed)
        if why:
            series.stop, series.fault = "fault", f"sustained: {why}"
        else:
            series.samples.append(timed.us / repeats)
            reading = self._reading(timed)
            if timed.power_w:
                energy_j = timed.power_w * timed.us / repeats / 1e6
                reading |= {"power_w": timed.power_w, "energy_j": energy_j}
            series.readings.append(reading)
            series.errors = timed.errors
            settled = "settled" if timed.settled else "max_seconds"
            self.stops[member] = "gaps" if timed.gaps else settled
        if not self.todo:
            for other in self.active.values():
                if not other.series.stop:
                    other.series.reference += self.reference.series.samples
                    other.series.stop = self.stops[other]
        return self._finished()


def _due(n: int, first: int) -> bool:
    """Return whether to look for a drift after n samples: at `first`, and each time they have grown
    by `DRIFT_EVERY`.
    """
    return n == first or (
        n > first
        and int(math.log(n / first, DRIFT_EVERY)) > int(math.log((n - 1) / first, DRIFT_EVERY))
    )


def _drifts(values: ArrayLike) -> bool:
    return bool(abs(trend(values)) > DRIFT)
