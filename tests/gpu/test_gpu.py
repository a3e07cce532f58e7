"""What only a GPU can show. Run with `pytest -m gpu` on a machine that has one."""

import ctypes
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import faults
import foreign_faults
import numpy as np
import pytest
from host import buffers
from ladder.cli import export
from ladder.compiling import cubin, toolchain
from ladder.compiling.compile import compile_kernel, compile_support
from ladder.core.types import DISTRIBUTIONS, ELEMENT_TYPES, OF_CUDA
from ladder.devices.base import Launch, Refused
from ladder.devices.lock import first_gpu
from ladder.devices.operands import exactly, places, stored_type, values
from ladder.measuring.gauntlet import asked, describe, problems
from ladder.measuring.protocol import Candidate, RunGauntlet
from ladder.measuring.verify import INEXACT, fault, judge
from ladder.measuring.worker import LAUNCHES, Worker, open_device
from ladder.model import kernel_file
from ladder.model.campaign import BASELINES, PRECISION, REDUCING, TYPES_OF, baseline_configurations
from ladder.model.kernel import Configuration, Kernel
from ladder.model.problem import Problem
from planted import ROOT, Project

pytestmark = pytest.mark.gpu

LARGE = [(509, 503, 499), (1000, 10, 1000), (10, 1000, 1000), (96, 160, 2240), (640, 768, 512)]
SERIES, AT_ONCE = 5, 3
"""Launches of a series, and how often two series run at once."""
LAYOUTS: list[dict[str, Any]] = [
    {},
    {"padding": 4, "alpha": -1.5, "beta": 0.5},
    {"padding": "1,4,2", "offset": "0,1,3", "alpha": 0.0, "beta": 1.0},
]


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    device = first_gpu()
    support = tmp_path_factory.mktemp("support") / "support.cubin"
    support.write_bytes(compile_support("cuda", device.arch))
    opened: Any = open_device("cuda", device.uuids[0], support)
    opened.arch, opened.support, opened.made, opened.copies, opened.binaries = device.arch, support, {}, {}, {}
    yield opened
    opened.close()


TF32X3 = "67_triton_tf32x3"
"""Triton's three products of TF32: docs/languages.md says what they do to infinities."""


@contextmanager
def given(gpu: Any, problem: Problem) -> Iterator[Any]:
    """The operands of a problem, in use."""
    operands = gpu.operands(problem)  # whose reference is checked against the host's arithmetic
    try:
        yield operands
    finally:
        gpu.stream.synchronize()
        gpu.free(operands)


def use(gpu: Any, problem: Problem) -> None:
    """The same of small ones, which are kept."""
    if problem not in gpu.made:
        gpu.made[problem] = gpu.operands(problem)
    gpu.use(gpu.made[problem])


KERNELS = [kernel for kernel in kernel_file.discover(ROOT).values() if kernel.kind == "cuda"]
FLOAT32 = [kernel for kernel in KERNELS if "float32" in kernel.element_types and not kernel.precision]
CASES = [(kernel, element_type) for kernel in KERNELS for element_type in kernel.element_types]


def compiled(gpu: Any, kernel: Kernel, element_type: str, folder: Path) -> dict[Configuration, bytes]:
    """Every legal configuration of a kernel that this GPU can run, with its binary: compiled once for all tests."""
    if (kernel.name, element_type) not in gpu.binaries:
        legal = [(configuration, objection) for configuration, objection in kernel.expand({}, [element_type]) if not objection]
        rows = compile_kernel(kernel, legal, gpu.arch, folder, 8)
        if {row.status for row in rows} == {"not_supported"}:
            pytest.skip(rows[0].reason)
        assert {row.status for row in rows} == {"compiled"}
        binaries = {
            configuration: (folder / row.binary).read_bytes() for (configuration, _), row in zip(legal, rows, strict=True)
        }
        gpu.binaries[kernel.name, element_type] = binaries
    found: dict[Configuration, bytes] = gpu.binaries[kernel.name, element_type]
    return found


@pytest.mark.parametrize(("kernel", "element_type"), CASES, ids=[f"{kernel.name}-{t}" for kernel, t in CASES])
def test_every_configuration_passes_the_gauntlet_and_is_right_on_larger_problems(gpu, kernel, element_type, tmp_path):
    binaries, wrong, tf32 = compiled(gpu, kernel, element_type, tmp_path), [], kernel.precision == "tf32"
    assert not any(cubin.state(binary) for binary in binaries.values())
    larger = [Problem(*shape, element_type=element_type, **layout) for shape in LARGE for layout in LAYOUTS]
    small = {configuration: asked(kernel, configuration, gpu.names) for configuration in binaries}
    several = dict.fromkeys(problem for of_one in small.values() for problem in of_one)
    for problem in [*several, *larger, *(exactly(one, tf32) for one in larger)]:
        use(gpu, problem)
        for configuration, binary in binaries.items():
            if not able(gpu, kernel, configuration, problem):
                continue
            launch = gpu.kernel(kernel, configuration, binary)
            found = [judge(gpu.check(launch), problem, tf32) for _ in range(LAUNCHES)]
            wrong += [(configuration.label, describe(problem), one.reason) for one in found if one.status != "correct"]
    assert not wrong, f"{len(wrong)} wrong, the first: {wrong[:3]}"


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(kernel, marks=pytest.mark.xfail(kernel.name == TF32X3, reason="infinities have the wrong sign", strict=True))
        for kernel in KERNELS
        if "float32" in kernel.element_types and not kernel.precision
    ],
    ids=lambda kernel: kernel.name,
)
def test_what_overflows_for_certain_is_infinite_as_cublas_s(gpu, kernel, tmp_path):
    """Where all products of an element are 1e60 and of one sign; beside them others, which are finite."""
    import pycuda.driver as cuda

    problem = Problem(135, 262, 200)
    if not any(able(gpu, kernel, configuration, problem) for configuration, _ in kernel.expand({}, ["float32"])):
        problem = Problem(144, 272, 208)  # Triton's kernels need multiples of 16
    random = np.random.default_rng(5)
    a, b = np.ones((problem.m, problem.k), np.float32), np.ones((problem.k, problem.n), np.float32)
    a *= random.choice([-1e30, 1, 1e30], (problem.m, 1)).astype(np.float32)
    b *= random.choice([-1e30, 1, 1e30], (1, problem.n)).astype(np.float32)
    found = {}
    with given(gpu, problem):
        addresses = gpu.spare()
        for address, values in zip(addresses, (a, b), strict=False):
            cuda.memcpy_htod(address, values)
        launches = {"cublas": gpu.baseline("cublas")}
        for configuration, binary in compiled(gpu, kernel, "float32", tmp_path).items():
            if able(gpu, kernel, configuration, problem):
                launches[configuration.label] = gpu.kernel(kernel, configuration, binary)
        for name, launch in launches.items():
            gpu._poison_workspace()
            launch.bind(*addresses)()
            gpu.stream.synchronize()
            found[name] = np.empty((problem.m, problem.n), np.float32)
            cuda.memcpy_dtoh(found[name], addresses[2])
    expected = found.pop("cublas")
    assert len(set(expected[np.isinf(expected)])) == 2
    assert found
    for name, result in found.items():
        np.testing.assert_allclose(result, expected, rtol=1e-5, err_msg=name)  # which holds infinities to be equal


class Copies:
    """Several places for the C of a problem whose operands are in use, so that launches on the same A and B can be told apart afterwards."""

    def __init__(self, gpu: Any, problem: Problem) -> None:
        import pycuda.driver as cuda

        old = gpu.look()[2]  # C as a launch finds it, from its first element on, and what lies after it
        first = problem.offsets[2] * old.itemsize
        fresh = np.zeros((SERIES, -(-(first + old.nbytes) // 256) * 256), np.uint8)
        fresh[:, first : first + old.nbytes] = old.view(np.uint8)
        self.fresh, self.place = cuda.to_device(fresh), cuda.mem_alloc(fresh.nbytes)
        self.found = cuda.pagelocked_empty(fresh.view(np.uint64).shape, np.uint64)  # what is copied most of the time
        self.addresses = [int(self.place) + turn * fresh.shape[1] + first for turn in range(SERIES)]

    def renew(self, gpu: Any) -> None:
        """Queue the undoing of all launches."""
        import pycuda.driver as cuda

        cuda.memcpy_dtod_async(int(self.place), int(self.fresh), self.found.nbytes, gpu.stream)

    def bits(self) -> Any:
        """What they hold, one a row; the next look overwrites it."""
        import pycuda.driver as cuda

        cuda.memcpy_dtoh(self.found, self.place)
        return self.found


def copies(gpu: Any, problem: Problem) -> Copies:
    """Those of a problem, which is put in use; they are kept."""
    use(gpu, problem)
    if problem not in gpu.copies:
        gpu.copies[problem] = Copies(gpu, problem)
    found: Copies = gpu.copies[problem]
    return found


def bound(gpu: Any, launch: Launch, places: Copies) -> list[Callable[[], None]]:
    """A launch on the problem in use for each place of C."""
    a, b, _ = gpu.spare()
    return [launch.bind(a, b, c) for c in places.addresses]


def series(gpu: Any, problem: Problem, launch: Launch) -> Any:
    """The bits of C after each of several launches back to back, the first of which finds a poisoned workspace."""
    places = copies(gpu, problem)
    places.renew(gpu)
    gpu._poison_workspace()
    for call in bound(gpu, launch, places):
        call()
    gpu.stream.synchronize()
    return places.bits()


def able(gpu: Any, kernel: Kernel, configuration: Configuration, *given: Problem) -> bool:
    """Whether a configuration supports all of the problems."""
    return not any(kernel.unmet_need(configuration, {**problem.names(), **gpu.names}) for problem in given)


def waves(gpu: Any, **given: Any) -> Problem:
    """One that has some more tiles than the GPU has SMs, also of the largest, 128 x 256: so that tiles are left for a last wave."""
    return Problem(1280, 256 * (gpu.names["sm_count"] // 10 + 1), 520, **given)


def uneven(problem: Problem) -> Problem:
    """As many tiles, whose last are not whole, and rows that begin anywhere."""
    return replace(problem, m=problem.m - 5, n=problem.n - 3, k=problem.k + 1, padding=1, offset=1, alpha=-1.5, seed=1)


@pytest.mark.parametrize(("kernel", "element_type"), CASES, ids=[f"{kernel.name}-{t}" for kernel, t in CASES])
def test_every_launch_gives_the_same_bits(gpu, kernel, element_type, tmp_path):
    """On rounded numbers, of which another order of summation gives others: split K, clusters and the last wave keep to one order."""
    binaries, wrong = compiled(gpu, kernel, element_type, tmp_path), []
    deep, wide = Problem(256, 512, 4096, element_type=element_type, beta=0.5), waves(gpu, element_type=element_type, beta=0.5)
    for problem in (deep, uneven(replace(deep, m=135, n=262)), wide, uneven(wide)):
        use(gpu, problem)
        for configuration, binary in binaries.items():
            if not able(gpu, kernel, configuration, problem):
                continue
            launch = gpu.kernel(kernel, configuration, binary)
            verdict = judge(gpu.check(launch), problem, kernel.precision == "tf32")
            found = series(gpu, problem, launch)
            others = sum(not np.array_equal(found[0], row) for row in found[1:])
            if others or verdict.status != "correct":
                wrong.append((configuration.label, describe(problem), f"{others} of {SERIES - 1} differ", verdict.reason))
    assert not wrong, f"{len(wrong)} wrong, the first: {wrong[:3]}"


class Lane:
    """A stream and a workspace of its own; within `with` the GPU uses them, and not those that it has else."""

    def __init__(self, gpu: Any, workspace: Any = None, size: int = 0) -> None:
        import pycuda.driver as cuda

        self.gpu, self.stream = gpu, cuda.Stream()
        self.other = {"stream": self.stream, "_workspace": workspace, "_workspace_bytes": size}

    def _exchange(self) -> None:
        for name, value in self.other.items():
            self.other[name] = getattr(self.gpu, name)
            setattr(self.gpu, name, value)

    def __enter__(self) -> None:
        self._exchange()

    def __exit__(self, *failed: object) -> None:
        self._exchange()


def at_once(
    gpu: Any, kernel: Kernel, configuration: Configuration, binary: bytes, lanes: Sequence[Lane], *given: Problem
) -> list[str]:
    """What differs from the bits that a problem has alone where a series on each runs at the same time as that on the other.

    A series is a graph, so that one launch from the host starts all of it. The problem that needs more shared memory, one with rows that
    begin anywhere, comes last: that is what the function is then allowed.
    """
    from cuda.bindings import driver

    told, runs, graphs = [], [], []
    for problem, lane in zip(given, lanes, strict=True):
        places = copies(gpu, problem)
        launch = gpu.kernel(kernel, configuration, binary)
        verdict = judge(gpu.check(launch), problem, kernel.precision == "tf32")
        if verdict.status != "correct":
            told.append(f"alone, on {describe(problem)}: {verdict.reason}")
        alone = series(gpu, problem, launch)[0].copy()
        with lane:
            run = gpu._graph(bound(gpu, gpu.kernel(kernel, configuration, binary), places), graphs)
        runs.append((problem, lane, places, run, alone))
    for turn in range(AT_ONCE):
        for _, lane, places, _, _ in runs:
            with lane:
                places.renew(gpu)
                gpu._poison_workspace()
        for _, lane, *_ in runs:
            lane.stream.synchronize()
        for _, _, _, run, _ in runs[:: 1 if turn % 2 else -1]:
            run()
        for _, lane, *_ in runs:
            lane.stream.synchronize()
        for problem, _, places, _, alone in runs:
            others = sum(not np.array_equal(alone, row) for row in places.bits())
            if others:
                told.append(f"at once, on {describe(problem)}: {others} of {SERIES} differ")
    for graph in graphs:
        driver.cuGraphExecDestroy(graph)
    return told


def pair(element_type: str) -> tuple[Problem, Problem]:
    """Two problems that leave room for each other on a GPU, and take about as long."""
    one = Problem(512, 768, 2056, element_type=element_type, beta=0.5)
    return one, uneven(replace(one, m=396, n=648, k=2600))


@pytest.mark.parametrize(("kernel", "element_type"), CASES, ids=[f"{kernel.name}-{t}" for kernel, t in CASES])
def test_launches_in_two_streams_at_once_do_not_disturb_each_other(gpu, kernel, element_type, tmp_path):
    binaries, wrong, lanes = compiled(gpu, kernel, element_type, tmp_path), [], (Lane(gpu), Lane(gpu))
    one, other = pair(element_type)
    for given in ((one, other), (waves(gpu, element_type=element_type, beta=0.5), other)):
        for configuration, binary in binaries.items():
            if able(gpu, kernel, configuration, *given):
                told = at_once(gpu, kernel, configuration, binary, lanes, *given)
                wrong += [(configuration.label, one) for one in told]
    assert not wrong, f"{len(wrong)} wrong, the first: {wrong[:3]}"


def test_two_streams_with_one_workspace_do_disturb_each_other(gpu, tmp_path):
    """So launches in them do run at once."""
    import pycuda.driver as cuda

    kernel, given, told = next(kernel for kernel in KERNELS if kernel.workspace and not kernel.architecture), pair("float32"), []
    for configuration, binary in compiled(gpu, kernel, "float32", tmp_path).items():
        size = max(kernel.workspace_of(configuration, {**problem.names(), **gpu.names}) or 0 for problem in given)
        shared = cuda.mem_alloc(size)
        told += at_once(gpu, kernel, configuration, binary, (Lane(gpu, shared, size), Lane(gpu, shared, size)), *given)
    assert told
    assert all(one.startswith("at once") for one in told)


@pytest.mark.parametrize("element_type", list(ELEMENT_TYPES))
@pytest.mark.parametrize("name", BASELINES["cuda"])
def test_cublas_passes_the_gauntlet(gpu, name, element_type):
    tf32 = PRECISION.get(name) == "tf32"
    if element_type not in TYPES_OF.get(name, ELEMENT_TYPES):
        pytest.skip(f"{name} does not have {element_type}")
    for problem in problems(element_type, tf32, baseline=True):
        use(gpu, problem)
        for configuration in baseline_configurations(name, element_type):
            try:
                launch = gpu.baseline(name, dict(configuration.parameters).get("ALGORITHM"))
            except Refused as refusal:
                assert "the heuristic of cuBLASLt offers" in refusal.reason
                continue
            found = judge(gpu.check(launch), problem, tf32)
            if name in REDUCING and element_type in OF_CUDA and INEXACT in found.reason:
                continue
            assert found.status == "correct", (configuration.label, describe(problem), found.reason)


def test_cublas_with_fp32_sums_is_exact_where_cublas_may_not_be(gpu):
    problem = exactly(Problem(2049, 2047, 2051, element_type="bfloat16"))
    with given(gpu, problem):
        assert judge(gpu.check(gpu.baseline("cublas_fp32_sums")), problem).status == "correct"


def test_tf32_does_not_pass_for_float32(gpu):
    for size in (512, 2048, 8192):
        for problem in (Problem(size, size, size), exactly(Problem(size, size, size))):
            with given(gpu, problem):
                launch = gpu.baseline("cublas_tf32")
                assert judge(gpu.check(launch), problem).status == "incorrect"
                audit = gpu.time_round([gpu.sample(launch, 1)], False, 7)[0].audit
                assert "a row of C is off by" in fault(audit, problem)


APPROXIMATE = ("normal", "lognormal", "scaled", "inner", "cancelling", "alternating", "denormal", "huge", "nonfinite")


@pytest.mark.parametrize("element_type", list(ELEMENT_TYPES))
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_device_draws_what_the_host_draws(gpu, distribution, element_type):
    """To the bit, canaries and all, but for what logarithms, powers and fused multiply-adds leave open, and for what a NaN looks like."""
    import pycuda.driver as cuda

    problem = Problem(33, 65, 170, element_type=element_type, padding=2, offset=1, beta=0.5, distribution=distribution, seed=3)
    with given(gpu, problem) as operands:
        operands.poison(operands.results, problem.seed)
        gpu.stream.synchronize()
        for source, expected in zip((*operands.sets[0], operands.results), buffers(problem), strict=True):
            found = np.empty_like(expected)
            cuda.memcpy_dtoh(found, source)
            if distribution in APPROXIMATE:
                # float64 shows what the functions themselves leave open, near a cosine's zeros the most
                element = ELEMENT_TYPES[element_type]
                eps, least = 2 * element.output_roundoff, 2.0 ** (element.exponents[0] + 1) * element.output_roundoff
                near = {"rtol": max(2 * eps, 1e-13), "atol": 16 * eps if distribution == "normal" else least}
                np.testing.assert_allclose(values(found), values(expected), **near, equal_nan=True)
            else:
                assert found.tobytes() == expected.tobytes()


def beside(gpu: Any, spoil: Callable[[int, int, int], None]) -> Launch:
    """cuBLAS's call, and after it in the same launch something else, of the addresses of A, B and C."""
    base = gpu.baseline("cublas")

    def bind(*addresses: int) -> Callable[[], None]:
        call = base.bind(*addresses)

        def both() -> None:
            call()
            spoil(*addresses)

        return both

    return replace(base, bind=bind)


def one_at(gpu: Any, address: int, element_type: str) -> None:
    """Queue the writing of a one, or for half precision of two, at an address."""
    import pycuda.driver as cuda

    one = np.array(0x3F80 if element_type == "bfloat16" else 1, stored_type(element_type))
    words = np.full(max(1, 4 // one.itemsize), one).view(np.uint32)
    for index, word in enumerate(words):
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
"""Element of a matrix, from where it begins, that is spoilt in every launch, and what the audit says. Even, on rows of even lengths."""


@pytest.mark.parametrize("times", [1, 5])
@pytest.mark.parametrize("element_type", list(ELEMENT_TYPES))
@pytest.mark.parametrize("where", list(PLACES))
def test_what_spoils_a_timed_launch_is_found(gpu, where, element_type, times):
    place, told = PLACES[where]
    problem = Problem(34, 66, 18, element_type=element_type, padding=4, beta=0.5)
    matrix, index = place(problem)
    with given(gpu, problem):
        right = gpu.sample(gpu.baseline("cublas"), times)
        spoil = beside(
            gpu,
            lambda a, b, c: one_at(
                gpu, {"a": a, "b": b, "c": c}[matrix] + index * ELEMENT_TYPES[element_type].size, element_type
            ),
        )
        wrong = gpu.sample(spoil, times)
        for seed in range(5):
            one, other = gpu.time_round([right, wrong], False, seed)
            assert fault(one.audit, problem) == ""
            assert told in fault(other.audit, problem)


@pytest.mark.parametrize("element_type", list(ELEMENT_TYPES))
def test_what_spoils_c_fails_the_comparison_of_all_elements(gpu, element_type):
    problem = Problem(34, 66, 18, element_type=element_type, padding=4, beta=0.5)
    size = ELEMENT_TYPES[element_type].size
    with given(gpu, problem):
        assert judge(gpu.check(gpu.baseline("cublas")), problem).status == "correct"
        for where in ("an element of C", "before C", "in the padding of C", "after C"):
            index = PLACES[where][0](problem)[1]
            errors = gpu.check(beside(gpu, lambda a, b, c, index=index: one_at(gpu, c + index * size, element_type)))
            assert judge(errors, problem).status == "incorrect"
            written = max(1, 4 // size)
            assert errors.stray == (0 if where == "an element of C" else written)
            assert errors.wild == 0


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
            cuda.memcpy_dtod_async(*((int(kept), c) if calls[0] == 1 else (c, int(kept))), size, gpu.stream)

        sample = gpu.sample(beside(gpu, stale), 1)
        first, *others = (fault(gpu.time_round([sample], False, seed)[0].audit, problem) for seed in range(4))
        assert first == ""
        assert all("a row of C is off by" in other for other in others)
        kept.free()


@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize("distribution", ["uniform", "normal", "positive", "sparse", "hilbert"])
@pytest.mark.parametrize("element_type", list(ELEMENT_TYPES))
def test_right_samples_of_many_launches_have_no_fault(gpu, element_type, distribution, cold):
    problem = Problem(96, 80, 300, element_type=element_type, distribution=distribution, beta=0.5, padding=1)
    with given(gpu, problem):
        gpu.reserve(20, cold)
        samples = [gpu.sample(gpu.baseline("cublas"), times, cold) for times in (1, 20)]
        for seed in range(20):
            for timed in gpu.time_round(samples, cold, seed, compare=seed % 4 == 0):
                assert fault(timed.audit, problem) == ""
                assert timed.errors is None or judge(timed.errors, problem).status == "correct"


def test_a_kernel_that_misbehaves_is_a_row_and_harms_no_other(project: Project):
    assert [row for row in faults.on_gpu(project) if not row["as_told"]] == []


@pytest.mark.parametrize("planted", foreign_faults.PLANTED, ids=lambda planted: f"{planted.file}: {planted.what}")
def test_a_fault_planted_in_another_language_is_found(gpu, tmp_path, planted):
    if planted.file == foreign_faults.TRITON and not toolchain.triton_version():
        pytest.skip("`make setup-triton` installs Triton")
    kernel, sent = kernel_file.parse(planted.write(tmp_path)), []
    (row,) = compile_kernel(kernel, list(kernel.expand({}, ["float32"]))[:1], gpu.arch, tmp_path / "build", 1)
    worker = Worker(SimpleNamespace(send_bytes=sent.append))
    worker.device = gpu
    binary = str(tmp_path / "build" / row.binary)
    worker._do(RunGauntlet("float32", Candidate(kernel.name, row.configuration, str(kernel.path), binary)))
    _, verdict = json.loads(sent[-1])
    assert verdict["status"] == "incorrect"
    assert re.search(planted.reason, verdict["reason"]), verdict["reason"]
    for operands in worker.small.values():
        gpu.free(operands)


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
    done = subprocess.run(
        [sys.executable, "-m", "ladder.measuring.counters", json.dumps(task)],
        cwd=ROOT / "workflow",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_cold_launches_take_turns_on_copies_that_together_exceed_the_l2(gpu):
    import pycuda.driver as cuda

    problem, times = Problem(256, 256, 256), 400
    with given(gpu, problem) as operands:
        launch = gpu.baseline("cublas")
        warm, cold = gpu.sample(launch, times), gpu.sample(launch, times, cold=True)
        sizes = [4 * place.total for place in places(problem)]
        assert cold.sets * sum(sizes) > 2 * gpu.device.get_attribute(cuda.device_attribute.L2_CACHE_SIZE)
        assert len(operands.sets) == cold.sets > warm.sets == 1
        took = {}
        for name, sample in (("cold", cold), ("warm", warm)):
            rounds = [gpu.time_round([sample], name == "cold", seed)[0] for seed in range(8)]
            assert [fault(timed.audit, problem) for timed in rounds] == [""] * 8
            took[name] = np.median([timed.us for timed in rounds[2:]])
        assert took["cold"] > took["warm"]


@pytest.mark.parametrize("name", ["02_naive_coalesced", "11_split_k", "13_snake_order", "15_last_wave"])
def test_an_exported_kernel_gives_the_bits_of_the_pipeline_and_is_right_beside_cublas(gpu, name, tmp_path):
    kernel = kernel_file.discover(ROOT)[f"cuda/{name}"]
    configuration = Configuration("float32", tuple(kernel.parameters.items()))
    (row,) = compile_kernel(kernel, [(configuration, "")], gpu.arch, tmp_path / "build", 1)
    binary, problem = (tmp_path / "build" / row.binary).read_bytes(), Problem(500, 333, 1000, **LAYOUTS[1])
    export.write(tmp_path / "it", kernel, configuration, gpu.arch, binary, vars(row), None)
    rows = {
        "a": (problem.m, problem.k, problem.lda),
        "b": (problem.k, problem.n, problem.ldb),
        "c": (problem.m, problem.n, problem.ldc),
    }
    spec = importlib.util.spec_from_file_location(f"exported_{name}", tmp_path / "it" / "gemm.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def in_python(*at):
        arrays = [
            SimpleNamespace(
                __cuda_array_interface__={
                    "typestr": "<f4",
                    "shape": (m, n),
                    "strides": (4 * ld, 4),
                    "data": (address, False),
                    "version": 3,
                }
            )
            for (m, n, ld), address in zip(rows.values(), at, strict=True)
        ]
        return lambda: module.gemm(*arrays, problem.alpha, problem.beta, gpu.stream.handle)

    source, library, p = tmp_path / "it" / "it.cpp", tmp_path / "it" / "it.so", problem
    given_sizes = f"{p.m}, {p.n}, {p.k}, {p.alpha}f, a, {p.lda}, b, {p.ldb}, {p.beta}f, c, {p.ldc}"
    source.write_text(f'''#include "gemm.h"
extern "C" void launch(CUdeviceptr a, CUdeviceptr b, CUdeviceptr c, CUstream stream) {{
  static const gemm_ladder::Gemm_{name} gemm("{tmp_path}/it/gemm.cubin");
  gemm({given_sizes}, stream);
}}
''')
    include = Path(toolchain.nvcc()).resolve().parents[1] / "include"
    flags = ["-x", "c++", "-isystem", str(include), "-shared", "-fPIC", str(source), "-lstdc++", "-o", str(library)]
    subprocess.run([*toolchain.cc().split(), *flags], check=True)
    ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)
    in_cpp = ctypes.CDLL(str(library)).launch

    def bind_cpp(*at):
        return lambda: in_cpp(*map(ctypes.c_uint64, at), ctypes.c_void_p(gpu.stream.handle))

    with given(gpu, problem):
        found = []
        for launch in (gpu.kernel(kernel, configuration, binary), Launch(in_python), Launch(bind_cpp)):
            assert judge(gpu.check(launch), problem).status == "correct"  # the reference is made by cuBLAS
            found.append(gpu.look()[3].tobytes())
        assert found[1] == found[0] and found[2] == found[0]


def test_launches_back_to_back_take_about_as_long_as_alone_and_are_audited(gpu):
    with given(gpu, Problem(4096, 4096, 4096)):
        sample = gpu.sample(gpu.baseline("cublas"), 1)
        alone = np.median([gpu.time_round([sample], False, seed)[0].us for seed in range(8)])
        timed = gpu.sustain(sample, alone, 1)
        assert 0.95 * alone < timed.us < 1.25 * alone
        assert timed.settled
        assert fault(timed.audit, gpu.given) == ""
        assert 0 < timed.errors.worst < 1e-6
        assert 300 < timed.sm_clock_mhz <= gpu.describe()["max_sm_clock_mhz"] * 1.01
        assert timed.power_w is None or 0.2 < timed.power_w / gpu.describe()["power_limit_w"] < 1.1


def test_the_clock_is_counted_during_each_sample(gpu):
    with given(gpu, Problem(1024, 1024, 1024)):
        sample = gpu.sample(gpu.baseline("cublas"), 20)
        clocks = [gpu.time_round([sample, sample], cold, 1)[1].sm_clock_mhz for cold in (False, True)]
        assert all(300 < clock <= gpu.describe()["max_sm_clock_mhz"] * 1.01 for clock in clocks)


def test_rounds_read_clocks_and_throttle_reasons(gpu):
    with given(gpu, Problem(1024, 1024, 1024)):
        gpu.time_round([gpu.sample(gpu.baseline("cublas"), 1000)], False, 1)
        assert 300 < gpu.reading["sm_clock_mhz"] < 3000
        assert gpu.reading["throttle_reasons"] >= 0


def test_the_caches_are_faster_than_the_memory_behind_them(gpu):
    peaks = gpu.peaks()
    assert peaks["l2_tb_s"] > peaks["copy_tb_s"]
    assert 50 < peaks["l2_latency_ns"] < 0.7 * peaks["memory_latency_ns"] < 2000
