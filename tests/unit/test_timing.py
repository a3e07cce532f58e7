"""Timing on a device whose clock the test turns."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from ladder import timing
from ladder.campaign import Limits
from ladder.devices import Device, Launch


class Scripted(Device):
    """Times come from functions of the round; `rounds` remembers the order in which launches were timed."""

    kind = "cpu"

    def __init__(self, **times: Callable[[int], float]) -> None:
        self.times, self.round, self.rounds, self.cold = times, 0, [], []
        self.launches = {name: Launch(lambda: None) for name in times}
        self.owner = {id(launch): (name, 1) for name, launch in self.launches.items()}

    def repeated(self, launch, times, cold=False):
        name, _ = self.owner[id(launch)]
        many = Launch(lambda: None)
        self.owner[id(many)] = (name, times)
        self.keep = [*getattr(self, "keep", []), many]
        return many

    def time_round(self, launches, cold):
        self.round += 1
        named = [self.owner[id(launch)] for launch in launches]
        self.rounds.append([name for name, _ in named])
        self.cold.append(cold)
        self.reading = {"sm_clock_mhz": 1000 + self.round}
        return [self.times[name](self.round) * repeats for name, repeats in named]

    problem = kernel = baseline = check = monitor = describe = peaks = launch_us = close = None


Scripted.__abstractmethods__ = frozenset()


def run(device: Scripted, state: str = "warm", **limits: object) -> dict[int, timing.Series]:
    names = [name for name in device.launches if name != "reference"]
    launches = {index: device.launches[name] for index, name in enumerate(names)}
    best = limits.pop("best", 0.0)
    given = Limits(**{"min_samples": 10, "max_samples": 50, "sample_us": 500.0, "race": False, **limits})
    done = timing.measure(device, launches, device.launches["reference"], state, given, seed=7, best=best)
    return {item[0]: item[1] for item in done if item is not None}


@pytest.fixture(autouse=True)
def short_warm_up(monkeypatch):
    monkeypatch.setattr(timing, "WARM_SECONDS", 0.0)


def test_a_steady_kernel_stops_at_the_target_with_the_least_samples():
    device = Scripted(kernel=lambda r: 100.0, reference=lambda r: 50.0)
    series = run(device)[0]
    assert (series.stop, len(series.samples), series.repeats) == ("target", 10, 5)
    assert series.samples == [100.0] * 10  # of one launch, not of five
    assert series.reference == [50.0] * 10


def test_a_noisy_one_goes_on_to_the_limit():
    noise = np.random.default_rng(0)
    device = Scripted(kernel=lambda r: 100 + 20 * noise.random(), reference=lambda r: 50.0)
    series = run(device, max_samples=30)[0]
    assert (series.stop, len(series.samples)) == ("max_samples", 30)


def test_a_slow_one_stops_by_time_but_has_the_least_samples():
    noise = np.random.default_rng(0)
    device = Scripted(kernel=lambda r: 1e6 * (1 + noise.random()), reference=lambda r: 50.0)
    series = run(device, max_seconds=2.0)[0]
    assert (series.stop, len(series.samples), series.repeats) == ("max_seconds", 10, 1)


def test_samples_and_reference_are_of_the_same_round():
    device = Scripted(kernel=lambda r: 100.0 + r, reference=lambda r: 50.0 + r / 2)
    series = run(device)[0]
    assert [k / r for k, r in zip(series.samples, series.reference, strict=True)] == [2.0] * len(series.samples)


def test_rounds_interleave_in_a_random_order_that_the_seed_fixes():
    def orders() -> list[list[str]]:
        device = Scripted(a=lambda r: 600 + 0.618 * r % 1, b=lambda r: 600 + 0.414 * r % 1, reference=lambda r: 600.0)
        run(device, target=1e-9, max_samples=40)
        return device.rounds[-40:]

    first = orders()
    assert first == orders()
    assert all(sorted(names) == ["a", "b", "reference"] for names in first)
    assert {names.index("reference") for names in first} == {0, 1, 2}


def test_what_is_done_leaves_and_the_rest_goes_on():
    noise = np.random.default_rng(0)
    device = Scripted(steady=lambda r: 100.0, noisy=lambda r: 100 + 50 * noise.random(), reference=lambda r: 50.0)
    series = run(device, max_samples=25)
    assert (len(series[0].samples), len(series[1].samples)) == (10, 25)
    assert len(device.rounds[-1]) == 2


def test_cold_samples_are_single_launches_after_a_flush():
    device = Scripted(kernel=lambda r: 1.0, reference=lambda r: 1.0)
    series = run(device, state="cold")[0]
    assert series.repeats == 1
    assert all(device.cold)


def test_cold_launches_are_repeated_where_their_operands_rotate():
    device = Scripted(kernel=lambda r: 100.0, reference=lambda r: 50.0)
    device.rotates = True
    series = run(device, state="cold")[0]
    assert (series.repeats, series.samples[0], series.reference[0]) == (5, 100.0, 50.0)
    assert all(device.cold)


def test_a_slow_kernel_warms_up_by_the_rounds_that_tell_how_slow_it_is():
    device = Scripted(kernel=lambda r: 2e5, reference=lambda r: 1e5)
    run(device)
    assert len(device.rounds) == 2 + 10


def test_the_clearly_slower_leave_the_race_early_and_the_close_ones_stay():
    noise = np.random.default_rng(0)
    device = Scripted(
        best=lambda r: 100.0 + noise.random(), close=lambda r: 103.0 + noise.random(), slow=lambda r: 110.0 + noise.random(),
        reference=lambda r: 50.0,
    )  # fmt: skip
    series = run(device, race=True, target=1e-3)
    assert (series[2].stop, len(series[2].samples)) == ("race", timing.RACE_SAMPLES)
    assert "race" not in (series[0].stop, series[1].stop)
    assert all(mine.stop != "race" for mine in run(device, race=False, target=1e-3).values())


def test_the_best_of_an_earlier_group_counts():
    device = Scripted(kernel=lambda r: 100.0, reference=lambda r: 50.0)
    assert run(device, race=True, best=0.52)[0].stop == "target"
    assert run(device, race=True, best=0.53)[0].stop == "race"


def test_a_noisy_one_does_not_lose_by_its_median_alone():
    values = [100.0, 130.0, 150.0, 150.0, 150.0]
    device = Scripted(kernel=lambda r: values[r % 5], reference=lambda r: 50.0)
    assert len(run(device, race=True, best=0.5)[0].samples) > timing.RACE_SAMPLES


def test_what_drifts_is_not_sampled_to_the_limit():
    noise = np.random.default_rng(0)
    device = Scripted(kernel=lambda r: 100 + r + noise.random(), reference=lambda r: 50.0)
    series = run(device)[0]
    assert (series.stop, len(series.samples)) == ("drift", 20)


def test_every_sample_has_the_reading_of_its_round():
    device = Scripted(kernel=lambda r: 100.0, reference=lambda r: 50.0)
    series = run(device)[0]
    assert [reading["sm_clock_mhz"] for reading in series.readings] == [1000 + device.round - 9 + i for i in range(10)]


def test_drift_is_looked_for_ever_more_seldom():
    looks = [n for n in range(1, 10_001) if timing._due(n, 20)]
    assert looks[:4] == [20, 22, 25, 27]
    assert all(later <= 1.1 * earlier + 1 for earlier, later in itertools.pairwise(looks))
    assert len(looks) < 70
