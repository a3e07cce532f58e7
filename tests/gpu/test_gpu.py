"""What only a GPU can show but of the rungs. Run with `pytest -m gpu` on a machine that has one."""

import ctypes
import importlib.util
import itertools
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import faults
import foreign_faults
import numpy as np
import planted_frauds
import pytest
from answer import first_gpu
from host import buffers
from ladder.cli import export
from ladder.compiling import toolchain
from ladder.compiling.compile import compile_kernel
from ladder.core.types import DISTRIBUTIONS, ELEMENT_TYPES, LAYOUTS, OF_8_BITS, OF_CUDA
from ladder.devices import libraries
from ladder.devices.back_to_back import FIRST_SECONDS, MOST_SECONDS, NEXT_SECONDS
from ladder.devices.base import Launch, Refused
from ladder.devices.operands import exactly, places, stored_type, values
from ladder.measuring.gauntlet import describe, problems
from ladder.measuring.protocol import Candidate, CompareBits, Judged, RunGauntlet
from ladder.measuring.session import Session
from ladder.measuring.trial import LIMITS
from ladder.measuring.verify import fault, judge
from ladder.measuring.worker import Worker
from ladder.model import kernel_file
from ladder.model.baselines import (
    BASELINES,
    PRECISION,
    REDUCING,
    SEARCH,
    TYPES_OF,
    baseline_configurations,
)
from ladder.model.hardware_limits import peak_tflops
from ladder.model.kernel import Configuration, Kernel
from ladder.model.problem import Problem
from on_gpu import KERNELS, UNUSUAL, given, use
from planted import HOME, Project

pytestmark = pytest.mark.gpu
WIDE = [name for name in ELEMENT_TYPES if name not in OF_8_BITS]
"""Those of which cuBLAS takes matrices with rows that begin anywhere."""


@pytest.mark.parametrize("element_type", list(ELEMENT_TYPES))
@pytest.mark.parametrize("name", BASELINES["cuda"])
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_cublas_passes_the_gauntlet(gpu, layout, batched, name, element_type):
    precision = PRECISION.get(name, "")
    if element_type not in TYPES_OF.get(name, ELEMENT_TYPES):
        pytest.skip(f"{name} does not have {element_type}")
    if batched and ELEMENT_TYPES[element_type].block:
        pytest.skip(f"{element_type} has no batches")
    for problem in problems(element_type, PRECISION.get(name, ""), layout, batched):
        use(gpu, problem)
        for configuration in baseline_configurations(name, element_type):
            if configuration.label == SEARCH:
                continue  # see below: it takes seconds on each problem
            try:
                launch = gpu.baseline(name, dict(configuration.parameters))
            except Refused as refusal:
                assert "cuBLASLt" in refusal.reason
                continue
            reduces = name in REDUCING and element_type in OF_CUDA
            verdict = judge(gpu.check(launch), problem, precision, reduces)
            where = configuration.label, describe(problem), verdict.reason
            assert verdict.status == "correct", where


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("name", "marked"), [("cublas", True), ("cublas_fp32_sums", False)])
def test_cublas_that_adds_parts_of_k_in_16_bits_is_marked_and_with_fp32_sums_it_is_not(
    gpu, name, marked, whole
):
    """The positive control of the marks: cuBLAS 13.1 on Hopper adds such parts here."""
    problem = Problem(2049, 2047, 2051, element_type="bfloat16")
    problem = exactly(problem) if whole else problem
    with given(gpu, problem):
        errors = gpu.check(gpu.baseline(name))
        verdict = judge(errors, problem, reduces=name in REDUCING)
        assert (verdict.status, verdict.sums_16_bit) == ("correct", marked), verdict
        assert (judge(errors, problem).status == "incorrect") == marked


IN_PARTS = """/*---
title: Parts of K
idea: eight sums over parts of K, each kept as KEPT
element_types: [float16, bfloat16]
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
extern "C" __global__ void gemm(int M, int N, int K, Acc alpha, const T* A, int lda, const T* B,
                                int ldb, Acc beta, T* C, int ldc) {
  const int m = blockIdx.y * 16 + threadIdx.y, n = blockIdx.x * 16 + threadIdx.x;
  if (m >= M || n >= N) return;
  Acc total = 0;
  for (int part = 0; part < 8; ++part) {
    Acc sum = 0;
    const int end = (long long)K * (part + 1) / 8;
    for (int k = (long long)K * part / 8; k < end; ++k)
      sum += Acc(A[size_t(m) * lda + k]) * Acc(B[size_t(k) * ldb + n]);
    total += Acc(KEPT(sum));
  }
  T& c = C[size_t(m) * ldc + n];
  c = T((alpha == 0 ? 0 : alpha * total) + (beta == 0 ? 0 : beta * Acc(c)));
}
"""


def gauntlet_of(gpu: Any, kernel: Kernel, configuration: Configuration, folder: Path) -> Judged:
    """Return the verdict of the gauntlet on a kernel that is compiled for it."""
    (row,) = compile_kernel(kernel, [(configuration, "")], gpu.arch, folder / "build", 1)
    worker = Worker()
    worker.device = gpu
    binary = str(folder / "build" / row.binary)
    candidate = Candidate(kernel.name, row.configuration, str(kernel.path), binary)
    *_, verdict = worker.answers(RunGauntlet(configuration.element_type, candidate))
    for operands in worker.small.values():
        gpu.free(operands)
    return verdict


@pytest.mark.parametrize(
    "name", ["11_split_k", "14_cluster_split_k", "34_half_late_stores", "cublas", "cublaslt_best"]
)
def test_results_are_the_same_bits_at_every_launch_and_all_other_questions_are_answered(
    gpu, name, tmp_path
):
    """What else is the same is no property of a kernel that is correct; it is printed."""
    worker, element_type, candidate = Worker(), "float32", Candidate(name)
    worker.device, sms = gpu, gpu.names["sm_count"]
    for kernel in (kernel for kernel in KERNELS if kernel.name == name):
        element_type = kernel.element_types[0]
        configuration = next(
            one for one, objection in kernel.expand({}, [element_type]) if not objection
        )
        (row,) = compile_kernel(kernel, [(configuration, "")], gpu.arch, tmp_path, 1)
        if row.status == "not_supported":
            pytest.skip(row.reason)
        binary = str(tmp_path / row.binary)
        candidate = Candidate(name, row.configuration, str(kernel.path), binary)
    if name == "cublaslt_best":
        candidate = replace(candidate, configuration="ALGORITHM=0")
    *_, answer = worker.answers(CompareBits(Problem(1024, 512, 2048, element_type), candidate))
    print(name, found := answer.found)
    assert found["every_launch"] is None
    assert found.keys() == {"every_launch", "rows", "alignment", "processors"}
    assert gpu.names["sm_count"] == sms


@pytest.mark.parametrize(("kept", "status"), [("Acc", "correct"), ("T", "incorrect")])
@pytest.mark.parametrize("element_type", ["float16", "bfloat16"])
def test_a_kernel_that_adds_parts_of_k_in_16_bits_is_incorrect(
    gpu, element_type, kept, status, tmp_path
):
    path = tmp_path / "parts.cu"
    path.write_text(IN_PARTS.replace("KEPT(", f"{kept}("))
    kernel = kernel_file.parse(path)
    verdict = gauntlet_of(gpu, kernel, Configuration(element_type, ()), tmp_path)
    assert verdict.status == status, verdict.reason


@pytest.mark.parametrize(
    "problem",
    [
        Problem(1000, 1000, 1000),
        Problem(2048, 2048, 2048, "bfloat16"),
        Problem(501, 333, 1001),  # rows that are aligned to 4 bytes
    ],
)
def test_a_search_of_cublaslt_finds_what_is_correct_and_as_fast_as_the_last_of_its_heuristic(
    gpu, problem
):
    with given(gpu, problem):
        matmul = gpu.blas.cublaslt()
        offered = [matmul.parameters(algorithm) for algorithm in matmul.offered()]
        assert offered and set(offered) <= set(matmul.proposals())
        if problem.k % 4 == 0:
            assert matmul.spaces()  # not the heuristic alone
            assert any(matmul.made(dict(values)) is not None for values in offered)
        found = gpu.search()
        launch = gpu.baseline("cublaslt_best", dict(found))
        last = gpu.baseline("cublaslt_best", {"ALGORITHM": len(offered) - 1})
        assert judge(gpu.check(launch), problem).status == "correct"
        samples = [gpu.sample(each, 20) for each in (launch, last)]
        rounds = [gpu.time_round(samples, False, seed) for seed in range(9)]
        us, of_last = np.median([[timed.us for timed in each] for each in rounds], axis=0)
        print(problem.label, problem.element_type, dict(found), us / 20, of_last / 20)
        assert us <= 1.05 * of_last


def test_a_worker_has_the_library_whose_folder_it_is_given(gpu):
    _, folder = libraries.installed()
    if not folder:
        pytest.skip("cuBLAS is not installed as a package")
    session = Session("cuda", first_gpu().uuids[0], gpu.support, {}, 60, None, folder)
    loaded = session.worker().attributes["libraries"]
    session.end()
    assert loaded == libraries.identities(folder)


@pytest.mark.parametrize(
    "variables",
    [
        {"NVIDIA_TF32_OVERRIDE": "0"},
        {"NVIDIA_TF32_OVERRIDE": "1"},
        {
            "CUDA_LAUNCH_BLOCKING": "1",
            "CUDA_FORCE_PTX_JIT": "1",
            "CUDA_MODULE_LOADING": "EAGER",
            "CUBLAS_WORKSPACE_CONFIG": ":0:0",
        },
    ],
)
def test_no_variable_changes_what_cublas_does(gpu, monkeypatch, variables):
    (uuid,), problem = first_gpu().uuids, Problem(2048, 2048, 2048)
    candidates = {Candidate("cublas"): True, Candidate("cublas_tf32", precision="tf32"): True}

    def outcomes():
        session = Session("cuda", uuid, gpu.support, {}, 60, None)
        session.environment = {
            "kind": "cuda",
            "device": "d",
            "attributes": session.worker().attributes,
            "peaks": {"copy_tb_s": 99},
        }
        timed = {}
        session.time_group(problem, candidates, LIMITS, 0, timed.__setitem__, together=True)
        session.end()
        rows = [timed[candidate] for candidate in candidates]
        assert [row["status"] for row in rows] == ["correct"] * 2
        found = [(median(row["samples_us"]), row["frobenius_error"]) for row in rows]
        return session.environment, found

    plain = outcomes()
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    bent = outcomes()
    assert bent[0] == plain[0]
    for (us, error), (expected_us, expected_error) in zip(bent[1], plain[1], strict=True):
        assert us == pytest.approx(expected_us, rel=0.1)
        assert error == pytest.approx(expected_error, rel=0.1)


def test_tf32_does_not_pass_for_float32(gpu):
    for size in (512, 2048, 8192):
        for problem in (Problem(size, size, size), exactly(Problem(size, size, size))):
            with given(gpu, problem):
                launch = gpu.baseline("cublas_tf32")
                assert judge(gpu.check(launch), problem).status == "incorrect"
                audit = gpu.time_round([gpu.sample(launch, 1)], False, 7)[0].audit
                assert "a row of C is off by" in fault(audit, problem)


APPROXIMATE = (
    "normal",
    "lognormal",
    "scaled",
    "inner",
    "cancelling",
    "alternating",
    "denormal",
    "huge",
    "nonfinite",
)


@pytest.mark.parametrize("element_type", list(ELEMENT_TYPES))
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize(("layout", "batch"), [("nn", 1), ("tt", 1), ("nt", 3)])
def test_the_device_draws_what_the_host_draws(gpu, layout, batch, distribution, element_type):
    """To the bit, canaries and all, but for what logarithms, powers and fused multiply-adds leave
    open, and for what a NaN looks like.
    """
    import pycuda.driver as cuda

    problem = Problem(
        33,
        65,
        170,
        element_type=element_type,
        padding=2,
        offset=1,
        beta=0.5,
        distribution=distribution,
        seed=3,
        layout=layout,
        batch=batch,
    )
    element = ELEMENT_TYPES[element_type]
    with given(gpu, problem) as operands:
        operands.poison(operands.results, problem.seed)
        gpu.stream.synchronize()
        whole = zip(operands.sets[0], places(problem), strict=False)
        sources = [
            address + element.size * (at.first - place.first) for (address, at), place in whole
        ]
        for source, expected in zip((*sources, operands.results), buffers(problem), strict=True):
            actual = np.empty_like(expected)
            cuda.memcpy_dtoh(actual, source)
            if distribution in APPROXIMATE:
                # float64 shows what the functions themselves leave open, near a cosine's zeros the
                # most
                eps = 2.0 ** (1 - element.digits)
                least = 2.0 ** element.exponents[0] * eps
                np.testing.assert_allclose(
                    values(actual),
                    values(expected),
                    rtol=max(2 * eps, 1e-13),
                    atol=16 * eps if distribution == "normal" else least,
                )
            else:
                assert actual.tobytes() == expected.tobytes()


def beside(gpu: Any, spoil: Callable[[int, int, int], None]) -> Launch:
    """cuBLAS's call, and after it in the same launch something else, of the addresses of A, B and
    C.
    """
    base = gpu.baseline("cublas")

    def bind(*addresses: int) -> Callable[[], None]:
        call = base.bind(*addresses)

        def both() -> None:
            call()
            spoil(*addresses)

        return both

    return replace(base, bind=bind)


def spoil_at(gpu: Any, address: int, element_type: str) -> None:
    """Queue the writing of 64 at an address, many times what rounding C to bfloat16 may change in a
    row. In 16 bits a 0 follows.

    Two of the same would cancel out in an audit that has one of them with each sign.
    """
    import pycuda.driver as cuda

    value = np.array(0x4280 if element_type == "bfloat16" else 64, stored_type(element_type))
    values = np.zeros(max(1, 4 // value.itemsize), value.dtype)
    values[0] = value
    for index, word in enumerate(values.view(np.uint32)):
        cuda.memset_d32_async(address + 4 * index, int(word), 1, gpu.stream)


PLACES: dict[str, tuple[Callable[[Problem], tuple[str, int]], str]] = {
    "an element of C": (lambda p: ("c", 4 * p.ldc + 2), "a row of C is off by"),
    "before C": (lambda p: ("c", -6), "elements outside C were overwritten"),
    "in the padding of C": (lambda p: ("c", 6 * p.ldc - 4), "elements outside C were overwritten"),
    "after C": (lambda p: ("c", p.m * p.ldc + 8), "elements outside C were overwritten"),
    "A": (lambda p: ("a", 2 * p.lda + 4), "elements of A and B were overwritten"),
    "in the padding of A": (lambda p: ("a", 3 * p.lda - 2), "elements of A and B were overwritten"),
    "after A": (lambda p: ("a", p.m * p.lda + 4), "elements of A and B were overwritten"),
    "B": (lambda p: ("b", 5 * p.ldb + 4), "elements of A and B were overwritten"),
}
"""Element of a matrix, from where it begins, that is spoilt in every launch, and what the audit
says. Even, on rows of even lengths.
"""


@pytest.mark.parametrize(
    ("times", "layout", "batch"), [(1, "nn", 1), (5, "nn", 1), (5, "tt", 1), (7, "nn", 3)]
)
@pytest.mark.parametrize("element_type", WIDE)
@pytest.mark.parametrize("where", list(PLACES))
def test_what_spoils_a_timed_launch_is_found(gpu, where, element_type, times, layout, batch):
    place_of, message = PLACES[where]
    problem = Problem(34, 66, 18, element_type, padding=4, beta=0.5, layout=layout, batch=batch)
    matrix, index = place_of(problem)
    with given(gpu, problem):
        right = gpu.sample(gpu.baseline("cublas"), times)
        place = "abc".index(matrix), index * ELEMENT_TYPES[element_type].size
        spoil = beside(
            gpu, lambda *addresses: spoil_at(gpu, addresses[place[0]] + place[1], element_type)
        )
        wrong = gpu.sample(spoil, times)
        for seed in range(5):
            of_right, of_wrong = gpu.time_round([right, wrong], False, seed)
            assert fault(of_right.audit, problem) == ""
            assert message in fault(of_wrong.audit, problem)


@pytest.mark.parametrize("which", [3, 4])
def test_scales_that_a_launch_overwrites_are_found(gpu, which):
    problem = Problem(256, 384, 512, "float8_e4m3_blocks", layout="nt")
    with given(gpu, problem):
        right = gpu.sample(gpu.baseline("cublas"), 5)
        spoil = beside(gpu, lambda *addresses: spoil_at(gpu, addresses[which] + 4, "float32"))
        of_right, of_wrong = gpu.time_round([right, gpu.sample(spoil, 5)], False, 7)
        assert fault(of_right.audit, problem) == ""
        assert "elements of A and B were overwritten" in fault(of_wrong.audit, problem)


@pytest.mark.parametrize("element_type", WIDE)
def test_what_spoils_c_fails_the_comparison_of_all_elements(gpu, element_type):
    problem = Problem(34, 66, 18, element_type=element_type, padding=4, beta=0.5)
    size = ELEMENT_TYPES[element_type].size
    with given(gpu, problem):
        assert judge(gpu.check(gpu.baseline("cublas")), problem).status == "correct"
        for where in ("an element of C", "before C", "in the padding of C", "after C"):
            index = PLACES[where][0](problem)[1]

            def spoil(a, b, c, index=index):
                spoil_at(gpu, c + index * size, element_type)

            errors = gpu.check(beside(gpu, spoil))
            assert judge(errors, problem).status == "incorrect"
            written = max(1, 4 // size)
            assert errors.stray == (0 if where == "an element of C" else written)
            assert errors.wild == 0


def test_what_is_written_far_from_a_matrix_is_found(gpu):
    """Up to the ends of its memory, where a launch could leave a note for a later one."""
    problem = Problem(64, 48, 32)
    with given(gpu, problem) as operands:
        for address, place in operands.sets[0]:
            for far in (address, address + 4 * (place.total - 1)):
                launch = beside(gpu, lambda a, b, c, far=far: spoil_at(gpu, far, "float32"))
                sample = gpu.sample(launch, 1)
                for seed in range(2):
                    audit = gpu.time_round([sample], False, seed)[0].audit
                    assert "1 elements of A and B were overwritten" in fault(audit, problem)


def test_a_launch_that_knows_where_it_is_judged_hides_nothing(gpu):
    """It computes nothing and zeroes A, C, the reference and the findings, but for the audit: there
    it leaves what would hide that.

    Neither before its own audit does it help, nor behind that of the launch before.
    """
    import pycuda.driver as cuda

    problem = Problem(256, 192, 128)
    words = cuda.pagelocked_empty(3, np.float64)
    words[:] = -0.0, -problem.m * problem.k, 0
    with given(gpu, problem) as operands:

        def zero(address: int, count: int) -> None:
            cuda.memset_d32_async(address, 0, count, gpu.stream)

        def blind(a: int, b: int, c: int) -> None:
            zero(a, problem.m * problem.k)
            zero(c, problem.m * problem.n)
            zero(gpu._support.scratch, operands.scratch_bytes // 4)
            zero(int(gpu._support._here), gpu._support._finding.itemsize // 4)
            cuda.memcpy_htod_async(gpu._support.address("audit"), words, gpu.stream)

        right, wrong = gpu.baseline("cublas"), Launch(lambda *addresses: lambda: blind(*addresses))
        samples = [gpu.sample(launch, 1) for launch in (right, wrong)]
        for seed in range(4):
            of_right, of_wrong = gpu.time_round(samples, False, seed, compare=True)
            assert fault(of_right.audit, problem) == ""
            assert judge(of_right.errors, problem).status == "correct"
            # the reference of the launch before would serve again
            message = f"{problem.m * problem.k + 1} elements of A and B were overwritten"
            assert message in fault(of_wrong.audit, problem)
            assert of_wrong.errors is None
        assert judge(gpu.check(wrong), problem).status == "incorrect"


def test_the_pipelines_own_kernels_leave_no_address_in_local_memory(gpu):
    """Which a GPU does not clear: a later launch could read it there."""
    from cuda.bindings import driver
    from ladder.devices.cuda_stream import Function, succeed

    module = succeed(driver.cuModuleLoadData(gpu.support.read_bytes()))
    names = [
        f"{name}_{element_type}"
        for name in ("fill", "draw_wide", "compare", "audit_a", "audit_b")
        for element_type in (WIDE if name == "compare" else ELEMENT_TYPES)
    ]
    for name in [*names, "stamp"]:
        assert Function(module, name).attribute("LOCAL_SIZE_BYTES") == 0, name


@pytest.mark.parametrize("times", [1, 30])
def test_the_stamps_agree_with_the_events(gpu, times):
    """Whichever shows more time counts: that of the events, unless a launch has found the memory of
    one.
    """
    problem = Problem(512, 512, 512)
    with given(gpu, problem):
        sample = gpu.sample(gpu.baseline("cublas"), times)
        gpu.time_round([sample], False, 0)
        for seed in range(20):
            (timed,), ((_, least),) = gpu.time_round([sample], False, seed), gpu._support.clocks(1)
            assert 0 < timed.us - least < 15


def test_a_result_of_the_round_before_is_found(gpu):
    """What a kernel would give that remembers results by where operands lie."""
    import pycuda.driver as cuda

    problem = Problem(64, 48, 32)
    with given(gpu, problem):
        size = 4 * places(problem)[2].rows * problem.ldc
        kept = cuda.mem_alloc(size)
        cuda.memset_d32(int(kept), 0, size // 4)
        calls = [0]

        def stale(a: int, b: int, c: int) -> None:
            calls[0] += 1
            to, of = (int(kept), c) if calls[0] == 1 else (c, int(kept))
            cuda.memcpy_dtod_async(to, of, size, gpu.stream)

        sample = gpu.sample(beside(gpu, stale), 1)
        first, *others = (
            fault(gpu.time_round([sample], False, seed)[0].audit, problem) for seed in range(4)
        )
        assert first == ""
        assert all("a row of C is off by" in other for other in others)
        kept.free()


def test_rows_that_a_launch_kept_for_the_next_are_stale_before_the_last(gpu):
    """What a kernel would give that keeps A in its workspace for the launches of a sample."""
    import pycuda.driver as cuda

    problem, times = Problem(64, 48, 32), 5
    with given(gpu, problem) as operands:
        base = gpu.baseline("cublas")
        right = gpu.sample(base, times, fresh=True)  # makes room for all rows
        first = operands.of_launch(0, 1)[0]
        size = 4 * (problem.m + operands.extra) * problem.lda
        kept = cuda.mem_alloc(size)

        def bind(a: int, b: int, c: int) -> Callable[[], None]:
            multiply = base.bind(int(kept) + a - first, b, c)

            def call() -> None:
                if a == first:
                    cuda.memcpy_dtod_async(int(kept), first, size, gpu.stream)
                multiply()

            return call

        for fresh in (False, True):
            keeping = gpu.sample(Launch(bind), times, fresh=fresh)
            samples = [right, keeping, gpu.sample(base, 1)]
            for _ in range(3):
                timed = gpu.time_round(samples, False, problem.seed, compare=True)
                found = [fault(each.audit, problem) for each in timed]
                assert [bool(why) for why in found] == [False, fresh, False], found
                statuses = [judge(each.errors, problem).status for each in timed]
                wrong = "incorrect" if fresh else "correct"
                assert statuses == ["correct", wrong, "correct"]
        gpu.stream.synchronize()
        kept.free()


def test_what_loads_ask_the_l2_to_keep_is_not_there_in_cold_launches(gpu, tmp_path):
    problem, made = Problem(16, 2048, 2048), planted_frauds.assemble(tmp_path)
    configuration = Configuration("float32", ())
    with given(gpu, problem):
        launches = []
        for name in ("right_plain", "kept_in_l2"):
            kernel = made[f"cuda/{name}"]
            folder = tmp_path / name
            (row,) = compile_kernel(kernel, [(configuration, "")], gpu.arch, folder, 1)
            binary = (folder / row.binary).read_bytes()
            launches.append(gpu.kernel(kernel, configuration, binary))
        took = {}
        for cold in (False, True):
            samples = [gpu.sample(launch, 1, cold) for launch in launches]
            rounds = [gpu.time_round(samples, cold, seed) for seed in range(14)][4:]
            us = [[timed.us for timed in each] for each in rounds]
            took[cold] = np.median(us, axis=0).tolist()
        plain, kept = took[True]
        assert took[False][0] < 0.9 * plain, took  # else nothing could be seen
        assert kept > 0.95 * plain, took


@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize("distribution", ["uniform", "normal", "positive", "sparse", "hilbert"])
@pytest.mark.parametrize("element_type", list(ELEMENT_TYPES))
def test_right_samples_of_many_launches_have_no_fault(gpu, element_type, distribution, cold):
    lying = {"padding": 1} if element_type in WIDE else {"padding": 16, "layout": "nt"}
    problem = Problem(96, 80, 384, element_type, beta=0.5, distribution=distribution, **lying)
    with given(gpu, problem):
        samples = [gpu.sample(gpu.baseline("cublas"), times, cold) for times in (20, 1)]
        for seed in range(20):
            for timed in gpu.time_round(samples, cold, seed, compare=seed % 4 == 0):
                assert fault(timed.audit, problem) == ""
                assert timed.errors is None or judge(timed.errors, problem).status == "correct"


def test_a_kernel_that_misbehaves_is_a_row_and_harms_no_other(project: Project):
    assert [row for row in faults.on_gpu(project) if not row["as_told"]] == []


@pytest.mark.parametrize(
    "planted", foreign_faults.PLANTED, ids=lambda planted: f"{planted.file}: {planted.what}"
)
def test_a_fault_planted_in_another_language_is_found(gpu, tmp_path, planted):
    if planted.file == foreign_faults.TRITON and not toolchain.triton_version():
        pytest.skip("`make setup-triton` installs Triton")
    kernel = kernel_file.parse(planted.write(tmp_path))
    configuration = next(kernel.expand({}, ["float32"]))[0]
    verdict = gauntlet_of(gpu, kernel, configuration, tmp_path)
    assert verdict.status == "incorrect"
    assert re.search(planted.reason, verdict.reason), verdict.reason


def test_what_runs_below_ncu_launches_a_configuration(gpu, tmp_path):
    device, kernel = first_gpu(), KERNELS[0]
    configuration = next(c for c, objection in kernel.expand({}, ["float32"]) if not objection)
    (row,) = compile_kernel(kernel, [(configuration, "")], gpu.arch, tmp_path, 1)
    task = {
        "uuid": device.uuids[0],
        "support": str(gpu.support),
        "kernel": str(kernel.path),
        "configuration": configuration.label,
        "binary": str(tmp_path / row.binary),
        "problem": {"m": 256, "n": 256, "k": 256},
    }
    command = [sys.executable, "-m", "ladder.measuring.counters", json.dumps(task)]
    done = subprocess.run(
        command, cwd=HOME / "workflow", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_cold_launches_take_turns_on_copies_that_together_exceed_the_l2(gpu):
    problem, times = Problem(256, 256, 256), 400
    with given(gpu, problem) as operands:
        launch = gpu.baseline("cublas")
        warm, cold = gpu.sample(launch, times), gpu.sample(launch, times, cold=True)
        sizes = [4 * place.total for place in places(problem)]
        assert cold.sets * sum(sizes) > 2 * gpu.describe()["cache_bytes"]
        assert len(operands.sets) == cold.sets > warm.sets == 1
        took = {}
        for name, sample in (("cold", cold), ("warm", warm)):
            rounds = [gpu.time_round([sample], name == "cold", seed)[0] for seed in range(8)]
            assert [fault(timed.audit, problem) for timed in rounds] == [""] * 8
            took[name] = np.median([timed.us for timed in rounds[2:]])
        assert took["cold"] > took["warm"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        *(
            (name, Problem(500, 333, 1000, **UNUSUAL[1]))
            for name in ("02_naive_coalesced", "11_split_k", "13_snake_order", "15_last_wave")
        ),
        ("34_half_late_stores", Problem(500, 336, 1000, "float16", alpha=1.5, padding=8)),
        ("37_half_last_wave", Problem(500, 336, 1000, "float16", alpha=1.5, padding="8,8,1")),
        ("38_half_any_rows", Problem(500, 333, 1000, "float16", **UNUSUAL[1])),
    ],
)
def test_an_exported_kernel_gives_the_bits_of_the_pipeline_and_is_right_beside_cublas(
    gpu, name, problem, tmp_path
):
    kernel = kernel_file.discover(HOME)[f"cuda/{name}"]
    size = ELEMENT_TYPES[problem.element_type].size
    configuration = Configuration(problem.element_type, tuple(kernel.parameters.items()))
    (row,) = compile_kernel(kernel, [(configuration, "")], gpu.arch, tmp_path / "build", 1)
    binary = (tmp_path / "build" / row.binary).read_bytes()
    export.write(tmp_path / "it", kernel, configuration, gpu.arch, binary, vars(row), None)
    p = problem
    matrices = (p.m, p.k, p.lda), (p.k, p.n, p.ldb), (p.m, p.n, p.ldc)
    spec = importlib.util.spec_from_file_location(f"exported_{name}", tmp_path / "it" / "gemm.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def in_python(*at):
        arrays = []
        for (m, n, ld), address in zip(matrices, at, strict=True):
            described = {
                "typestr": f"<f{size}",
                "shape": (m, n),
                "strides": (size * ld, size),
                "data": (address, False),
                "version": 3,
            }
            arrays.append(SimpleNamespace(__cuda_array_interface__=described))
        return lambda: module.gemm(*arrays, p.alpha, p.beta, gpu.stream.handle)

    source, library = tmp_path / "it" / "it.cpp", tmp_path / "it" / "it.so"
    given_sizes = f"{p.m}, {p.n}, {p.k}, {p.alpha}f, a, {p.lda}, b, {p.ldb}, {p.beta}f, c, {p.ldc}"
    source.write_text(f'''#include "gemm.h"
extern "C" void launch(CUdeviceptr a, CUdeviceptr b, CUdeviceptr c, CUstream stream) {{
  static const gemm_ladder::Gemm_{name} gemm("{tmp_path}/it/gemm.cubin");
  gemm({given_sizes}, stream);
}}
''')
    include = Path(toolchain.nvcc()).resolve().parents[1] / "include"
    flags = ["-x", "c++", "-isystem", include, "-shared", "-fPIC"]
    subprocess.run([*toolchain.cc(), *flags, source, "-lstdc++", "-o", library], check=True)
    ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)
    in_cpp = ctypes.CDLL(str(library)).launch

    def bind_cpp(*at):
        return lambda: in_cpp(*map(ctypes.c_uint64, at), ctypes.c_void_p(gpu.stream.handle))

    with given(gpu, problem):
        results, own = [], gpu.kernel(kernel, configuration, binary)
        for launch in (own, Launch(in_python), Launch(bind_cpp)):
            # the reference is made by cuBLAS
            assert judge(gpu.check(launch), problem).status == "correct"
            results.append(gpu.look()[3].tobytes())
        assert results[1] == results[0] and results[2] == results[0]


def test_launches_back_to_back_take_about_as_long_as_alone_and_are_audited(gpu):
    with given(gpu, Problem(4096, 4096, 4096)):
        sample = gpu.sample(gpu.baseline("cublas"), 1)
        alone = np.median([gpu.time_round([sample], False, seed)[0].us for seed in range(8)])
        timed = gpu.sustain(sample, alone, 1, FIRST_SECONDS)
        assert 0.95 * alone < timed.us < 1.25 * alone
        assert timed.settled
        assert not timed.gaps
        assert fault(timed.audit, gpu.given) == ""
        assert 0 < timed.errors.worst < 1e-6
        assert 300 < timed.sm_clock_mhz <= gpu.describe()["max_sm_clock_mhz"] * 1.01
        assert timed.power_w is None or 0.2 < timed.power_w / gpu.describe()["power_limit_w"] < 1.1
        # at another power, and back, on a hot board
        busy, hotter = gpu.busy_us, gpu.sample(gpu.baseline("cublas_tf32"), 1)
        gpu.sustain(hotter, 400.0, 1, NEXT_SECONDS)
        again = gpu.sustain(sample, alone, 1, NEXT_SECONDS)
        assert gpu.busy_us - busy < 2e6 * (NEXT_SECONDS + MOST_SECONDS + 0.5)
        assert again.settled and 0.98 < again.us / timed.us < 1.02


def test_a_host_that_pauses_now_and_then_does_not_lengthen_what_is_sustained(gpu):
    with given(gpu, Problem(4096, 4096, 4096)):
        sample, calls = gpu.sample(gpu.baseline("cublas"), 1), itertools.count(1)
        us = gpu.sustain(sample, 3000.0, 1, FIRST_SECONDS).us
        call = sample.call

        def pausing():
            if next(calls) % 100 == 0:  # about every five windows, for longer than one is queued
                time.sleep(0.2)
            call()

        sample.call = pausing
        timed = gpu.sustain(sample, us, 1, NEXT_SECONDS)
        assert 0.9 * us < timed.us < 1.05 * us  # the mean is longer by half
        assert fault(timed.audit, gpu.given) == ""


def test_sustained_launches_take_turns_among_copies_that_the_l2_does_not_hold(gpu):
    with given(gpu, Problem(1024, 1024, 1024)):
        sample = gpu.sample(gpu.baseline("cublas"), 16, True)
        held = sample.sets * 2 * 4 * 1024**2
        assert sample.sets == 16 or held > gpu.describe()["cache_bytes"]
        timed = gpu.sustain(sample, 800.0, 1, NEXT_SECONDS)
        assert fault(timed.audit, gpu.given) == ""
        assert 0 < timed.errors.worst < 1e-6
        assert not timed.gaps


def test_the_clock_is_counted_during_each_sample_and_read_after_each_round(gpu):
    with given(gpu, Problem(1024, 1024, 1024)):
        sample = gpu.sample(gpu.baseline("cublas"), 20)
        clocks = [
            gpu.time_round([sample, sample], cold, 1)[1].sm_clock_mhz for cold in (False, True)
        ]
        assert all(300 < clock <= gpu.describe()["max_sm_clock_mhz"] * 1.01 for clock in clocks)
        gpu.time_round([gpu.sample(gpu.baseline("cublas"), 1000)], False, 1)
        assert 300 < gpu.reading["sm_clock_mhz"] < 3000
        assert gpu.reading["throttle_reasons"] >= 0


def test_the_names_of_the_device_are_attributes_and_its_clusters_fit_its_sms(gpu):
    assert kernel_file.device_names({"attributes": gpu.describe()}) == gpu.names
    assert set(gpu.names) == set(kernel_file.DEVICE_NAMES)
    share = 4 * gpu.names["clusters_of_4"] / gpu.names["sm_count"]
    assert 0.5 < share <= 1 if gpu.device.compute_capability() >= (9, 0) else share == 0


def test_the_caches_are_faster_than_the_memory_behind_them(gpu):
    peaks = gpu.peaks()
    assert peaks["l2_tb_s"] > peaks["copy_tb_s"]
    assert 50 < peaks["l2_latency_ns"] < 0.7 * peaks["memory_latency_ns"] < 2000


@pytest.mark.parametrize(
    ("rate", "element_type", "tensor_cores"),
    [
        ("fp32_tflops", "float32", False),
        ("tensor_16_bit_tflops", "float16", True),
        ("tensor_8_bit_tflops", "float8_e4m3", True),
    ],
)
def test_peaks_are_near_what_the_highest_clock_allows(gpu, rate, element_type, tensor_cores):
    environment = {"kind": "cuda", "attributes": gpu.describe(), "peaks": gpu.peaks()}
    if rate not in environment["peaks"]:
        pytest.skip("only compute capability 9.0 has it")
    share = environment["peaks"][rate] / peak_tflops(environment, element_type, tensor_cores)
    assert 0.6 < share < 1.001
