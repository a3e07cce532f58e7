"""Timing on a device whose clock the test turns."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from ladder.core import clock
from ladder.devices.base import Audit, Device, Errors, Launch, Refused, Sample, Timed
from ladder.measuring import timing
from ladder.model.campaign import Limits
from ladder.model.problem import Problem

OK = Audit(0.0, 0, 0)


class Scripted(Device):
    """Times come from functions of the round, audits from `audits`; `rounds` remembers the order in
    which launches were timed.
    """

    kind = "cpu"
    warm_seconds = 0.0
    round_seconds = 0.0
    """What a round takes of the clock."""
    given = Problem(64, 64, 64, seed=5)

    def __init__(self, **times: Callable[[int], float]) -> None:
        self.times, self.round, self.rounds, self.cold, self.seeds, self.compared = (
            times,
            0,
            [],
            [],
            [],
            [],
        )
        self.made: list[dict[str, int]] = []
        """The launches of each sample of each round."""
        self.audits: dict[str, Callable[[int], Audit]] = {}
        self.cpu_ns: dict[str, Callable[[int], tuple[int, int]]] = {}
        self.launches = {name: Launch(lambda *addresses: lambda: None) for name in times}
        self.reserved: list[tuple[int, bool]] = []

    def reserve(self, times, cold):
        self.reserved.append((times, cold))

    def sample(self, launch, times, cold=False):
        (name,) = (name for name, own in self.launches.items() if own is launch)
        return Sample(name, lambda: None, times)

    def time_round(self, samples, cold, seed, compare=False):
        self.round += 1
        if self.round_seconds:
            clock.sleep(self.round_seconds)
        names = [sample.call for sample in samples]
        self.rounds.append(names)
        self.made.append({sample.call: sample.times for sample in samples})
        self.cold.append(cold)
        self.seeds.append(seed)
        self.compared.append(compare)
        self.reading = {"sm_clock_mhz": 1000 + self.round}
        errors = Errors(0.0, 1.0, 1.0, 0.0, 0, 0, 0) if compare else None
        return [
            Timed(
                self.times[name](self.round) * sample.times,
                self.audits.get(name, lambda r: OK)(self.round),
                errors,
                self.cpu_ns.get(name, lambda r: (0, 0))(self.round),
            )
            for name, sample in zip(names, samples, strict=True)
        ]


Scripted.__abstractmethods__ = frozenset()


def run(device: Scripted, state: str = "warm", **limits: object) -> dict[int, timing.Series]:
    launches = [launch for name, launch in device.launches.items() if name != "reference"]
    best, seed = limits.pop("best", 0.0), limits.pop("seed", 7)
    given = Limits(
        **{"min_samples": 10, "max_samples": 50, "sample_us": 500.0, "race": False, **limits}
    )
    return measured(
        timing.Rounds(device, launches, device.launches["reference"], state, given, seed, best)
    )


def measured(rounds: timing.Rounds) -> dict[int, timing.Series]:
    series = {}
    while not rounds.done:
        series |= rounds.next()
    return series


def steady(*names):
    return Scripted(**dict.fromkeys(names, lambda r: 100.0), reference=lambda r: 50.0)


NOISE = np.random.default_rng(0).random(60)
WIDE = [100.0, 130.0, 150.0, 150.0, 150.0] * 12
RACE = {"race": True}


@pytest.mark.parametrize(
    ("samples", "limits", "best", "stop", "count"),
    [
        ([100.0] * 60, {}, 0.0, "target", 10),
        (100 + 20 * NOISE, {"max_samples": 30}, 0.0, "max_samples", 30),
        # a slow one has the least samples
        (1e6 * (1 + NOISE), {"max_seconds": 2.0}, 0.0, "max_seconds", 10),
        (1e5 * (1 + NOISE), {"max_seconds": 2.0}, 0.0, "max_seconds", 13),
        (100 + np.arange(60) + NOISE, {}, 0.0, "drift", 20),  # it is not sampled to the limit
        ([100.0] * 60, RACE, 0.52, "target", 10),  # of an earlier group
        ([100.0] * 60, RACE, 0.53, "race", timing.RACE_SAMPLES),
        (WIDE, RACE, 0.5, "race", 9),  # nobody loses by the median alone
    ],
)
def test_a_launch_has_enough_samples(samples, limits, best, stop, count):
    """Beside a reference of 50 microseconds."""
    given = Limits(**{"min_samples": 10, "max_samples": 50, "race": False} | limits)
    series = timing.Series(1)
    for us in samples:
        series.add(us, 50.0, given)
        if reason := timing.reason_to_stop(series, given, best):
            break
    assert (reason, len(series.samples)) == (stop, count)
    if stop == "max_seconds" and count > 10:
        assert sum(series.samples[:-1]) <= 2e6 < sum(series.samples)


def test_a_steady_kernel_stops_at_the_target_with_the_least_samples():
    series = run(steady("kernel"))[0]
    assert (series.stop, len(series.samples), series.repeats) == ("target", 10, 5)
    assert series.samples == [100.0] * 10  # of one launch, not of five
    assert series.reference == [50.0] * 10


def test_samples_and_reference_are_of_the_same_round():
    device = Scripted(kernel=lambda r: 100.0 + r, reference=lambda r: 50.0 + r / 2)
    series = run(device)[0]
    assert [k / r for k, r in zip(series.samples, series.reference, strict=True)] == [2.0] * len(
        series.samples
    )


def test_rounds_interleave_in_a_random_order_that_the_seed_fixes():
    def orders() -> list[list[str]]:
        device = Scripted(
            a=lambda r: 600 + 0.618 * r % 1,
            b=lambda r: 600 + 0.414 * r % 1,
            reference=lambda r: 600.0,
        )
        run(device, target=1e-9, max_samples=40)
        return device.rounds[-40:]

    first = orders()
    assert first == orders()
    assert all(sorted(names) == ["a", "b", "reference"] for names in first)
    assert {names.index("reference") for names in first} == {0, 1, 2}


def test_what_is_done_leaves_and_the_rest_goes_on():
    noise = np.random.default_rng(0)
    device = Scripted(
        steady=lambda r: 100.0, noisy=lambda r: 100 + 50 * noise.random(), reference=lambda r: 50.0
    )
    series = run(device, max_samples=25)
    assert (len(series[0].samples), len(series[1].samples)) == (10, 25)
    assert len(device.rounds[-1]) == 2


@pytest.mark.parametrize(("rotates", "repeats"), [(False, 1), (True, 5)])
def test_cold_samples_are_single_launches_but_where_their_operands_rotate(rotates, repeats):
    device = steady("kernel")
    device.rotates = rotates
    series = run(device, state="cold")[0]
    assert (series.repeats, series.samples[0], series.reference[0]) == (repeats, 100.0, 50.0)
    assert all(device.cold)


@pytest.mark.parametrize("seed", range(8))
def test_a_launch_as_long_as_the_reference_is_repeated_as_often(seed):
    """The first launch of a round is slower, and so is the first one of a sample: different counts
    would make one of two equals faster.
    """

    class Rising(Scripted):
        def time_round(self, samples, cold, seed, compare=False):
            times = super().time_round(samples, cold, seed, compare)
            times = [replace(timed, us=timed.us + 1.0) for timed in times]
            return (
                [replace(times[0], us=times[0].us * 1.08), *times[1:]] if self.round <= 2 else times
            )

    device = Rising(same=lambda r: 5.0, slower=lambda r: 8.0, reference=lambda r: 5.0)
    same, slower = (series for _, series in sorted(run(device, seed=seed).items()))
    assert same.samples == same.reference
    assert slower.repeats < same.repeats


def test_the_first_rounds_are_in_an_order_that_the_seed_chooses():
    first = []
    for seed in range(20):
        device = steady("kernel")
        run(device, seed=seed)
        assert device.rounds[0] == device.rounds[1]
        first.append(device.rounds[0][0])
    assert set(first) == {"kernel", "reference"}


@pytest.mark.parametrize(("times", "rounds"), [([100.0], 2), ([100.0, 150.0], 9)])
def test_it_warms_up_for_as_long_as_the_device_asks_and_until_two_rounds_agree(
    times, rounds, virtual_clock
):
    device = Scripted(kernel=lambda r: times[r % len(times)], reference=lambda r: 50.0)
    device.round_seconds = 0.01
    device.warm_seconds = 0.035
    samples = run(device)[0].samples
    # two tell how long a launch takes, one is cut short
    assert len(device.rounds) == 2 + rounds + len(samples) + 1


def test_a_launch_as_long_as_that_is_not_made_again_while_others_warm_up():
    device = Scripted(
        long=lambda r: 2e4, longest=lambda r: 2e5, short=lambda r: 100.0, reference=lambda r: 50.0
    )
    device.warm_seconds = 0.01
    run(device)
    first, second, warming, *_ = map(set, device.rounds)
    assert first == {"long", "longest", "short", "reference"}
    # how long the longest takes, no loading of code can hide
    assert second == {"long", "short", "reference"}
    assert warming == {"short", "reference"}


def test_a_slow_kernel_has_warmed_up_by_the_round_that_tells_how_slow_it_is():
    device = Scripted(kernel=lambda r: 2e5, reference=lambda r: 1e5)
    run(device)
    assert len(device.rounds) == 1 + 10


def test_the_clearly_slower_leave_the_race_early_and_the_close_ones_stay():
    noise = np.random.default_rng(0)
    device = Scripted(
        best=lambda r: 100.0 + noise.random(),
        close=lambda r: 103.0 + noise.random(),
        slow=lambda r: 110.0 + noise.random(),
        reference=lambda r: 50.0,
    )
    series = run(device, race=True, target=1e-3)
    assert (series[2].stop, len(series[2].samples)) == ("race", timing.RACE_SAMPLES)
    assert "race" not in (series[0].stop, series[1].stop)
    assert all(mine.stop != "race" for mine in run(device, race=False, target=1e-3).values())


def test_every_sample_has_the_reading_of_its_round():
    device = steady("kernel")
    series = run(device, sample_us=0.0)[0]
    assert [reading["sm_clock_mhz"] for reading in series.readings] == [
        1000 + device.round - 9 + i for i in range(10)
    ]


def test_drift_is_looked_for_ever_more_seldom():
    looks = [n for n in range(1, 10_001) if timing._due(n, 20)]
    assert looks[:4] == [20, 22, 25, 27]
    assert all(later <= 1.1 * earlier + 1 for earlier, later in itertools.pairwise(looks))
    assert len(looks) < 70


def test_every_round_draws_operands_of_its_own_and_one_at_random_compares_all_of_them():
    compared = set()
    for seed in range(12):
        device = steady("kernel")
        (series,) = run(device, seed=seed, sample_us=0.0).values()
        (which,) = [turn for turn, compare in enumerate(device.compared) if compare]
        assert device.seeds[which] == device.given.seed  # whose reference is at hand
        assert len(set(device.seeds)) == len(device.seeds)
        assert series.errors == Errors(0.0, 1.0, 1.0, 0.0, 0, 0, 0)
        compared.add(which - (len(device.rounds) - 10))
    # also what leaves the race first has been compared
    assert compared == set(range(timing.RACE_SAMPLES))


def test_the_round_that_is_compared_ends_after_any_launch_of_its_samples_and_gives_no_time():
    lengths = set()
    for seed in range(24):
        device = steady("kernel")
        (series,) = run(device, seed=seed).values()  # samples of five launches
        (which,) = [turn for turn, compare in enumerate(device.compared) if compare]
        lengths.add(device.made[which]["kernel"])
        assert {made["kernel"] for made in device.made[which + 1 :]} == {series.repeats} == {5}
        assert len(device.rounds) == 2 + 1 + len(series.samples)  # two tell how long a launch takes
    assert lengths == {1, 2, 3, 4}


def test_a_launch_that_leaves_its_work_to_the_last_of_its_sample_is_found_in_the_round_that_is_cut_short():
    """It has learned how many a sample has."""
    device = steady("right", "late")
    device.audits["late"] = lambda r: OK if device.made[-1]["late"] in (1, 5) else bad()(r)
    caught = [bool(run(device, seed=seed)[1].fault) for seed in range(8)]
    cut = [
        made["late"]
        for made, compared in zip(device.made, device.compared, strict=True)
        if compared
    ]
    assert caught == [made > 1 for made in cut]
    assert sum(caught) > 4


def test_room_is_made_for_the_longest_sample_before_the_first_is_made():
    device = Scripted(slow=lambda r: 100.0, fast=lambda r: 10.0, reference=lambda r: 50.0)
    run(device)
    assert device.reserved == [(50, False)]


def bad(worst=1.0, changed=0, stray=0, first=0):
    return lambda r: Audit(worst, changed, stray) if r >= first else OK


def test_what_an_audit_finds_ends_the_sampling_of_that_launch_alone():
    device = steady("right", "wrong")
    device.audits["wrong"] = bad(stray=3, worst=0.0, first=8)
    series = run(device, target=-1.0, max_samples=20)
    assert (series[0].stop, series[0].fault, len(series[0].samples)) == ("max_samples", "", 20)
    assert series[1].stop == "fault"
    assert (
        series[1].fault
        == f"sample {len(series[1].samples) + 1}: 3 elements outside C were overwritten"
    )
    assert len(series[1].samples) < 8


@pytest.mark.parametrize("worst", [1e-3, float("inf"), float("nan")])
def test_a_row_that_is_off_is_a_fault(worst):
    device = steady("kernel")
    device.audits["kernel"] = bad(worst)
    assert "a row of C is off by" in run(device)[0].fault


def test_threads_that_compute_beside_the_reference_are_refused():
    """By the CPU time of all its samples: a busy machine does not change it, and no single sample
    decides.
    """
    device = steady("kernel")
    device.cpu_ns = {
        "kernel": lambda r: (4_000, 1_000),
        "reference": lambda r: (1_040 if r % 2 else 1_000, 1_000),
    }
    assert run(device)[0].stop == "target"  # a kernel's own threads may compute while it is timed
    device.cpu_ns["reference"] = lambda r: (1_750, 1_000)
    message = (
        "threads that a call has left behind computed beside the reference, for 75% of its "
        "own CPU time"
    )
    with pytest.raises(Refused, match=message) as refused:
        run(device)
    assert (refused.value.status, refused.value.fatal) == ("launch_error", True)


def test_a_reference_that_becomes_wrong_ends_it_all():
    device = steady("kernel")
    device.audits["reference"] = bad(first=6)
    with pytest.raises(
        Refused, match="the reference beside it became wrong: a row of C is off by 1 of its size"
    ) as refused:
        run(device)
    assert (refused.value.status, refused.value.fatal) == ("incorrect", True)


@pytest.mark.parametrize("seed", range(5))
def test_who_overwrites_an_operand_is_at_fault_and_not_those_that_follow_in_the_round(seed):
    """All that is launched after it in a round is wrong, the reference too, and none of that
    round's times count.
    """
    device = steady("a", "culprit", "b")

    def audit(name):
        def of_round(r):
            order = device.rounds[-1]
            if r < 7 or "culprit" not in order or order.index(name) < order.index("culprit"):
                return OK
            return Audit(0.5, 4, 0)

        return of_round

    device.audits = {name: audit(name) for name in device.launches}
    series = run(device, seed=seed, target=-1.0, max_samples=12)
    assert "4 elements of A and B were overwritten" in series[1].fault
    assert [series[key].fault for key in (0, 2)] == ["", ""]
    assert [len(series[key].samples) for key in (0, 2)] == [12, 12]
    spoilt = sum("culprit" in names for names in device.rounds)
    compared = [
        names for names, compare in zip(device.rounds, device.compared, strict=True) if compare
    ][-1]
    # whose times do not count
    assert len(device.rounds) - spoilt == 12 - len(series[1].samples) + ("culprit" not in compared)


def test_what_was_sustained_while_the_process_was_stopped_is_repeated(virtual_clock):
    """Three times at the most: a kernel could stop its process whenever it is slow."""
    device, stopped = (
        Scripted(ref=lambda r: 10.0, a=lambda r: 10.0),
        iter([True, True, False, False]),
    )

    def sustain(sample, us, seed):
        device.rounds.append(sample.call)
        late = next(stopped, True)
        virtual_clock.stops += late
        return Timed((1e6 if late else 10.0) * sample.times, OK)

    device.sustain = sustain
    asked = (
        [device.launches["a"]],
        device.launches["ref"],
        "sustained",
        Limits(states=["sustained"]),
        1,
    )
    (series,) = measured(timing.Sustained(device, *asked)).values()
    assert (series.samples, series.reference) == ([10.0], [10.0])
    (series,) = measured(timing.Sustained(device, *asked)).values()  # stopped each time
    assert series.samples == series.reference == [1e6]
