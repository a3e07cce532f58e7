"""Timing on a simulated GPU whose launches take what the test says."""

import itertools
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
import simulated
from ladder.core import clock
from ladder.devices.back_to_back import FIRST_SECONDS, NEXT_SECONDS
from ladder.devices.base import Audit, Refused, Timed
from ladder.measuring import timing
from ladder.measuring.protocol import Time
from ladder.model.campaign import Limits
from ladder.model.problem import Problem

pytestmark = pytest.mark.usefixtures("gpus")
OK = Audit(0.0, 0, 0)


class Round(NamedTuple):
    """What was timed in a round: the launches of each sample, in order."""

    samples: dict[str, int]
    cold: bool
    seed: int
    compare: bool

    @property
    def order(self):
        return list(self.samples)


def at(value, turn):
    """A value, or what a function says of a round."""
    return value(turn) if callable(value) else value


class Bench(simulated.Gpu):
    """Launches take `times`, in microseconds; `audits` and `cpu_ns` replace what is found."""

    round_seconds = counted_mhz = 0.0
    """What a round takes of the clock, and the device's own clock."""

    def __init__(self, **times):
        super().__init__("GPU-1")
        self.operands(Problem(8, 8, 8, seed=5))
        self.launches = {name: self._launch("right()", {}) for name in times}
        self.times, self.audits, self.cpu_ns, self.rounds = times, {}, {}, []
        self.made = []

    def sample(self, launch, times, cold=False, fresh=False):
        sample = super().sample(launch, times, cold, fresh)
        self.made.append(times)
        sample.ready = launch.ready
        (sample.name,) = (name for name, own in self.launches.items() if own is launch)
        return sample

    def monitor(self):
        return {"sm_clock_mhz": 1000 + len(self.rounds)}

    def time_round(self, samples, cold, seed, compare=False):
        launches = {sample.name: sample.times for sample in samples}
        self.rounds.append(Round(launches, cold, seed, compare))
        turn = len(self.rounds)
        clock.sleep(self.round_seconds)
        self.mhz = at(self.counted_mhz, turn)
        return [
            replace(
                timed,
                us=at(self.times[name], turn) * repeats,
                audit=at(self.audits.get(name, OK), turn),
                cpu_ns=at(self.cpu_ns.get(name, (0, 0)), turn),
            )
            for timed, (name, repeats) in zip(
                super().time_round(samples, cold, seed, compare), launches.items(), strict=True
            )
        ]


def run(device, kind=timing.Rounds, state="warm", best=0.0, seed=7, us=(), repeats=(), **limits):
    """The series of all launches but the reference, by name."""
    *names, reference = device.launches
    usual = {"min_samples": 10, "max_samples": 50, "sample_us": 500.0, "race": False}
    request = Time([], state, Limits(**usual | limits), seed, best, us, repeats)
    launches = [device.launches[name] for name in names]
    rounds, series = kind(device, launches, device.launches[reference], request), {}
    while not rounds.done:
        series |= rounds.next()
    return {names[place]: of_launch for place, of_launch in series.items()}


def steady(*names):
    return Bench(**dict.fromkeys(names, 100.0), reference=50.0)


def noisy(us, amplitude, seed=0):
    """Times with noise of that amplitude."""
    random = np.random.default_rng(seed)
    return lambda turn: us + amplitude * random.random()


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
    """Beside a reference that takes half as long as the first sample."""
    given = Limits(**{"min_samples": 10, "max_samples": 50, "race": False} | limits)
    series = timing.Series(1)
    for us in samples:
        series.add(us, samples[0] / 2, given)
        if reason := timing.reason_to_stop(series, given, best):
            break
    assert (reason, len(series.samples)) == (stop, count)


def test_the_ratio_must_be_known_as_well_as_the_time():
    given, series = Limits(min_samples=10, max_samples=50), timing.Series(1)
    for reference_us in WIDE[:10]:
        series.add(100.0, reference_us, given)
    assert timing.reason_to_stop(series, given, 0.0) == ""


def test_drift_is_looked_for_ever_more_seldom():
    looks = [n for n in range(1, 10_001) if timing._due(n, 20)]
    assert looks[:4] == [20, 22, 25, 27]
    assert all(later <= 1.1 * earlier + 1 for earlier, later in itertools.pairwise(looks))
    assert len(looks) < 70


def test_a_sample_is_the_time_of_one_launch_beside_the_reference_of_the_same_round():
    device = Bench(kernel=lambda turn: 100 + turn / 100, reference=lambda turn: 50 + turn / 200)
    series = run(device)["kernel"]
    assert (series.stop, len(series.samples), series.repeats) == ("target", 10, 5)
    ratios = np.array(series.samples) / series.reference
    assert ratios == pytest.approx([2.0] * 10, rel=1e-12)
    assert 100 < min(series.samples) < max(series.samples) < 101
    first = len(device.rounds) - 10
    clocks = [reading["sm_clock_mhz"] - 1000 for reading in series.readings]
    turns = [turn for turn in range(first, first + 11) if not device.rounds[turn - 1].compare]
    assert clocks == turns[-10:]


def test_rounds_interleave_in_a_random_order_that_the_seed_fixes():
    def orders(seed):
        device = Bench(a=noisy(600, 1), b=noisy(600, 1, 1), reference=600.0)
        run(device, target=1e-9, max_samples=40, seed=seed)
        return [each.order for each in device.rounds]

    first, others = orders(0), [orders(seed) for seed in range(1, 8)]
    assert first == orders(0)
    assert all(sorted(names) == ["a", "b", "reference"] for names in first)
    assert {names.index("reference") for names in first} == {0, 1, 2}
    # the rounds that tell how long a launch takes, too
    assert all(names[0] == names[1] for names in others)
    assert {names[0][0] for names in others} == {"a", "b", "reference"}


def test_what_is_done_leaves_and_the_rest_goes_on():
    device = Bench(steady=100.0, noisy=noisy(100, 50), reference=50.0)
    series = run(device, max_samples=25)
    assert (len(series["steady"].samples), len(series["noisy"].samples)) == (10, 25)
    assert len(device.rounds[-1].samples) == 2


@pytest.mark.parametrize(("rotates", "repeats"), [(False, 1), (True, 5)])
def test_cold_samples_are_single_launches_but_where_their_operands_rotate(rotates, repeats):
    device = steady("kernel")
    device.rotates = rotates
    series = run(device, state="cold")["kernel"]
    assert (series.repeats, series.samples[0], series.reference[0]) == (repeats, 100.0, 50.0)
    assert all(each.cold for each in device.rounds)


@pytest.mark.parametrize("seed", range(8))
def test_a_launch_as_long_as_the_reference_is_repeated_as_often(seed):
    """The first launch of a round is slower, and so is the first one of a sample: different counts
    would make one of two equals faster.
    """

    class Rising(Bench):
        def time_round(self, *given):
            first, *others = super().time_round(*given)
            factor = 1.08 if len(self.rounds) <= 2 else 1.0
            times = [replace(first, us=first.us * factor), *others]
            return [replace(timed, us=timed.us + 1.0) for timed in times]

    series = run(Rising(same=5.0, slower=8.0, reference=5.0), seed=seed)
    assert series["same"].samples == series["same"].reference
    assert series["slower"].repeats < series["same"].repeats


@pytest.mark.parametrize(("times", "rounds"), [([100.0], 2), ([100.0, 150.0], 9)])
def test_it_warms_up_for_as_long_as_the_device_asks_and_until_two_rounds_agree(times, rounds):
    device = Bench(kernel=lambda turn: times[turn % len(times)], reference=50.0)
    device.round_seconds, device.warm_seconds = 0.01, 0.035
    samples = run(device)["kernel"].samples
    # two tell how long a launch takes, one is cut short
    assert len(device.rounds) == 2 + rounds + len(samples) + 1


def test_a_launch_as_long_as_that_is_not_made_again_while_others_warm_up():
    device = Bench(long=2e4, longest=2e5, short=100.0, reference=50.0)
    device.warm_seconds = 0.01
    run(device)
    first, second, warming, *_ = (set(each.samples) for each in device.rounds)
    assert first == {"long", "longest", "short", "reference"}
    # how long the longest takes, no loading of code can hide
    assert second == {"long", "short", "reference"}
    assert warming == {"short", "reference"}


def test_the_clearly_slower_leave_the_race_early_and_the_close_ones_stay():
    times = {"best": noisy(100, 1), "close": noisy(103, 1), "slow": noisy(110, 1)}
    series = run(Bench(**times, reference=50.0), race=True, target=1e-3)
    assert (series["slow"].stop, len(series["slow"].samples)) == ("race", timing.RACE_SAMPLES)
    assert "race" not in (series["best"].stop, series["close"].stop)


@pytest.mark.parametrize(
    ("us", "reference_us", "samples"),
    [
        (5e4, 4.9e3, 1),
        (5e4, 4.9e1, 1),  # a sample of several references is cut short, and gives no times
        (5e4, 5.1e3, 10),
        (4.9e4, 4.8e3, 10),
    ],
)
def test_a_long_launch_far_below_the_reference_has_one_sample_of_which_all_is_compared(
    us, reference_us, samples
):
    device = Bench(slow=us, other=reference_us, reference=reference_us)
    series = run(device)
    assert len(series["slow"].samples) == samples
    assert series["slow"].stop == ("slow" if samples == 1 else "target")
    assert series["slow"].errors.ref2 > 0


def test_where_the_times_are_known_one_round_loads_code_and_none_counts_launches():
    device = Bench(long=2e5, short=100.0, reference=50.0)
    series = run(device, us=[50.0, 2e5, 100.0])
    assert device.rounds[0].samples == {"long": 1, "short": 5, "reference": 10}
    # one is cut short
    assert len(device.rounds) == 1 + 1 + len(series["short"].samples)


def test_a_long_launch_that_was_checked_is_not_made_again_to_see_how_long_it_takes():
    # `loaded` took long because its code was loaded then
    device = Bench(long=2e4, short=100.0, loaded=100.0, reference=50.0)
    for launch, us in zip(device.launches.values(), [2e4, 2e3, 2e4, 0.0], strict=True):
        launch.us, launch.ready = us, launch is not device.launches["loaded"]
    series = run(device)
    others = {"short", "loaded", "reference"}
    assert [set(each.samples) for each in device.rounds[:2]] == [others] * 2
    assert {name: series[name].repeats for name in series} == {"long": 1, "short": 5, "loaded": 5}


@pytest.mark.parametrize("waits", [lambda turn: False, lambda turn: turn % 5 == 2])
def test_a_launch_that_waits_when_it_is_checked_has_samples_of_many_launches(waits):
    """As the others have, whose results then share the cache with each other."""
    device = Bench(kernel=lambda turn: 2e4 if waits(turn) else 100.0, reference=50.0)
    kernel = device.launches["kernel"]
    kernel.us, kernel.ready = 2e4, True
    series = run(device)["kernel"]
    assert series.repeats == 5
    assert len(series.samples) == len(series.reference) >= 10
    assert sum(each.compare for each in device.rounds) == 1 and series.errors.ref2 > 0


@pytest.mark.parametrize("rotates", [True, False])
@pytest.mark.parametrize("state", ["warm", "cold"])
def test_samples_have_as_many_launches_as_before_where_that_is_known(state, rotates):
    device = steady("kernel")
    device.rotates = rotates
    series = run(device, state=state, us=[50.0, 100.0], repeats=[7, 4])["kernel"]
    assert series.repeats == (4 if state == "warm" or rotates else 1)


def test_what_has_nothing_to_load_is_not_made_to_warm_up():
    device = Bench(ready=2e3, short=100.0, other=2e3, reference=50.0)
    for name in ("ready", "short"):
        device.launches[name].ready = True
    run(device, us=[50.0, 2e3, 100.0, 2e3])
    assert set(device.rounds[0].samples) == {"short", "other", "reference"}


@pytest.mark.parametrize(
    ("mhz", "rounds"),
    [
        (1970.0, 1),
        (1830.0, 2),  # as tensor cores lower it, in two rounds
        (1400.0, 4),  # as it may be when the device was idle
        (lambda turn: 900.0 + 40 * turn, 4),  # it rises
    ],
)
def test_no_warm_up_follows_launches_whose_clock_is_still_there(virtual_clock, mhz, rounds):
    """In the same process, by the cycles of the slowest sample."""
    device = Bench(kernel=100.0, reference=50.0)
    device.round_seconds, device.warm_seconds = 0.01, 0.035
    warm = []
    for device.counted_mhz in (1980.0, mhz):
        before = len(device.rounds)
        series = run(device, us=[50.0, 100.0])
        warm.append(len(device.rounds) - before - 1 - len(series["kernel"].samples))
    assert warm == [4, rounds]


def compared(device):
    """The place of the round that is compared."""
    (turn,) = [turn for turn, each in enumerate(device.rounds) if each.compare]
    return turn


def test_every_round_draws_operands_of_its_own_and_one_at_random_compares_all_of_them():
    places = set()
    for seed in range(12):
        device = steady("kernel")
        series = run(device, seed=seed, sample_us=0.0)["kernel"]
        turn, seeds = compared(device), [each.seed for each in device.rounds]
        assert seeds[turn] == device.given.seed  # whose reference is at hand
        assert len(set(seeds)) == len(seeds)
        assert series.errors.ref2 > 0
        places.add(turn - (len(device.rounds) - 10))
    # also what leaves the race first has been compared
    assert places == set(range(timing.RACE_SAMPLES))


@pytest.mark.parametrize(("usual", "others"), [(2, {3}), (3, {2}), (5, {2, 3, 4})])
def test_samples_of_the_round_that_is_compared_have_another_number_of_launches(usual, others):
    """So a launch is found that leaves its work to the last of a sample. Two at least, so that rows
    that are fresh in the last one show what is kept.
    """
    lengths = set()
    for seed in range(24):
        device = steady("right", "late")
        device.audits["late"] = lambda turn, rounds=device.rounds: (
            OK if rounds[-1].samples["late"] in (1, usual) else Audit(1.0, 0, 0)
        )
        series = run(device, seed=seed, sample_us=100.0 * usual)
        turn = compared(device)
        later = {each.samples["right"] for each in device.rounds[turn + 1 :]}
        assert later == {series["right"].repeats} == {usual}
        # two tell how long a launch takes; the round that is compared gives no time
        assert len(device.rounds) == 2 + 1 + len(series["right"].samples)
        lengths.add(device.rounds[turn].samples["right"])
        assert series["late"].fault
    assert lengths == others


@pytest.mark.parametrize("usual", [2, 3, 5])
def test_the_sample_with_the_most_launches_is_made_first(usual):
    """It makes room for all: later room would be elsewhere, and the samples before it would write
    to what is freed.
    """
    device = Bench(right=100.0, reference=100.0)
    run(device, sample_us=100.0 * usual)
    assert next(times for times in device.made if times > 1) == max(device.made)


@pytest.mark.parametrize(
    ("audit", "message"),
    [
        (Audit(0.0, 0, 3), "3 elements outside C were overwritten"),
        *((Audit(worst, 0, 0), "a row of C is off by") for worst in (1e-3, np.inf, np.nan)),
    ],
)
def test_what_an_audit_finds_ends_the_sampling_of_that_launch_alone(audit, message):
    device = steady("right", "wrong")
    device.audits["wrong"] = lambda turn: audit if turn >= 8 else OK
    series = run(device, target=-1.0, max_samples=20)
    right, wrong = series["right"], series["wrong"]
    assert (right.stop, right.fault, len(right.samples)) == ("max_samples", "", 20)
    assert wrong.stop == "fault"
    assert wrong.fault.startswith(f"sample {len(wrong.samples) + 1}: {message}")
    assert len(wrong.samples) < 8


def refused(device, status, message):
    with pytest.raises(Refused, match=message) as refusal:
        run(device)
    assert (refusal.value.status, refusal.value.fatal) == (status, True)


@pytest.mark.parametrize(
    ("others", "share", "rounds", "samples"),
    [(0.0, 0.04, 99, 10), (0.0, 0.08, 99, None), (0.5, 0.08, 99, 10), (0.5, 0.6, 99, None)],
)
def test_threads_that_compute_beside_the_reference_are_refused(others, share, rounds, samples):
    """By the CPU time of all its samples. If other processes use the cores, all is timed again
    first, and then only threads are accused that compute about as much as the reference.
    """
    device = steady("kernel")
    device.watch = lambda: lambda: others
    device.cpu_ns = {
        "kernel": (4_000, 1_000),  # its own threads may compute while it is timed
        "reference": lambda turn: (1_000 + 1_000 * share * (turn <= rounds), 1_000),
    }
    if samples is None:
        refused(device, "launch_error", f"for {share:.0%} of its own CPU time")
    else:
        assert len(run(device)["kernel"].samples) == samples
    again = timing.RACE_SAMPLES if others else 0
    # two tell how long a launch takes, one is cut short
    assert len(device.rounds) == 2 + 1 + again + (samples or timing.RACE_SAMPLES)


def test_a_reference_that_becomes_wrong_ends_it_all():
    device = steady("kernel")
    device.audits["reference"] = lambda turn: Audit(1.0, 0, 0) if turn >= 6 else OK
    message = "the reference beside it became wrong: a row of C is off by 1 of its size"
    refused(device, "incorrect", message)


@pytest.mark.parametrize("seed", range(5))
def test_who_overwrites_an_operand_is_at_fault_and_not_those_that_follow_in_the_round(seed):
    """All that is launched after it in a round is wrong, the reference too, and none of that
    round's times count.
    """
    device = steady("a", "culprit", "b")

    def audit(name, turn):
        order = device.rounds[-1].order
        spoilt = turn >= 7 and "culprit" in order[: order.index(name) + 1]
        return Audit(0.5, 4, 0) if spoilt else OK

    device.audits = {name: lambda turn, name=name: audit(name, turn) for name in device.launches}
    series = run(device, seed=seed, target=-1.0, max_samples=12)
    assert "4 elements of A and B were overwritten" in series["culprit"].fault
    for other in (series["a"], series["b"]):
        assert (other.fault, len(other.samples)) == ("", 12)
    with_culprit = sum("culprit" in each.samples for each in device.rounds)
    *_, last_compared = (each for each in device.rounds if each.compare)
    alone = 12 - len(series["culprit"].samples)
    # the times of the round that is compared do not count
    assert len(device.rounds) - with_culprit == alone + ("culprit" not in last_compared.samples)


def test_what_was_sustained_while_the_process_was_stopped_is_repeated(virtual_clock):
    """Three times at the most: a kernel could stop its process whenever it is slow."""
    device, stopped = Bench(a=10.0, reference=10.0), iter([True, True, False, False])

    def sustain(sample, us, seed, wait):
        late = next(stopped, True)
        virtual_clock.stops += late
        return Timed((1e6 if late else 10.0) * sample.times, OK)

    device.sustain = sustain
    for us in (10.0, 1e6):  # and then it is stopped each time
        series = run(device, timing.Sustained, "sustained")["a"]
        assert series.samples == series.reference == [us]


def test_a_sustained_sample_with_gaps_is_repeated_and_says_so_if_it_has_them_again():
    device, gaps = Bench(a=10.0, reference=10.0), iter([True, False, False])
    device.sustain = lambda sample, us, seed, wait: Timed(10.0, OK, gaps=next(gaps, True))
    stops = [run(device, timing.Sustained, "sustained")["a"].stop for _ in range(2)]
    assert stops == ["settled", "gaps"]


def test_only_the_first_launches_back_to_back_wait_until_the_board_is_hot():
    device, waits = Bench(a=10.0, b=10.0, reference=10.0), []
    device.sustain = lambda sample, us, seed, wait: waits.append(wait) or Timed(10.0, OK)
    run(device, timing.Sustained, "sustained")
    assert waits == [FIRST_SECONDS, NEXT_SECONDS, NEXT_SECONDS]


@pytest.mark.parametrize("rotates", [True, False])
def test_sustained_launches_use_copies_of_the_operands_in_turn(rotates):
    device, asked = Bench(a=10.0, reference=10.0), []
    device.rotates, make = rotates, device.sample
    device.sample = lambda launch, times, cold, **more: (
        asked.append(cold) or make(launch, times, cold, **more)
    )
    run(device, timing.Sustained, "sustained")
    assert set(asked) == {rotates}
    asked.clear()
    run(device)
    assert not any(asked)
