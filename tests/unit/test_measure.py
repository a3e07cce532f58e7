"""What a measure job decides by the records it has: whom state cold follows, and how good the best is."""

import pytest
from ladder import campaign, kernels
from ladder.environment import ROOT
from ladder.measure import Job, Run, _read
from ladder.records import Journal

SLOW = 100  # microseconds of a launch beside which filling the caches is nothing


@pytest.fixture
def make(tmp_path):
    def run(**limits):
        data = {
            "campaign": "t", "problems": {"cuda": [{"square": 64}]}, "kernels": ["cuda/03_shared_tile"],
            "parameters": {"cuda/03_shared_tile": {"BM": [8, 16, 32], "BN": [8, 16, 32], "BK": [8]}},
            "measure": {"states": ["cold", "warm"], **limits},
        }  # fmt: skip
        plan = campaign.load(data, "t", kernels.discover(ROOT)).plan("cuda", "03_shared_tile.float32")
        job = Job("d", "cuda", plan, {}, tmp_path, tmp_path, {}, "code", refill_us=0.1)
        return Run(job, Journal(tmp_path / "journal"), "uuid", lock=0)

    return run


def warm(run, times):
    """Record warm samples of the first contestants; returns all entries of the states."""
    entries = [entry for entry in run.entries if entry.state == "warm"]
    for entry, us in zip(entries, times, strict=False):
        run._record(entry, {"status": "correct", "samples_us": [us] * 5, "reference_us": [1.0] * 5, "stop": "target"})
    return [entry for entry in run.entries if entry.state == "cold"]


def test_warm_comes_first(make):
    states = [entry.state for entry in make().entries]
    assert states == sorted(states, reverse=True)
    assert len(states) == 18


def test_cold_follows_the_best_and_the_others_say_so(make):
    run = make(cold_best=2)
    cold = warm(run, [5.0, 2.0, 3.0, 9.0])[:4]
    problem = cold[0].problem
    assert [entry.index for entry in run._follow(problem, cold)] == [1, 2]
    skipped = [run.journal.records[cold[index].key] for index in (0, 3)]
    assert {record["status"] for record in skipped} == {"skipped"}
    assert "2 best of state warm" in skipped[0]["reason"]


def test_cold_of_long_launches_is_warm(make):
    run = make(cold_best=0)
    cold = warm(run, [5.0, SLOW])[:2]
    assert [entry.index for entry in run._follow(cold[0].problem, cold)] == [0]
    assert "filling the caches takes 0.1 us" in run.journal.records[cold[1].key]["reason"]


def test_without_warm_all_are_cold(make):
    run = make()
    cold = warm(run, [])
    assert run._follow(cold[0].problem, cold) == cold


def test_another_sweep_is_measured_anew(make):
    assert {e.key for e in make().entries}.isdisjoint(e.key for e in make(race=False).entries)


def test_energy_is_that_of_the_best_that_finished_and_measured_once(make):
    run = make()
    warm(run, [5.0, 2.0])
    (problem,) = run.entries_of
    best, raced = run._timed(problem, "warm").values()
    run.journal.append(best | {"stop": "race", "repeats": 1})  # the faster one
    run.journal.append(raced | {"repeats": 3})
    asked = []

    class Child:
        loaded = frozenset({0, 1})

        def ask(self, request, timeout):
            asked.append(request)
            return iter([("energy", 0.25)])

    run._ready = lambda problem: Child()
    for _ in range(2):
        run._measure_energy(problem, [entry for entry in run.entries if entry.state == "warm"])
    assert asked == [("energy", 0, 3, 15.0)]
    assert [record.get("energy_j") for record in run._timed(problem, "warm").values()] == [None, 0.25]


def test_readings_become_columns():
    found = _read([{"sm_clock_mhz": 1000, "throttle_reasons": 0, "power_w": None}, {"sm_clock_mhz": 900, "throttle_reasons": 4}])
    assert (found["sm_clock_mhz"], found["power_w"], found["throttle_reasons"]) == (950.0, None, 4)
    assert (found["samples_sm_clock_mhz"], found["samples_throttle_reasons"]) == ([1000, 900], [0, 4])
    assert _read([{}])["throttle_reasons"] is None
