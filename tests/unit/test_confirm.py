"""The confirmation: who is measured again, what runs side by side in which process, and what
becomes of those that fail.
"""

import hashlib
import itertools

import pytest
from jobs import Jobs
from ladder.measuring import confirmation
from ladder.measuring.protocol import Candidate, Load, SetProblem, Time
from ladder.measuring.supervisor import Failure
from ladder.model.problem import Problem
from ladder.storage import samples as records

SMALL, LARGE = Problem(8, 8, 8), Problem(16, 16, 16)


def row(kernel, configuration, us, problem=SMALL, **given):
    """A row of the sweep, beside a reference of 1 microsecond."""
    usual = {
        "kernel": kernel,
        "configuration": configuration,
        "state": "warm",
        "status": "correct",
        "reference": "cublas",
        "stop": "target",
        "samples_us": [us] * 3,
        "reference_us": [1.0] * 3,
        "repeats": 1,
    }
    return dict.fromkeys(records.SCHEMA.names) | vars(problem) | usual | given


def chosen_of(rows, within=0.02, most=3, binaries=()):
    """The finalists on each problem by kernel, configuration and role; `binaries` are digests by
    kernel and configuration.
    """

    def candidate(name, element_type, label, precision):
        return Candidate(name, label, sha256=dict(binaries).get((name, label), ""))

    chosen = confirmation.finalists(rows, within, most, candidate)
    return {
        problem: [(each.candidate.name, each.candidate.configuration, each.role) for each in all_]
        for problem, all_ in chosen.items()
    }


def test_finalists_are_the_best_of_each_kernel_and_those_near_it():
    rows = [
        row("a", "slow", 1.03),
        row("a", "best", 1.0),
        row("a", "near", 1.015),
        row("b", "-", 9.0),
        row("cublas", "-", 1.0),
        row("a", "wrong", 0.1, status="incorrect"),
        row("a", "raced", 0.9, stop="race"),
        row("a", "slow", 0.5, state="cold"),
        row("a", "slow", 1.0, problem=LARGE),
    ]
    best, near = ("a", "best", "best"), ("a", "near", "finalist")
    others = [("b", "-", "best"), ("cublas", "-", "best")]
    assert chosen_of(rows) == {SMALL: [best, near, *others], LARGE: [("a", "slow", "best")]}
    assert list(chosen_of(rows)) == [SMALL, LARGE]
    assert chosen_of(rows, most=1)[SMALL] == [best, *others]
    assert len(chosen_of(rows, 0.5, 9)[SMALL]) == 5


def test_another_kernels_configuration_with_the_same_binary_is_a_control():
    rows = [
        row("a", "x", 1.0),
        row("a", "y", 2.0),
        row("b", "x", 3.0, stop="race"),
        row("b", "z", 1.5),
        row("c", "x", 1.0),
        row("c", "slow", 9.0),
    ]
    same = [("a", "x"), ("a", "y"), ("b", "x"), ("c", "slow")]
    binaries = {("c", "x"): "t"} | dict.fromkeys(same, "s")
    best = [("a", "x", "best"), ("b", "z", "best"), ("c", "x", "best")]
    controls = [("b", "x", "control"), ("c", "slow", "control")]
    assert chosen_of(rows, binaries=binaries)[SMALL] == [*best, *controls]
    assert chosen_of(rows)[SMALL] == best


@pytest.fixture
def jobs(tmp_path, monkeypatch, gpus):
    """A confirmation of three kernels on two problems; `jobs.samples` is what the sweep found."""
    made = Jobs(tmp_path, monkeypatch, {"a": 2, "b": 1}, problems={"cuda": [{"square": [8, 16]}]})
    made.measure = {"sample_us": 0, "timeout_seconds": 6}
    made.does["b"] = "slow(250); right()"
    us = (("a", "U=1", 2.0, 5), ("b", "-", 500.0, 1), ("cublas", "-", 2.0, 7))
    made.samples = swept(
        tmp_path / "all.parquet",
        *(row(*each, problem, repeats=times) for problem in (SMALL, LARGE) for *each, times in us),
    )
    return made


def swept(path, *rows):
    """Write rows of the sweep; return the path."""
    records.write(path, rows, {})
    return path


def timed(jobs, m=None):
    """What was timed together, by worker and problem, or only that on problems of a size."""
    return [
        (asked.worker, asked.m, asked.who) if m is None else asked.who
        for asked in jobs.of(Time)
        if m is None or asked.m == m
    ]


ALL = ("a U=1", "b", "cublas")
KERNELS = ("a", "b", "cublas")


def test_all_are_timed_side_by_side_in_fresh_processes(jobs):
    rows = jobs.confirm(jobs.samples)
    # the small first
    assert timed(jobs) == [(process, m, ALL) for process in (1, 2, 3) for m in (8, 16)]
    loads = [(asked.worker, asked.m, *asked.who) for asked in jobs.of(Load)]
    # each once
    assert loads == [(process, m, name) for process in (1, 2, 3) for m in (8, 16) for name in ALL]
    assert [(r["process"], r["m"], r["kernel"]) for r in rows] == list(
        itertools.product((1, 2, 3), (8, 16), KERNELS)
    )
    # as long as in the sweep, the reference first
    asked = [asked.request for asked in jobs.of(Time)]
    assert {(*each.us, *each.repeats) for each in asked} == {(2, 2, 500, 2, 7, 5, 1, 7)}
    distinct = {
        (r["status"], r["role"], r["reference"], r["repeats"], r["uuid"], len(r["samples_us"]))
        for r in rows
    }
    assert distinct == {("correct", "best", "cublas", 1, "GPU-1", 8)}
    compiled = {name: row["sha256"] for (name, _, _), row in jobs.binaries().items()}
    assert {r["kernel"]: r["binary_sha256"] for r in rows} == compiled | {"cublas": None}
    assert 0 < rows[0]["frobenius_error"] < 1e-6
    # the next one is started beside each but the last
    started = {(asked.worker, asked.started) for asked in jobs.of(Time)}
    assert started == {(1, 2), (2, 3), (3, 3)}
    session = jobs.session
    assert (session["job"], session["children"], session["measured"]) == ("confirmed", 3, 18)
    assert session["jobs"] == {"all": hashlib.sha256(jobs.samples.read_bytes()).hexdigest()}


def test_a_baseline_that_is_only_context_has_rounds_of_its_own(jobs, tmp_path):
    baselines = row("cublas", "-", 1.0, repeats=7), row("cublas_tf32", "-", 1.0, repeats=3)
    rows = [row("a", "U=1", 1.0), *baselines, row("b", "-", 1.0)]
    assert len(jobs.confirm(swept(tmp_path / "context.parquet", *rows))) == 12
    assert timed(jobs, 8) == [("a U=1", "cublas", "b"), ("cublas_tf32",)] * 3
    # the reference beside it, which is in the other rounds
    assert jobs.of(Time)[-1].request.repeats == [7, 3]


@pytest.mark.parametrize(
    ("element_type", "apart"),
    [("float32", ["cublas_tf32", "on tensor cores"]), ("bfloat16", [])],  # as the reference is
)
def test_rounds_are_shared_where_the_reference_uses_the_tensor_cores(element_type, apart):
    problem = Problem(8, 8, 8, element_type)
    names = ("cublas", "cublas_tf32", "on tensor cores", "plain")
    rows = [
        row(name, "-", 1.0, problem, tensor_cores=name == "on tensor cores" or None)
        for name in names
    ]
    (chosen,) = confirmation.finalists(rows, 0.02, 3, named).values()
    assert [each.candidate.name for each in chosen if each.apart] == apart
    assert [each.candidate.name for each in chosen if each.tensor_cores] == ["on tensor cores"]


def named(name, element_type, label, precision):
    return Candidate(name, label)


def test_limits_let_none_leave_before_the_others(jobs):
    jobs.confirm(
        jobs.samples,
        measure={"target": 0.1, "race": True},
        confirm={"processes": 3, "rounds": 7, "seconds": 0.25},
    )
    timings = [asked.request for asked in jobs.of(Time)]
    limits = timings[0].limits
    expected = {"race": False, "min_samples": 1, "max_samples": 7, "max_seconds": 0.25}
    assert vars(limits) | expected == vars(limits)
    assert limits.target < 0  # not even a single sample, whose interval has no width, is enough
    assert len({request.seed for request in timings}) == len(timings)


def test_a_journal_is_gone_on_with_on_its_own_gpu(jobs, gpus):
    gpus.write_text(gpus.read_text().replace('["GPU-1"]', '["GPU-1", "GPU-2"]'))
    jobs.confirm(jobs.samples, uuids=["GPU-2"])
    jobs.confirm(jobs.samples, uuids=["GPU-1", "GPU-2"])
    assert jobs.session["measured"] == 0
    rows = jobs.confirm(jobs.samples, uuids=["GPU-1"])  # the other is gone
    assert jobs.session["measured"] == 18
    assert {r["uuid"] for r in rows} == {"GPU-1"}


@pytest.mark.parametrize(
    ("change", "measured"),
    [
        ({"measure": {"sample_us": 1}}, 18),
        ({"confirm": {"processes": 3, "rounds": 9}}, 18),
        ({"confirm": {"processes": 4}}, 6),
        ({"measure": {"sustained": [8]}}, 6),
    ],
)
def test_what_it_depends_on_is_measured_anew_and_more_is_added_to_what_is_there(
    jobs, change, measured
):
    jobs.confirm(jobs.samples)
    jobs.confirm(jobs.samples, **change)
    assert jobs.session["measured"] == measured


OFF = Failure("launch_error", "off", alive=True)
HUNG = Failure("timeout", "no answer", alive=False)
GONE = Failure("launch_error", "gone", alive=False)
KILLED = Failure("launch_error", "signal 9", alive=False, killed=True)
WITHOUT_B = ("a U=1", "cublas")
SEARCH = [ALL, ("a U=1",), ("b",), ("cublas",)]


@pytest.mark.parametrize(
    ("faults", "failed", "reason", "rounds"),
    [
        ({(Load, "b"): [OFF]}, {"b"}, "off", [WITHOUT_B] * 3),
        (
            {(Time, "with", "b"): [HUNG] * 2},
            {"b"},
            "while timed: no answer",
            [*SEARCH, *[WITHOUT_B] * 3],
        ),
        # nobody does that alone: all are tried again
        ({(Time, *ALL): [GONE]}, set(), "", [*SEARCH, *[ALL] * 3]),
        # and then it is everybody's
        ({(Time, *ALL): [GONE] * 2}, {*KERNELS}, "while timed: gone", SEARCH * 2),
        # from outside: no one's fault, and none is suspected
        ({(Time, *ALL): [KILLED]}, set(), "", [ALL] * 4),
    ],
)
def test_the_culprits_of_a_group_that_failed_are_found_and_the_others_timed_together_again(
    jobs, faults, failed, reason, rounds
):
    """On the small problem, of three processes. Who has failed once is left out everywhere
    after.
    """
    jobs.faults = {key: list(failures) for key, failures in faults.items()}
    rows = jobs.confirm(jobs.samples)
    assert {(r["kernel"], r["reason"], r["process"]) for r in rows if r["status"] != "correct"} == {
        (name, reason, 1) for name in failed
    }
    assert sum(r["status"] == "correct" for r in rows) == 6 * (3 - len(failed))
    assert timed(jobs, 8) == rounds


def test_a_problem_that_does_not_fit_has_no_result(jobs):
    jobs.faults = {SetProblem: [Failure("not_supported", "no memory", alive=True)] * 3}
    rows = jobs.confirm(jobs.samples)  # of the first problem in the first process only
    assert [r["reason"] for r in rows if r["status"] == "not_supported"] == ["no memory"] * 3
    assert sum(r["status"] == "correct" for r in rows) == 15


def test_cold_comes_after_warm_and_not_where_it_is_the_same(jobs):
    rows = jobs.confirm(
        jobs.samples, measure={"states": ["cold", "warm"], "target": 0.01}, refill_us=1.0
    )
    assert timed(jobs, 8)[:2] == [ALL, WITHOUT_B]
    skipped = [r for r in rows if r["status"] == "skipped"]
    assert {(r["kernel"], r["state"]) for r in skipped} == {("b", "cold")}
    assert "as warm: filling the caches takes 1.0 us" in skipped[0]["reason"]
    assert {r["state"] for r in rows if r["kernel"] == "a"} == {"warm", "cold"}


def sustained(rows):
    return [r for r in rows if r["state"] == "sustained"]


def test_the_best_are_measured_back_to_back_five_times_in_rounds_of_their_own_after_all_others(
    jobs,
):
    # but for `b`, which is far below the reference
    measure = {"sustained": [16], "states": ["warm", "cold"]}
    rows = jobs.confirm(jobs.samples, measure=measure, confirm={"processes": 6})
    assert [(r["process"], r["kernel"], r["m"]) for r in sustained(rows)] == [
        (p, name, 16) for p in (1, 2, 3, 4, 5) for name in ("a", "cublas")
    ]
    for number, of_process in itertools.groupby(jobs.of(Time), key=lambda asked: asked.worker):
        order = [asked.request.state for asked in of_process]
        assert order.count("sustained") == (1 if number <= 5 else 0)
        assert "sustained" not in order[:-1]
    for r in sustained(rows):
        assert (r["power_w"], r["sm_clock_mhz"], r["stop"]) == (500.0, 900.0, "settled")
        assert r["energy_j"] == pytest.approx(500.0 * r["samples_us"][0] / 1e6, rel=1e-3)
    assert {r["energy_j"] for r in rows if r["state"] != "sustained"} == {None}


def test_a_finalist_that_is_not_the_best_is_not_measured_back_to_back(jobs, tmp_path):
    samples = swept(tmp_path / "near.parquet", row("a", "U=1", 2.0), row("a", "U=2", 2.01))
    rows = jobs.confirm(samples, measure={"sustained": [8]})
    assert [r["configuration"] for r in sustained(rows)] == ["U=1"] * 3


@pytest.mark.parametrize(("us", "names"), [(1.05, ["a", "b"]), (1.06, ["a"])])
def test_only_the_fastest_kernels_are_measured_back_to_back(jobs, tmp_path, us, names):
    samples = swept(tmp_path / "near.parquet", row("a", "U=1", 1.0), row("b", "-", us))
    rows = jobs.confirm(samples, measure={"sustained": [8]})
    assert sorted({r["kernel"] for r in sustained(rows)}) == names


def test_launches_that_do_less_back_to_back_than_alone_have_no_result(jobs, tmp_path):
    rows = jobs.confirm(
        swept(
            tmp_path / "x.parquet",
            row("a", "U=1", 2.6, reference_us=[2.4] * 3),
            row("cublas", "-", 2.4),
        ),
        measure={"sustained": [8]},
    )
    reasons = [(r["status"], r["reason"]) for r in sustained(rows) if r["kernel"] == "a"]
    assert {status for status, _ in reasons} == {"skipped"}
    assert "us back to back, and 2.6 us alone; expected at most 20% less" in reasons[0][1]
    assert {r["status"] for r in sustained(rows) if r["kernel"] == "cublas"} == {"correct"}


def test_nothing_to_confirm_is_an_empty_file(jobs, tmp_path):
    samples = swept(tmp_path / "none.parquet", row("a", "U=1", 1.0, status="incorrect"))
    assert jobs.confirm(samples) == []
    assert jobs.session["children"] == 0
