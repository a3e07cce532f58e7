"""The confirmation: who is measured again, what runs side by side in which process, and what becomes of those that fail."""

import hashlib
import itertools
import os
from dataclasses import replace
from types import SimpleNamespace

import pytest
from ladder.core.errors import InputError
from ladder.core.files import ROOT
from ladder.measuring import confirmation, session
from ladder.measuring.protocol import Load, Sampled, SetProblem, Time
from ladder.measuring.supervisor import Failure
from ladder.model import campaign_file, kernel_file
from ladder.model.problem import Problem
from ladder.storage import samples as records

SMALL, LARGE = Problem(8, 8, 8), Problem(16, 16, 16)


def row(kernel, configuration, us, problem=SMALL, **given):
    """A row of the sweep, beside a reference of 1 microsecond."""
    base = dict.fromkeys(records.SCHEMA.names) | vars(problem) | {"state": "warm", "reference": "cublas"}
    base |= {"kernel": kernel, "configuration": configuration}
    return base | {"status": "correct", "stop": "target", "samples_us": [us] * 3, "reference_us": [1.0] * 3} | given


def roles(chosen):
    return [(finalist.kernel, finalist.configuration, finalist.role) for finalist in chosen]


def test_finalists_are_the_best_of_each_kernel_and_those_near_it():
    rows = [row("a", "slow", 1.03), row("a", "best", 1.0), row("a", "near", 1.015), row("b", "-", 9.0), row("cublas", "-", 1.0)]
    rows += [row("a", "wrong", 0.1, status="incorrect"), row("a", "raced", 0.9, stop="race"), row("a", "slow", 0.5, state="cold")]
    rows += [row("a", "slow", 1.0, problem=LARGE)]
    chosen = confirmation.finalists(rows, 0.02, 3, {})
    assert list(chosen) == [SMALL, LARGE]
    assert roles(chosen[SMALL]) == [("a", "best", "best"), ("a", "near", "finalist"), ("b", "-", "best"), ("cublas", "-", "best")]
    assert roles(chosen[LARGE]) == [("a", "slow", "best")]
    assert chosen[SMALL][1].us == 1.015
    assert roles(confirmation.finalists(rows, 0.02, 1, {})[SMALL])[:2] == [("a", "best", "best"), ("b", "-", "best")]
    assert len(confirmation.finalists(rows, 0.5, 9, {})[SMALL]) == 5


def test_another_kernels_configuration_with_the_same_binary_is_a_control():
    rows = [row("a", "x", 1.0), row("a", "y", 2.0), row("b", "x", 3.0, stop="race"), row("b", "z", 1.5), row("c", "x", 1.0)]
    rows.append(row("c", "slow", 9.0))
    same = [("a", "x"), ("a", "y"), ("b", "x"), ("c", "slow")]
    sha256 = {("c", "float32", "x"): "t"} | {(kernel, "float32", label): "s" for kernel, label in same}
    best = [("a", "x", "best"), ("b", "z", "best"), ("c", "x", "best")]
    assert roles(confirmation.finalists(rows, 0.02, 3, sha256)[SMALL]) == [*best, ("b", "x", "control"), ("c", "slow", "control")]
    assert roles(confirmation.finalists(rows, 0.02, 3, {})[SMALL]) == best


WHAT = {SetProblem: "problem", Load: "load", Time: "time"}


class Child:
    """Answers as a worker would; `faults` maps what is asked to the failures that it meets, one after another."""

    asked, states, faults, count = (), [], {}, 0  # set for every run
    process = SimpleNamespace(pid=os.getpid())
    sustained_us = 2.0
    """What a launch takes back to back, but for one of `b`."""

    def __init__(self, kind, uuid, support, lock):
        Child.count += 1
        self.number, self.busy_us, self.attributes = Child.count, 1.0, FACTS["attributes"]

    def ask(self, request, timeout):
        what, who = WHAT[type(request)], ()
        key = (what,)
        match request:
            case SetProblem():
                self.problem, self.names = request.problem, {}
            case Load():
                self.names[request.index] = request.candidate.name
                key = (what, request.candidate.name)
            case Time():
                who = tuple(self.names[index] for index in request.indices)
                key = (what, *sorted(who))
        Child.asked.append((self.number, what, self.problem.m, who or tuple(vars(request).values())))
        if what == "time":
            Child.states.append((self.number, request.state))
        for part in [key, *(("time", "with", name) for name in who)]:
            if Child.faults.get(part):
                raise Child.faults[part].pop(0)
        if what == "time":
            for index in request.indices:
                verdict = {"status": "correct", "reason": "", "frobenius_error": 1e-7}
                if request.state == "sustained":
                    reading = {"energy_j": 0.5, "power_w": 250e3, "sm_clock_mhz": 1300.0}
                    us = 500.0 if self.names[index] == "b" else self.sustained_us
                    yield Sampled(index, [us], [1.0], [reading], 4, "settled", None, verdict)
                else:
                    yield Sampled(index, [2.0, 2.0], [1.0, 1.0], [{}, {}], 4, "max_samples", None, verdict)

    def has_ended(self):
        return False

    def close(self):
        pass


FACTS = {
    "device": "d",
    "kind": "cpu",
    "peaks": {"fp32_tflops": 1e3, "copy_tb_s": 1e3},
    "attributes": {"cores": 4, "cache_bytes": 1 << 30},
}


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Runs a confirmation of three kernels on two problems; returns what was asked and the rows."""
    monkeypatch.setattr(session, "Child", Child)
    Child.faults = {}
    rows = [row(name, "-", us, problem) for problem in (SMALL, LARGE) for name, us in (("a", 2.0), ("b", 500.0), ("cublas", 1.0))]
    samples = tmp_path / "all.parquet"
    records.write(samples, rows, {})
    binaries = {}
    for name, label in itertools.product("ab", ("-", "near")):
        (tmp_path / name).write_text(name)
        sha256 = hashlib.sha256(name.encode()).hexdigest()
        binaries[name, "float32", label] = {"sha256": sha256, "binary": str(tmp_path / name)}

    def run(uuids=("GPU-1",), refill_us=0.0, samples=samples, **keys):
        data = {"campaign": "t", "problems": {"cuda": [{"square": 8}]}, "confirm": {"processes": 3}, **keys}
        plan = campaign_file.load(data, "t", kernel_file.discover(ROOT)).confirmation("cuda")
        given = {"samples": [samples], "swept": "swept", "refill_us": refill_us}
        job = confirmation.ConfirmationJob("d", "cuda", plan, binaries, tmp_path, {}, "code", FACTS, **given)
        Child.asked, Child.states, Child.count = [], [], 0
        session = confirmation.run(job, tmp_path / "confirmed.journal", tmp_path / "confirmed.parquet", list(uuids))
        return Child.asked, records.read(tmp_path / "confirmed.parquet")[0], session

    run.samples = samples
    return run


def timed(asked):
    return [(number, m, who) for number, what, m, who in asked if what == "time"]


ALL = ("a", "b", "cublas")


def test_all_are_timed_side_by_side_in_fresh_processes(make):
    asked, rows, session = make()
    assert sorted(timed(asked)) == [(process, m, ALL) for process in (1, 2, 3) for m in (8, 16)]
    assert [[m for number, m, _ in timed(asked) if number == process] for process in (1, 2, 3)] == [
        [8, 16]
    ] * 3  # the small first
    loads = [(number, m, given[1].name) for number, what, m, given in asked if what == "load"]
    assert sorted(loads) == [(process, m, name) for process in (1, 2, 3) for m in (8, 16) for name in ALL]  # each once
    assert [(r["process"], r["m"], r["kernel"]) for r in rows] == list(itertools.product((1, 2, 3), (8, 16), ALL))
    distinct = {(r["status"], r["role"], r["reference"], r["repeats"], r["uuid"]) for r in rows}
    assert distinct == {("correct", "best", "cublas", 4, "GPU-1")}
    assert rows[0]["frobenius_error"] == 1e-7
    assert (session["job"], session["children"], session["measured"]) == ("confirmed", 3, 18)
    assert session["jobs"] == {"all": hashlib.sha256(make.samples.read_bytes()).hexdigest()}


def test_a_baseline_that_is_only_context_has_rounds_of_its_own(make, tmp_path):
    rows = [row(name, "-", 1.0) for name in ("a", "cublas", "cublas_tf32", "b")]
    records.write(tmp_path / "context.parquet", rows, {})
    asked, rows, _ = make(samples=tmp_path / "context.parquet")
    assert [who for _, _, who in timed(asked)] == [("a", "cublas", "b"), ("cublas_tf32",)] * 3
    assert len(rows) == 12


def test_what_is_faster_than_the_device_is_incorrect_there_too(make, monkeypatch):
    monkeypatch.setitem(FACTS["attributes"], "cores", 1e-9)
    _, rows, _ = make()
    assert {row["status"] for row in rows if row["kernel"] == "a"} == {"incorrect"}
    assert all("faster than the device" in row["reason"] for row in rows if row["kernel"] == "a" and row["reason"])


def test_limits_let_none_leave_before_the_others(make, monkeypatch):
    given = []
    ask = Child.ask
    monkeypatch.setattr(Child, "ask", lambda self, request, timeout: given.append(request) or ask(self, request, timeout))
    make(measure={"target": 0.1, "race": True}, confirm={"processes": 3, "rounds": 7, "seconds": 0.25})
    timings = [request for request in given if isinstance(request, Time)]
    limits = timings[0].limits
    assert (limits.race, limits.min_samples, limits.max_samples, limits.max_seconds) == (False, 1, 7, 0.25)
    assert limits.target < 0  # not even a single sample, whose interval has no width, is enough
    seeds = [request.seed for request in timings]
    assert len(set(seeds)) == len(seeds)


def test_a_journal_is_gone_on_with_on_its_own_gpu(make):
    make(uuids=["GPU-2"])
    assert make(uuids=["GPU-1", "GPU-2"])[2]["measured"] == 0
    _, rows, session = make(uuids=["GPU-1"])  # the other is gone
    assert session["measured"] == 18
    assert {r["uuid"] for r in rows} == {"GPU-1"}


@pytest.mark.parametrize("change", [{"seed": 1}, {"measure": {"sample_us": 1}}, {"confirm": {"processes": 3, "rounds": 9}}])
def test_what_it_depends_on_makes_it_anew(make, change):
    make()
    assert make(**change)[2]["measured"] == 18


def test_more_processes_and_problems_to_sustain_are_added_to_those_there_are(make):
    make()
    assert make(confirm={"processes": 4})[2]["measured"] == 6
    assert make(measure={"sustained": [8]}, confirm={"processes": 4})[2]["measured"] == 9


def test_what_fails_to_load_is_left_out_everywhere_after(make):
    Child.faults = {("load", "b"): [Failure("launch_error", "off", alive=True)]}
    asked, rows, _ = make()
    assert all(who == ("a", "cublas") for _, _, who in timed(asked))
    (failure,) = [r for r in rows if r["kernel"] == "b"]
    assert (failure["status"], failure["reason"], failure["process"]) == ("launch_error", "off", 1)
    assert sum(r["status"] == "correct" for r in rows) == 12


def test_who_breaks_the_child_while_timed_is_found_and_the_others_are_timed_again(make):
    Child.faults = {("time", "with", "b"): [Failure("timeout", "no answer", alive=False)] * 2}
    asked, rows, _ = make()
    problem = timed(asked)[0][1]
    assert [who for _, m, who in timed(asked) if m == problem][:5] == [ALL, ("a",), ("b",), ("cublas",), ("a", "cublas")]
    (failure,) = [r for r in rows if r["kernel"] == "b"]
    assert (failure["status"], failure["reason"]) == ("timeout", "while timed: no answer")
    assert sum(r["status"] == "correct" for r in rows) == 12


def test_what_nobody_does_alone_is_tried_again_and_then_is_everybodys(make):
    failure = Failure("launch_error", "gone", alive=False)
    Child.faults = {("time", *ALL): [failure]}
    assert all(r["status"] == "correct" for r in make()[1])
    Child.faults = {("time", *ALL): [failure] * 2}
    _, rows, _ = make(seed=2)
    assert [(r["status"], r["reason"]) for r in rows] == [("launch_error", "while timed: gone")] * 3


def test_a_child_that_is_killed_from_outside_is_no_ones_fault(make):
    Child.faults = {("time", *ALL): [Failure("launch_error", "signal 9", alive=False, killed=True)]}
    asked, rows, session = make()
    assert all(r["status"] == "correct" for r in rows)
    assert session["children"] == 4
    assert [who for _, _, who in timed(asked)] == [ALL] * 7  # and none was suspected


def test_a_problem_that_cannot_be_set_up_is_an_error(make):
    wrong = Failure("launch_error", "the reference is incorrect", alive=False)
    Child.faults = {("problem",): [wrong] * 2}
    with pytest.raises(InputError, match="the problem could not be set up: the reference is incorrect; no fault of a kernel's"):
        make()
    Child.faults = {("problem",): [wrong]}  # in the process in which kernels have run, and not in a fresh one
    assert all(r["status"] == "correct" for r in make(seed=2)[1])
    Child.faults = {("problem",): [Failure("not_supported", "no memory", alive=True)] * 3}
    _, rows, _ = make(seed=3)  # of the first problem in the first process only
    assert [r["reason"] for r in rows if r["status"] == "not_supported"] == ["no memory"] * 3
    assert sum(r["status"] == "correct" for r in rows) == 15


def test_cold_comes_after_warm_and_not_where_it_is_the_same(make):
    asked, rows, _ = make(measure={"states": ["cold", "warm"], "target": 0.01}, refill_us=1.0)
    first = timed(asked)[0][1]
    assert [who for _, m, who in timed(asked) if m == first][:2] == [ALL, ("a", "cublas")]
    skipped = [r for r in rows if r["status"] == "skipped"]
    assert {(r["kernel"], r["state"]) for r in skipped} == {("b", "cold")}
    assert "as warm: filling the caches takes 1.0 us" in skipped[0]["reason"]
    assert {r["state"] for r in rows if r["kernel"] == "a"} == {"warm", "cold"}


def sustained(rows):
    return [r for r in rows if r["state"] == "sustained"]


def test_the_best_are_measured_back_to_back_thrice_in_rounds_of_their_own_after_all_others(make):
    _, rows, _ = make(measure={"sustained": [16], "states": ["warm", "cold"]}, confirm={"processes": 4})
    assert [(r["process"], r["kernel"], r["m"]) for r in sustained(rows)] == [(p, name, 16) for p in (1, 2, 3) for name in ALL]
    for number, of_process in itertools.groupby(Child.states, key=lambda item: item[0]):
        order = [state for _, state in of_process]
        assert order.count("sustained") == (1 if number <= 3 else 0)
        assert "sustained" not in order[:-1]
    readings = {(r["energy_j"], r["power_w"], r["sm_clock_mhz"], r["stop"]) for r in sustained(rows)}
    assert readings == {(0.5, 250e3, 1300.0, "settled")}
    assert {r["energy_j"] for r in rows if r["state"] != "sustained"} == {None}


def test_a_finalist_that_is_not_the_best_is_not_measured_back_to_back(make, tmp_path):
    records.write(tmp_path / "near.parquet", [row("a", "-", 2.0), row("a", "near", 2.01)], {})
    _, rows, _ = make(samples=tmp_path / "near.parquet", measure={"sustained": [8]})
    assert [r["configuration"] for r in sustained(rows)] == ["-"] * 3


def test_launches_that_do_less_back_to_back_than_alone_have_no_result(make, monkeypatch):
    monkeypatch.setattr(Child, "sustained_us", 1.5)  # of 2 microseconds
    _, rows, _ = make(measure={"sustained": [16]})
    (reason,) = {(r["status"], r["reason"]) for r in sustained(rows) if r["kernel"] == "a"}
    assert reason == ("skipped", "not sustained: a launch took 1.5 us back to back, and 2 us alone; expected at most 20% less")
    assert {r["status"] for r in sustained(rows) if r["kernel"] == "cublas"} == {"correct"}


def test_nothing_to_confirm_is_an_empty_file(make, tmp_path):
    records.write(tmp_path / "none.parquet", [row("a", "-", 1.0, status="incorrect")], {})
    _, rows, session = make(samples=tmp_path / "none.parquet")
    assert (rows, session["children"]) == ([], 0)


def test_a_binary_that_is_not_what_was_compiled_is_refused(make, tmp_path):
    (tmp_path / "b").write_text("another")
    with pytest.raises(InputError, match=r"b: its sha256 is not the one in resources\.csv; expected what was compiled"):
        make()
    (tmp_path / "b").unlink()
    (tmp_path / "b").mkdir()  # as of a row without a binary: its folder
    with pytest.raises(InputError, match=r"b: its sha256 is not the one in resources\.csv"):
        make()


def test_what_an_audit_finds_in_a_process_is_incorrect_there_and_not_timed_after(make, monkeypatch):
    ask = Child.ask

    def audited(self, request, timeout):
        for answer in ask(self, request, timeout):
            wrong = isinstance(answer, Sampled) and self.names[answer.index] == "b"
            verdict = {"status": "incorrect", "reason": "sample 2: a row of C is off"}
            yield replace(answer, verdict=verdict) if wrong else answer

    monkeypatch.setattr(Child, "ask", audited)
    asked, rows, _ = make()
    (failure,) = [r for r in rows if r["kernel"] == "b"]
    assert (failure["status"], failure["reason"]) == ("incorrect", "while timed: sample 2: a row of C is off")
    assert failure["samples_us"] is None
    assert [who for _, _, who in timed(asked)] == [ALL] + [("a", "cublas")] * 5
