"""What a measure job asks its worker, and what it makes of the answers, on a simulated GPU."""

import json
from contextlib import nullcontext
from dataclasses import replace

import pytest
from jobs import Jobs
from ladder.core.errors import InputError
from ladder.devices.operands import whole
from ladder.measuring import worker
from ladder.measuring.protocol import Check, Load, RunGauntlet, Search, SetProblem, Time
from ladder.measuring.session import columns_of
from ladder.measuring.supervisor import Failure
from ladder.model.baselines import SEARCH
from ladder.model.hardware_limits import least_us
from ladder.model.problem import Problem
from ladder.storage import samples

JOB = "many.float32"
THREE = ("many U=1", "many U=2", "many U=3")


@pytest.fixture
def jobs(tmp_path, monkeypatch, gpus):
    """A measure job of three configurations on two problems."""
    square = {"cuda": [{"square": [24, 40]}]}
    return Jobs(
        tmp_path, monkeypatch, {"many": 3}, problems=square, element_types=["float32", "bfloat16"]
    )


def outcomes(run):
    """Status and reason of every entry, in order."""
    try:
        run.measure_all()
        run.kept = run.records()
        return [(record["status"], record["reason"]) for record in run.kept]
    finally:
        for journal in run.journals.values():
            journal.close()


RIGHT = ("correct", "")
ONE = {"problems": {"cuda": [{"square": 24}]}}


def who(jobs, kind):
    return [asked.who for asked in jobs.of(kind)]


def test_the_gauntlet_is_run_once_a_binary_and_one_exact_launch_a_problem(jobs):
    run = jobs.open(JOB)
    assert outcomes(run) == [RIGHT] * 6
    # of three configurations, on two problems
    assert who(jobs, RunGauntlet) == [(name,) for name in THREE]
    problems = [asked.request.problem for asked in jobs.of(SetProblem)]
    assert [(problem.m, problem.distribution) for problem in problems] == [
        (m, distribution) for m in (24, 40) for distribution in ("exact", "uniform")
    ]
    assert who(jobs, Check) == [(name,) for name in THREE] * 2
    timings = jobs.of(Time)
    assert [(asked.who, asked.request.state) for asked in timings] == [(THREE, "warm")] * 2
    # nothing is timed before it
    assert jobs.asked.index(timings[0]) > jobs.asked.index(jobs.of(RunGauntlet)[-1])
    expected = {
        "repeats": 1,
        "state": "warm",
        "tensor_cores": False,
        "gauntlet_problems": 10,
        "gauntlet_changed": 0,
    }
    record = run.kept[0]
    assert {name: record[name] for name in expected} == expected
    assert len(record["samples_us"]) == 4


@pytest.fixture
def two(tmp_path, monkeypatch, gpus):
    """A measure job of two kernels, of one configuration and of two, on two problems."""
    square = {"cuda": [{"square": [24, 40]}]}
    return Jobs(tmp_path, monkeypatch, {"a": 1, "b": 2}, problems=square)


SHARES = ("a.float32", "b.float32")


def test_kernels_of_a_job_share_operands_and_are_timed_each_for_itself(two):
    assert outcomes(two.open(*SHARES)) == [RIGHT] * 6
    problems = [asked.request.problem for asked in two.of(SetProblem)]
    assert [(problem.m, problem.distribution) for problem in problems] == [
        (m, distribution) for m in (24, 40) for distribution in ("exact", "uniform")
    ]
    assert who(two, Time) == [("a",), ("b U=1", "b U=2")] * 2
    assert [asked.request.best for asked in two.of(Time)] == [0.0] * 4  # of its own kernel


def test_a_kernel_that_kills_the_worker_harms_no_other_of_its_job(two):
    two.does["a"] = "right(); die(11) if timed else None"
    results = outcomes(two.open(*SHARES))
    # a's rows, then b's
    assert [status for status, _ in results] == ["launch_error"] * 2 + ["correct"] * 4


def test_what_was_measured_stays_when_jobs_have_other_kernels(two):
    samples_of = {row["key"]: row for row in samples.read(two.sweep("a.float32"))[0]}
    rows, session = samples.read(two.sweep(*SHARES))
    assert [row["kernel"] for row in rows] == ["a"] * 2 + ["b"] * 4
    assert session["measured"] == 4
    assert samples_of == {row["key"]: row for row in rows[:2]}
    assert samples.read(two.sweep("b.float32"))[1]["measured"] == 0


def test_operands_and_launches_outlive_a_gauntlet(jobs):
    run, problem, outcomes = jobs.open(JOB), Problem(24, 24, 24), {}
    candidate = run.job.candidate("many", "float32", "U=1", "")
    run.session.load(problem, [candidate])
    run.session.run_gauntlet(candidate, problem)
    run.session.time_group(
        problem, {candidate: False}, run.limits, 1, outcomes.__setitem__, together=False
    )
    for journal in run.journals.values():
        journal.close()
    assert outcomes[candidate]["status"] == "correct"
    assert (len(jobs.of(SetProblem)), len(jobs.of(Load))) == (1, 1)


def test_what_the_gauntlet_takes_is_told_apart(jobs, virtual_clock):
    jobs.does["many"] = "right(); slow((p.m != 24 and p.m != 40) * 1e3 + 1)"
    first = jobs.open(JOB)
    start = virtual_clock.now()
    outcomes(first)
    assert 0 < first.gauntlet_seconds < virtual_clock.now() - start
    again = jobs.open(JOB, measure={"race": False})
    outcomes(again)
    assert jobs.of(Time)
    assert again.gauntlet_seconds == 0.0  # it has passed


def test_tf32_of_denormal_operands_is_not_asked_for(jobs):
    """Tensor cores take them for 0: no kernel's fault, and no result."""
    denormal = {"cuda": [{"square": 24, "distribution": "denormal"}]}
    run = jobs.open("baselines.float32", problems=denormal)
    refused = ("not_supported", "tensor cores take TF32 operands that are denormal for 0")
    only_tf32_is(run, refused)


def only_tf32_is(run, outcome):
    found = dict(zip(baselines(run), outcomes(run), strict=True))
    right = dict.fromkeys(("cublas", "cublas_bf16x9", "cublaslt_best"), RIGHT)
    assert found == right | {"cublas_tf32": outcome}


def baselines(run):
    return [entry.candidate.name for entry in run.items]


INCORRECT = Failure("launch_error", "the reference is incorrect", alive=False)


def test_a_problem_is_set_up_again_in_a_fresh_process(jobs):
    """What kernels have done to the one in which they ran is no reason to stop; and none is
    blamed.
    """
    jobs.faults = {SetProblem: [INCORRECT]}
    run = jobs.open(JOB)
    assert outcomes(run) == [RIGHT] * 6
    assert run.session.children == 2


def preload(jobs, monkeypatch):
    """Have something loaded into every process; return what is remarked of that."""
    preloaded = {"preloaded": {"flush.so": "build 1"}}
    jobs.environment["attributes"] |= preloaded
    monkeypatch.setattr("ladder.measuring.worker.described", lambda kind: preloaded)
    return "/etc/ld.so.preload loads flush.so into every process"


def test_a_problem_that_cannot_be_set_up_is_an_error_and_nothing_is_recorded(jobs, monkeypatch):
    remark = preload(jobs, monkeypatch)
    jobs.faults = {SetProblem: [INCORRECT] * 2}
    run = jobs.open(JOB)
    message = (
        "GPU-1: 24 distribution=exact: the problem could not be set up: the reference is incorrect"
    )
    with pytest.raises(InputError, match=f"{message}; {remark}; no kernel is at fault"):
        outcomes(run)
    assert run.records() == []


def test_a_wrong_baseline_is_told_with_what_was_loaded_into_its_process(jobs, monkeypatch):
    remark = preload(jobs, monkeypatch)
    monkeypatch.setattr(
        "ladder.measuring.timing.fault",
        lambda audit, problem, precision: "off" if precision == "tf32" else "",
    )
    run = jobs.open("baselines.float32", **ONE)
    told = ("incorrect", f"while timed: sample 1: off; {remark}")
    only_tf32_is(run, told)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"power_limit_w": 500},
            r"/environment\.json: attributes\.power_limit_w: got .*; expected 500.*, as on this "
            r"machine",
        ),
        (
            {"libraries": {"x": "build 1"}, "uuid": "GPU-2"},
            r"attributes\.libraries: got None; expected \{'x': 'build 1'\}",
        ),
        ({"clusters_of_4": 7, "uuid": "GPU-2"}, ""),
    ],
)
def test_another_library_and_a_changed_gpu_are_refused_but_not_another_of_its_model(
    jobs, monkeypatch, changes, message
):
    monkeypatch.setattr("ladder.measuring.worker.described", lambda kind: changes)
    with pytest.raises(InputError, match=message) if message else nullcontext():
        outcomes(jobs.open(JOB))
    assert bool(jobs.of(Time)) == (not message)


@pytest.mark.parametrize(
    ("change", "gauntlets", "timed"),
    [
        ({}, 0, False),
        ({"measure": {"race": False}}, 0, True),
        ({"problems": {"cuda": [{"square": [16, 40]}]}}, 0, True),
        ({"does": "right()  # another binary"}, 3, True),
        # samples belong to one description of the device
        ({"peaks": {"fp32_tflops": 60.1, "copy_tb_s": 4.0}}, 3, True),
        # who takes part counts too, of whom some are raced out
        ({"parameters": {"cuda/many": {"U": [1, 2]}}}, 0, True),
    ],
)
def test_what_has_changed_is_measured_anew_and_what_has_passed_the_gauntlet_is_not_run_there_again(
    jobs, change, gauntlets, timed
):
    outcomes(jobs.open(JOB))
    jobs.does["many"] = change.pop("does", jobs.does["many"])
    jobs.environment["peaks"] = change.pop("peaks", jobs.environment["peaks"])
    outcomes(jobs.open(JOB, **change))
    assert (len(jobs.of(RunGauntlet)), bool(jobs.of(Time)), bool(jobs.asked)) == (
        gauntlets,
        timed,
        timed,
    )


INEXACT = "C[0][0] is not exact on whole numbers, of which all sums are"
OF_M_7 = "on M=7 N=13 K=3 padding=3 alpha=0.5 beta=-1 exact: "


@pytest.mark.parametrize(
    ("does", "wrong", "loaded"),
    [
        ("c[0, 0] += U == 2 and p.m == 1", ("incorrect", f"on M=1 N=1 K=1 exact: {INEXACT}"), 4),
        (
            "die(11) if U == 2 and p.m == 7 else None",
            ("launch_error", f"{OF_M_7}the child process was killed by signal 11"),
            4,
        ),
        # on whole numbers of the problem's size
        ("c[0, 0] += U == 2 and p.m in (24, 40)", ("incorrect", INEXACT), 5),
    ],
)
def test_who_is_wrong_before_is_not_timed_and_the_others_are(jobs, does, wrong, loaded):
    jobs.does["many"] = f"right(); {does}"
    results = outcomes(jobs.open(JOB))
    assert results == [RIGHT, wrong, RIGHT] * 2
    assert who(jobs, Time) == [(THREE[0], THREE[2])] * 2
    assert len(jobs.of(Load)) == 2 * loaded  # for whole numbers and to be timed, on two problems


def test_a_binary_that_keeps_state_on_the_device_is_incorrect(jobs, monkeypatch):
    monkeypatch.setattr("ladder.compiling.cubin.state", lambda binary: ["calls"])
    reason = (
        "calls: state on the device that outlives a launch; expected no malloc, and no variables "
        "but __constant__ ones that are only read"
    )
    assert outcomes(jobs.open(JOB)) == [("incorrect", reason)] * 6


def test_cublas_that_adds_parts_of_k_in_16_bits_is_timed_and_marked(jobs, monkeypatch):
    """Simulated for float32: the CPU behind the GPU has no elements of 16 bits."""

    def inexact(errors, problem, *how):
        if whole(problem) and problem.m == 40:
            errors = replace(errors, worst=float("inf"))
        return judge(errors, problem, *how)

    judge = worker.judge
    monkeypatch.setattr(worker, "judge", inexact)
    monkeypatch.setattr(worker, "OF_CUDA", ("float32",))
    run = jobs.open("baselines.float32", problems={"cuda": [{"square": 40}]})
    outcomes(run)
    marks = [(record["status"], record.get("sums_16_bit")) for record in run.kept]
    assert dict(zip(baselines(run), marks, strict=True)) == {
        "cublas": ("correct", True),
        "cublaslt_best": ("correct", True),
        "cublas_tf32": ("incorrect", False),
        "cublas_bf16x9": ("incorrect", False),
    }


def test_what_an_audit_finds_is_incorrect_and_has_no_speed(jobs):
    jobs.does["many"] = "right(); c[0, 0] += 9 * timed"
    run = jobs.open(JOB)
    reasons = {(status, reason.split(" by ")[0]) for status, reason in outcomes(run)}
    assert reasons == {("incorrect", "while timed: sample 1: a row of C is off")}
    assert all("samples_us" not in record for record in run.kept)


def test_a_culprit_is_found_alone_and_what_was_measured_beside_it_is_kept(jobs):
    """The first leaves the race before the third dies; the second is timed again, alone."""
    jobs.does["many"] = (
        "slow(5 if U == 1 else 1); right(); die(11) if timed and U == 3 and call == 10 else None"
    )
    died = "launch_error", "while timed: the child process was killed by signal 11"
    measure = {"min_samples": 12, "max_samples": 12}
    assert outcomes(jobs.open(JOB, measure=measure, **ONE)) == [RIGHT, RIGHT, died]
    assert who(jobs, Time) == [THREE, THREE[1:2], THREE[2:]]


@pytest.mark.parametrize(
    ("share", "of_tensor_cores", "tensor_cores", "status"),
    [
        (1.01, False, False, "correct"),
        (0.9, False, False, "incorrect"),
        (0.9, False, True, "correct"),  # its binary has the instructions of the tensor cores
        (0.9, True, True, "incorrect"),
    ],
)
def test_what_is_faster_than_the_device_is_incorrect(
    jobs, monkeypatch, share, of_tensor_cores, tensor_cores, status
):
    """`share` of the least time on the lanes, or on the tensor cores."""
    us = share * least_us(jobs.environment, Problem(512, 512, 512), of_tensor_cores)
    jobs.does["many"] = f"right(); slow({us} / (2 + p.flops / 20e6) if p.m == 512 else 1)"
    monkeypatch.setattr("ladder.compiling.cubin.uses_tensor_cores", lambda binary: tensor_cores)
    square = {"cuda": [{"square": 512}]}
    ((outcome, reason),) = outcomes(
        jobs.open(JOB, problems=square, parameters={"cuda/many": {"U": [1]}})
    )
    assert outcome == status
    assert reason.startswith("faster than the device: ") == (status == "incorrect")


def test_a_binary_that_is_not_what_was_compiled_is_refused(jobs):
    run, path = jobs.open(JOB), jobs.folder / "many.cubin"
    message = (
        r"many\.cubin: its sha256 is not the one in resources\.csv; expected what was compiled"
    )
    for change in (lambda: path.write_bytes(b"another"), path.unlink, path.mkdir):
        change()
        with pytest.raises(InputError, match=message):
            run.measure_all()


def test_the_best_of_earlier_groups_is_told_to_the_next(jobs):
    jobs.kernels = {"many": 12}
    outcomes(jobs.open(JOB, parameters={"cuda/many": {"U": list(range(1, 13))}}, **ONE))
    assert [len(names) for names in who(jobs, Time)] == [8, 4]
    first, second = (asked.request.best for asked in jobs.of(Time))
    assert first == 0.0
    assert second == pytest.approx(1.0, rel=0.02)  # all are as fast as the reference


def test_readings_become_columns():
    readings = [(1000, 0), (900, 4)]
    columns = columns_of(
        [{"sm_clock_mhz": clock, "throttle_reasons": bits} for clock, bits in readings]
    )
    expected = {
        "sm_clock_mhz": 950.0,
        "temperature_c": None,
        "throttle_reasons": 4,
        "samples_sm_clock_mhz": [1000, 900],
        "samples_throttle_reasons": [0, 4],
    }
    assert {name: columns[name] for name in expected} == expected
    assert columns_of([{}])["throttle_reasons"] is None
    assert set(columns) <= set(samples.SCHEMA.names)


FOUND = "ID=66 TILE=20 CLUSTER=2"


@pytest.fixture
def searching(jobs, gpus):
    """A measure job of the baselines on two problems, whose search finds an algorithm."""

    def found(algorithm):
        does = "right(); slow(0.5 if globals().get('TILE') == 20 else 1)"
        settings = {"found": algorithm, "cublaslt_best simulated": does}
        gpus.write_text(json.dumps(json.loads(gpus.read_text()) | settings))

    found({"ID": 66, "TILE": 20, "CLUSTER": 2})
    jobs.found, jobs.name = found, "baselines.float32"
    return jobs


def last(run):
    """Configuration, status and reason of the last candidate on each problem."""
    names = ("configuration", "status", "reason")
    every = [tuple(record[name] for name in names) for record in run.kept]
    return [
        every[index] for index, entry in enumerate(run.items) if entry.planned["label"] == SEARCH
    ]


def test_a_search_finds_a_configuration_that_is_verified_and_timed_by_its_parameters(searching):
    run = searching.open(searching.name)
    outcomes(run)
    assert last(run) == [(FOUND, "correct", "")] * 2
    (found, _) = (record for record in run.kept if record["configuration"] == FOUND)
    assert max(found["samples_us"]) < 0.7 * min(found["reference_us"])
    name = f"cublaslt_best {FOUND}"
    assert [asked.m for asked in searching.of(Search)] == [24, 40]
    assert who(searching, RunGauntlet).count((name,)) == 1  # once, whatever the problem
    assert who(searching, Check).count((name,)) == 2
    assert sum(name in names for names in who(searching, Time)) == 2


def test_a_run_that_continues_measures_what_the_first_one_found(searching):
    searching.faults = {(RunGauntlet, f"cublaslt_best {FOUND}"): [InputError("stopped")]}
    run = searching.open(searching.name)
    with pytest.raises(InputError, match="stopped"):
        outcomes(run)
    searching.found({"ID": 1})
    again = searching.open(searching.name)
    outcomes(again)
    assert [label for label, *_ in last(again)] == [FOUND, "ID=1"]
    assert [asked.m for asked in searching.of(Search)] == [40]
    gauntlets = who(searching, RunGauntlet)
    assert all((f"cublaslt_best {label}",) in gauntlets for label in (FOUND, "ID=1"))


def test_a_search_that_finds_nothing_or_fails_is_recorded_of_its_candidate_alone(searching):
    searching.found({})
    searching.faults = {Search: [Failure("launch_error", "the context is lost", alive=False)]}
    run = searching.open(searching.name)
    results = outcomes(run)
    none = "no algorithm can be searched for on this device"
    assert last(run) == [
        (SEARCH, "not_supported", "the search ended: the context is lost"),
        (SEARCH, "not_supported", none),
    ]
    assert results.count(RIGHT) == len(results) - 2
