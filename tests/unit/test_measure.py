"""What a measure job asks its child, and what it makes of the answers: a scripted child in place of the worker."""

import hashlib
import os
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from ladder.core.errors import InputError
from ladder.core.files import ROOT
from ladder.measuring import session
from ladder.measuring.protocol import Check, Judged, Load, RunGauntlet, Sampled, SetProblem, Time, Trying
from ladder.measuring.session import Job, columns_of
from ladder.measuring.supervisor import Failure
from ladder.measuring.sweep import Sweep
from ladder.model import campaign_file, kernel_file
from ladder.storage import samples
from ladder.storage.journal import Journal

ENVIRONMENT = {
    "device": "d",
    "kind": "cuda",
    "attributes": {"compute_capability": "9.0", "sm_count": 100, "max_sm_clock_mhz": 1000, "cache_bytes": 10**6},
    "peaks": {"fp32_tflops": 20.0, "copy_tb_s": 4.0},
}
LEAST_US = 2 * 512**3 / 25.6e12 * 1e6  # about 10


class Child:
    """Answers as told, by the class of the request; what it was asked is in `asked`."""

    process = SimpleNamespace(pid=os.getpid())

    def __init__(self, asked, answers, attributes, *_):
        self.asked, self.answers, self.attributes, self.busy_us = asked, answers, attributes, 0.0

    def ask(self, request, timeout):
        self.asked.append(request)
        yield from self.answers.get(type(request), lambda _: [])(request)

    def has_ended(self):
        return False

    def close(self):
        pass


def verdict(status="correct", reason="", tensor_cores=False):
    return [Judged(status, reason, tensor_cores, 30, 12)]


def of_kind(kind, asked):
    return [request for request in asked if isinstance(request, kind)]


def timed(us=100.0, status="correct", reason="", ours=5):
    """What timing sends of each candidate; each is slower than the one before it by 1 us."""

    def answer(request):
        for index in request.indices:
            samples, reference, readings = [us + index] * ours, [50.0] * ours, [{}] * ours
            yield Sampled(index, samples, reference, readings, 3, "target", 0, {"status": status, "reason": reason})

    return answer


@pytest.fixture
def make(tmp_path, monkeypatch):
    def run(
        answers=None, problems=(512, 640), parameters=None, binary=b"code", environment=ENVIRONMENT, job="03_shared_tile.float32",
        attributes=None, **limits,
    ):  # fmt: skip
        data = {
            "campaign": "t", "problems": {"cuda": [{"square": list(problems)}]}, "kernels": ["cuda/03_shared_tile"],
            "parameters": {"cuda/03_shared_tile": parameters or {"BM": [8, 16, 32], "BN": [8], "BK": [8]}}, "measure": limits,
            "element_types": ["float32", "bfloat16"],
        }  # fmt: skip
        plan = campaign_file.load(data, "t", kernel_file.discover(ROOT)).plan("cuda", job)
        rows = {}
        for number, candidate in enumerate(plan["candidates"]):
            path = tmp_path / f"{number}.cubin"
            path.write_bytes(binary + bytes([number]))
            sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
            name = "03_shared_tile", "float32", candidate["label"]
            rows[name] = {"status": "compiled", "sha256": sha256, "binary": str(path)}
        asked = []
        given = {RunGauntlet: lambda _: verdict(), Check: lambda _: verdict(), Time: timed()} | (answers or {})
        monkeypatch.setattr(session, "Child", partial(Child, asked, given, attributes or environment["attributes"]))
        job = Job("d", "cuda", plan, rows, tmp_path, {}, "code", environment)
        made = Sweep(job, Journal(tmp_path / "journal"), "uuid", lock=0)
        made.asked = asked
        return made

    return run


def outcomes(run):
    """Status and reason of every entry, in order."""
    run.measure_all()
    records = [run.journal.records[entry.key] for entry in run.entries]
    return [(record["status"], record["reason"]) for record in records]


def test_the_gauntlet_is_run_once_a_binary_and_one_exact_launch_a_problem(make):
    run = make()
    assert outcomes(run) == [("correct", "")] * 6
    assert len(of_kind(RunGauntlet, run.asked)) == 3  # of three configurations, on two problems
    problems = [request.problem for request in of_kind(SetProblem, run.asked)]
    assert [problem.distribution for problem in problems] == ["exact", "uniform"] * 2
    assert [problem.m for problem in problems] == [512, 512, 640, 640]
    assert [request.index for request in of_kind(Check, run.asked)] == [0, 1, 2] * 2
    timings = of_kind(Time, run.asked)
    assert [(request.indices, request.state) for request in timings] == [([0, 1, 2], "warm")] * 2
    assert len(of_kind(RunGauntlet, run.asked[: run.asked.index(timings[0])])) == 3  # nothing is timed before it
    record = run.journal.records[run.entries[0].key]
    assert (record["samples_us"], record["repeats"], record["state"], record["tensor_cores"]) == ([100.0] * 5, 3, "warm", False)
    assert (record["gauntlet_problems"], record["gauntlet_changed"]) == (30, 12)


def test_what_the_gauntlet_takes_is_told_apart(make, virtual_clock):
    def of(answers, seconds):
        def answer(*_):
            virtual_clock.sleep(seconds)
            yield from answers

        return answer

    run = make({RunGauntlet: of(verdict(), 2.0), Check: of(verdict(), 100.0)})
    outcomes(run)
    assert run.gauntlet_seconds == 6.0  # three configurations
    run.journal.close()
    again = make()
    outcomes(again)
    assert again.gauntlet_seconds == 0.0  # it has passed


def test_tf32_of_denormal_operands_is_not_asked_for(make):
    """Tensor cores take them for 0: no kernel's fault, and no result."""
    run = make()
    for entry in run.entries:
        entry.candidate = replace(entry.candidate, precision="tf32")
    denormal = [replace(entry, problem=replace(entry.problem, distribution="denormal")) for entry in run.entries[:3]]
    run.entries[:3] = denormal
    run.entries_of = {denormal[0].problem: denormal, run.entries[3].problem: run.entries[3:]}
    results = outcomes(run)
    assert results[:3] == [("not_supported", "tensor cores take TF32 operands that are denormal for 0")] * 3
    assert results[3:] == [("correct", "")] * 3


INCORRECT = Failure("launch_error", "the reference is incorrect", alive=False)


def test_a_problem_is_set_up_again_in_a_fresh_process(make):
    """What kernels have done to the one in which they ran is no reason to stop; and none is blamed."""
    run = make({SetProblem: Mock(side_effect=[INCORRECT, *[()] * 9])})
    assert outcomes(run) == [("correct", "")] * 6
    assert run.session.children == 2


def test_a_problem_that_cannot_be_set_up_is_an_error_and_nothing_is_recorded(make):
    run = make({SetProblem: Mock(side_effect=INCORRECT)})
    message = "uuid: 512 distribution=exact: the problem could not be set up: the reference is incorrect; no fault of"
    with pytest.raises(InputError, match=message):
        run.measure_all()
    assert not [entry for entry in run.entries if entry.key in run.journal.records]


def attributes(**changes):
    return ENVIRONMENT | {"attributes": ENVIRONMENT["attributes"] | changes}


def test_a_wrong_baseline_is_told_with_what_was_loaded_into_its_process(make):
    preloaded, remark = attributes(preloaded={"flush.so": "build 1"}), "/etc/ld.so.preload loads flush.so into every process"
    run = make({SetProblem: Mock(side_effect=INCORRECT)}, environment=preloaded)
    with pytest.raises(InputError, match=f"the reference is incorrect; {remark}; no fault of"):
        run.measure_all()
    run.journal.close()
    run = make({Time: timed(status="incorrect", reason="off")}, environment=preloaded, job="baselines.float32")
    run.measure_all()
    assert {run.journal.records[entry.key]["reason"] for entry in run.entries} == {f"while timed: off; {remark}"}


@pytest.mark.parametrize(("changes", "message"), [
    ({"power_limit_w": 500}, r"d/environment\.json: attributes\.power_limit_w: got None; expected 500, as on this machine"),
    ({"libraries": {"x": "build 1"}, "uuid": "GPU-2"}, r"attributes\.libraries: got None; expected \{'x': 'build 1'\}"),
    ({"clusters_of_4": 7, "uuid": "GPU-2"}, ""),
])  # fmt: skip
def test_another_library_and_a_changed_gpu_are_refused_but_not_another_of_its_model(make, changes, message):
    run = make(attributes=attributes(**changes)["attributes"])
    with pytest.raises(InputError, match=message) if message else nullcontext():
        run.measure_all()
    assert bool(of_kind(Time, run.asked)) == (not message)


def test_samples_belong_to_one_description(make):
    outcomes(make())
    probed_again = make(environment=ENVIRONMENT | {"peaks": {"fp32_tflops": 20.1, "copy_tb_s": 4.0}})
    outcomes(probed_again)
    assert of_kind(Time, probed_again.asked)


def test_what_the_journal_has_is_not_asked_for_again(make):
    outcomes(make())
    again = make()
    outcomes(again)
    assert again.asked == []


@pytest.mark.parametrize(
    ("change", "gauntlets"), [({"race": False}, 0), ({"problems": (128, 640)}, 0), ({"binary": b"other"}, 3)]
)
def test_what_has_changed_is_measured_anew_and_what_has_passed_the_gauntlet_is_not_run_there_again(make, change, gauntlets):
    outcomes(make())
    again = make(**change)
    outcomes(again)
    assert len(of_kind(RunGauntlet, again.asked)) == gauntlets
    assert of_kind(Time, again.asked)


def test_who_fails_the_gauntlet_is_measured_nowhere(make):
    def gauntlet(request):
        wrong = request.candidate.configuration.startswith("BM=16 ")
        return verdict("incorrect", "on M=1 N=1 K=1 exact: wrong") if wrong else verdict()

    run = make({RunGauntlet: gauntlet})
    assert outcomes(run) == [("correct", ""), ("incorrect", "on M=1 N=1 K=1 exact: wrong"), ("correct", "")] * 2
    loaded = [request.candidate.configuration.split()[0] for request in of_kind(Load, run.asked)]
    assert loaded == ["BM=8", "BM=32"] * 4  # for whole numbers and to be timed, on two problems
    assert [request.indices for request in of_kind(Time, run.asked)] == [[0, 1]] * 2


def test_a_child_that_dies_in_the_gauntlet_leaves_the_problem_that_it_was_at(make):
    def die(request):
        if request.candidate.configuration.startswith("BM=8 "):
            yield Trying("M=7 N=13 K=3 exact")
            raise Failure("launch_error", "killed by signal 11", alive=False)
        yield from verdict()

    results = outcomes(make({RunGauntlet: die}))
    assert results[0] == results[3] == ("launch_error", "on M=7 N=13 K=3 exact: killed by signal 11")
    assert results[1] == ("correct", "")


def test_who_is_wrong_on_whole_numbers_of_the_problems_size_is_not_timed(make):
    def check(request):
        return verdict("incorrect", "C[0][0] is not exact") if request.index == 2 else verdict()

    run = make({Check: check})
    assert outcomes(run) == [("correct", ""), ("correct", ""), ("incorrect", "C[0][0] is not exact")] * 2


def test_cublas_that_adds_parts_of_k_in_16_bits_is_timed_and_marked(make):
    def check(request):
        return verdict("incorrect", "C[0][0] is not exact on whole numbers, of which all sums are")

    run = make({Check: check}, problems=[2048], job="baselines.bfloat16")
    run.measure_all()
    records = {entry.candidate: run.journal.records[entry.key] for entry in run.entries}
    assert {candidate.name for candidate in records} == {"cublas", "cublas_fp32_sums", "cublaslt_best"}
    for candidate, record in records.items():
        strict = candidate.name == "cublas_fp32_sums"
        assert (record["status"], record.get("sums_16_bit")) == (("incorrect", False) if strict else ("correct", True)), candidate


def test_what_an_audit_finds_is_incorrect_and_has_no_speed(make):
    run = make({Time: timed(status="incorrect", reason="sample 3: a row of C is off by 1")})
    assert set(outcomes(run)) == {("incorrect", "while timed: sample 3: a row of C is off by 1")}
    assert all("samples_us" not in run.journal.records[entry.key] for entry in run.entries)


@pytest.mark.parametrize(("us", "tensor_cores", "status"), [
    (LEAST_US * 1.01, False, "correct"),
    (LEAST_US * 0.9, False, "incorrect"),
    (LEAST_US * 0.9, True, "correct"),  # its binary has the instructions of the tensor cores
    (LEAST_US / 20, True, "incorrect"),
])  # fmt: skip
def test_what_is_faster_than_the_device_is_incorrect(make, us, tensor_cores, status):
    answers = {RunGauntlet: lambda _: verdict(tensor_cores=tensor_cores), Time: timed(us)}
    ((outcome, reason),) = outcomes(make(answers, problems=[512], parameters={"BM": [8], "BN": [8], "BK": [8]}))
    assert outcome == status
    assert reason.startswith("faster than the device: ") == (status == "incorrect")


def test_a_binary_that_is_not_what_was_compiled_is_refused(make, tmp_path):
    run = make()
    (tmp_path / "1.cubin").write_bytes(b"another")
    with pytest.raises(InputError, match=r"1\.cubin: its sha256 is not the one in resources\.csv; expected what was compiled"):
        run.measure_all()
    (tmp_path / "1.cubin").unlink()
    with pytest.raises(InputError, match=r"1\.cubin: its sha256"):
        Sweep(run.job, run.journal, "uuid", lock=0).measure_all()


def test_the_best_of_earlier_groups_is_told_to_the_next(make):
    run = make(problems=[512], parameters={"BM": list(range(8, 32, 2)), "BN": [8], "BK": [8]})
    outcomes(run)
    bests = [request.best for request in of_kind(Time, run.asked)]
    assert bests == [0.0, pytest.approx(0.5)]  # after the first eight, of which the fastest took 100 us and the reference 50


def test_another_sweep_is_measured_anew(make):
    """Who takes part counts too, of whom some are raced out."""
    keys = {e.key for e in make().entries}
    assert keys.isdisjoint(e.key for e in make(race=False).entries)
    assert keys.isdisjoint(e.key for e in make(parameters={"BM": [8, 16, 32, 64], "BN": [8], "BK": [8]}).entries)


def test_readings_become_columns():
    columns = columns_of([{"sm_clock_mhz": 1000, "throttle_reasons": 0}, {"sm_clock_mhz": 900, "throttle_reasons": 4}])
    assert (columns["sm_clock_mhz"], columns["temperature_c"], columns["throttle_reasons"]) == (950.0, None, 4)
    assert (columns["samples_sm_clock_mhz"], columns["samples_throttle_reasons"]) == ([1000, 900], [0, 4])
    assert columns_of([{}])["throttle_reasons"] is None
    assert set(columns) <= set(samples.SCHEMA.names)
