"""Every rung on a GPU: right, with the same bits in every launch, and undisturbed by launches at
the same time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ladder.compiling import cubin
from ladder.compiling.compile import compile_kernel
from ladder.devices.base import Launch
from ladder.devices.operands import exactly
from ladder.measuring.gauntlet import describe, problems_for
from ladder.measuring.verify import judge
from ladder.measuring.worker import LAUNCHES
from ladder.model.kernel import Configuration, Kernel
from ladder.model.problem import Problem
from on_gpu import KERNELS, UNUSUAL, given, use

pytestmark = pytest.mark.gpu

LARGE = [(509, 503, 499), (1000, 10, 1000), (10, 1000, 1000), (96, 160, 2240), (640, 768, 512)]
SERIES, AT_ONCE = 5, 3
"""Launches of a series, and how often two series run at once."""
TF32X3 = "67_triton_tf32x3"
"""Triton's three products of TF32: docs/languages.md says what they do to infinities."""
NOT_FINITE = "63_cutlass_tf32x3"
"""CUTLASS's three products of TF32, which make infinities NaN. The gauntlet refuses it, for that
alone.
"""
FLOAT32 = [
    pytest.param(
        kernel,
        marks=pytest.mark.xfail(
            kernel.name == TF32X3, reason="infinities have the wrong sign", strict=True
        ),
    )
    for kernel in KERNELS
    if "float32" in kernel.element_types and not kernel.precision
]
CASES = [(kernel, element_type) for kernel in KERNELS for element_type in kernel.element_types]
of_every_rung = pytest.mark.parametrize(
    ("kernel", "element_type"), CASES, ids=[f"{kernel.name}-{t}" for kernel, t in CASES]
)


def compiled(
    gpu: Any, kernel: Kernel, element_type: str, folder: Path
) -> dict[Configuration, bytes]:
    """Every legal configuration of a kernel that this GPU can run, with its binary: compiled once
    for all tests. Of a layout other than the first, and for batches, only the first of them and the
    last.
    """
    if (kernel.name, element_type) not in gpu.binaries:
        legal = []
        for layout, batched in product(kernel.layouts, {False, kernel.batch}):
            every = kernel.expand({}, [element_type], layouts=[layout], batched=[batched])
            mine = [pair for pair in every if not pair[1]]
            legal += mine[:: max(1, len(mine) - 1)] if legal else mine
        rows = compile_kernel(kernel, legal, gpu.arch, folder, 8)
        if {row.status for row in rows} == {"not_supported"}:
            pytest.skip(rows[0].reason)
        assert {row.status for row in rows} == {"compiled"}
        gpu.binaries[kernel.name, element_type] = {
            configuration: (folder / row.binary).read_bytes()
            for (configuration, _), row in zip(legal, rows, strict=True)
        }
    by_configuration: dict[Configuration, bytes] = gpu.binaries[kernel.name, element_type]
    return by_configuration


@of_every_rung
def test_every_configuration_passes_the_gauntlet_and_is_right_on_larger_problems(
    gpu, kernel, element_type, tmp_path
):
    binaries, wrong = compiled(gpu, kernel, element_type, tmp_path), []
    assert not any(cubin.state(binary) for binary in binaries.values())
    asked = {}
    for configuration in binaries:
        asked |= dict.fromkeys(problems_for(kernel, configuration, gpu.names))
    larger = [
        Problem(*shape, element_type=element_type, layout=layout, **unusual)
        for layout in kernel.layouts
        for shape in LARGE
        for unusual in UNUSUAL
    ]
    small = [replace(problem, m=264, n=520, k=144, batch=67) for problem in larger if kernel.batch]
    larger += dict.fromkeys(small)
    for problem in [*asked, *larger, *(exactly(large, kernel.precision) for large in larger)]:
        use(gpu, problem)
        for configuration, launch in launches(gpu, kernel, binaries, problem):
            for _ in range(LAUNCHES):
                verdict = judge(gpu.check(launch), problem, kernel.precision)
                if verdict.status != "correct":
                    wrong.append((configuration.label, describe(problem), verdict.reason))
    refused = {problem.split()[-1] for _, problem, _ in wrong}
    assert refused == ({"nonfinite"} if kernel.name == NOT_FINITE else set()), (
        f"{len(wrong)} wrong, the first: {wrong[:3]}"
    )


@pytest.mark.parametrize("kernel", FLOAT32, ids=lambda kernel: kernel.name)
def test_what_overflows_for_certain_is_infinite_as_cublas_s(gpu, kernel, tmp_path):
    """Where all products of an element are 1e60 and of one sign; beside them others, which are
    finite.
    """
    import pycuda.driver as cuda

    problem = Problem(135, 262, 200)
    if not any(
        able(gpu, kernel, configuration, problem)
        for configuration, _ in kernel.expand({}, ["float32"])
    ):
        problem = Problem(144, 272, 208)  # Triton's kernels need multiples of 16
    random = np.random.default_rng(5)
    a, b = np.ones((problem.m, problem.k), np.float32), np.ones((problem.k, problem.n), np.float32)
    a *= random.choice([-1e30, 1, 1e30], (problem.m, 1)).astype(np.float32)
    b *= random.choice([-1e30, 1, 1e30], (1, problem.n)).astype(np.float32)
    results = {}
    with given(gpu, problem):
        addresses = gpu.spare()
        for address, values in zip(addresses, (a, b), strict=False):
            cuda.memcpy_htod(address, values)
        binaries = compiled(gpu, kernel, "float32", tmp_path)
        of_kernel = launches(gpu, kernel, binaries, problem)
        named = [(configuration.label, launch) for configuration, launch in of_kernel]
        for name, launch in [("cublas", gpu.baseline("cublas")), *named]:
            gpu._poison_workspace()
            launch.bind(*addresses)()
            gpu.stream.synchronize()
            results[name] = np.empty((problem.m, problem.n), np.float32)
            cuda.memcpy_dtoh(results[name], addresses[2])
    expected = results.pop("cublas")
    assert len(set(expected[np.isinf(expected)])) == 2
    assert results
    for name, result in results.items():
        # which holds infinities to be equal
        np.testing.assert_allclose(result, expected, rtol=1e-5, err_msg=name)


class Copies:
    """Several places for the C of a problem whose operands are in use, so that launches on the same
    A and B can be told apart afterwards.
    """

    def __init__(self, gpu: Any, problem: Problem) -> None:
        import pycuda.driver as cuda

        # C as a launch finds it, from its first element on, and what lies after it
        old = gpu.look()[2]
        first = problem.offsets[2] * old.itemsize
        fresh = np.zeros((SERIES, -(-(first + old.nbytes) // 256) * 256), np.uint8)
        fresh[:, first : first + old.nbytes] = old.view(np.uint8)
        self.fresh, self.place = cuda.to_device(fresh), cuda.mem_alloc(fresh.nbytes)
        # what is copied most of the time
        self.on_host = cuda.pagelocked_empty(fresh.view(np.uint64).shape, np.uint64)
        self.addresses = [int(self.place) + turn * fresh.shape[1] + first for turn in range(SERIES)]

    def renew(self, gpu: Any) -> None:
        """Queue the undoing of all launches."""
        import pycuda.driver as cuda

        cuda.memcpy_dtod_async(int(self.place), int(self.fresh), self.on_host.nbytes, gpu.stream)

    def bits(self) -> Any:
        """What they hold, one a row; the next look overwrites it."""
        import pycuda.driver as cuda

        cuda.memcpy_dtoh(self.on_host, self.place)
        return self.on_host


def copies(gpu: Any, problem: Problem) -> Copies:
    """Those of a problem, which is put in use; they are kept."""
    use(gpu, problem)
    if problem not in gpu.copies:
        gpu.copies[problem] = Copies(gpu, problem)
    places: Copies = gpu.copies[problem]
    return places


def bound(gpu: Any, launch: Launch, places: Copies) -> list[Callable[[], None]]:
    """A launch on the problem in use for each place of C."""
    a, b, _, *scales = gpu.spare()
    return [launch.bind(a, b, c, *scales) for c in places.addresses]


def series(gpu: Any, problem: Problem, launch: Launch) -> Any:
    """The bits of C after each of several launches back to back, the first of which finds a
    poisoned workspace.
    """
    places = copies(gpu, problem)
    places.renew(gpu)
    gpu._poison_workspace()
    for call in bound(gpu, launch, places):
        call()
    gpu.stream.synchronize()
    return places.bits()


def able(gpu: Any, kernel: Kernel, configuration: Configuration, *given: Problem) -> bool:
    """Whether a configuration supports all of the problems."""
    return not any(
        kernel.unmet_need(configuration, {**problem.names(), **gpu.names}) for problem in given
    )


def launches(
    gpu: Any, kernel: Kernel, binaries: Mapping[Configuration, bytes], problem: Problem
) -> Iterator[tuple[Configuration, Launch]]:
    """The launches of all configurations that support the problem, which is in use."""
    for configuration, binary in binaries.items():
        if able(gpu, kernel, configuration, problem):
            yield configuration, gpu.kernel(kernel, configuration, binary)


def waves(gpu: Any, **given: Any) -> Problem:
    """One that has some more tiles than the GPU has SMs, also of the largest, 128 x 256: so that
    tiles are left for a last wave.
    """
    return Problem(1280, 256 * (gpu.names["sm_count"] // 10 + 1), 528, **given)


def uneven(problem: Problem) -> Problem:
    """As many tiles, whose last are not whole, and rows that begin anywhere."""
    sizes = {"m": problem.m - 5, "n": problem.n - 3, "k": problem.k + 1}
    return replace(problem, **sizes, padding=1, offset=1, alpha=-1.5, seed=1)


@of_every_rung
def test_every_launch_gives_the_same_bits(gpu, kernel, element_type, tmp_path):
    """On rounded numbers, of which another order of summation gives others: split K, clusters and
    the last wave keep to one order.
    """
    binaries, wrong = compiled(gpu, kernel, element_type, tmp_path), []
    deep = Problem(256, 512, 4096, element_type=element_type, beta=0.5)
    wide = waves(gpu, element_type=element_type, beta=0.5)
    every = (deep, uneven(replace(deep, m=135, n=262)), wide, uneven(wide))
    for problem in (replace(one, layout=layout) for layout in kernel.layouts for one in every):
        use(gpu, problem)
        for configuration, launch in launches(gpu, kernel, binaries, problem):
            verdict = judge(gpu.check(launch), problem, kernel.precision)
            results = series(gpu, problem, launch)
            others = sum(not np.array_equal(results[0], row) for row in results[1:])
            if others or verdict.status != "correct":
                differ = f"{others} of {SERIES - 1} differ"
                wrong.append((configuration.label, describe(problem), differ, verdict.reason))
    assert not wrong, f"{len(wrong)} wrong, the first: {wrong[:3]}"


class Lane:
    """A stream and a workspace of its own; within `with` the GPU uses them, and not those that it
    has else.
    """

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
    gpu: Any,
    kernel: Kernel,
    configuration: Configuration,
    binary: bytes,
    lanes: Sequence[Lane],
    *given: Problem,
) -> list[str]:
    """What differs from the bits that a problem has alone where a series on each runs at the same
    time as that on the other.

    A series is a graph, so that one launch from the host starts all of it. The problem that needs
    more shared memory, one with rows that begin anywhere, comes last: that is what the function is
    then allowed.
    """
    from cuda.bindings import driver

    complaints, runs, graphs = [], [], []
    for problem, lane in zip(given, lanes, strict=True):
        places = copies(gpu, problem)
        launch = gpu.kernel(kernel, configuration, binary)
        verdict = judge(gpu.check(launch), problem, kernel.precision)
        if verdict.status != "correct":
            complaints.append(f"alone, on {describe(problem)}: {verdict.reason}")
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
                complaints.append(f"at once, on {describe(problem)}: {others} of {SERIES} differ")
    for graph in graphs:
        driver.cuGraphExecDestroy(graph)
    return complaints


def pair(element_type: str) -> tuple[Problem, Problem]:
    """Two problems that leave room for each other on a GPU, and take about as long."""
    first = Problem(512, 768, 2056, element_type=element_type, beta=0.5)
    return first, uneven(replace(first, m=396, n=648, k=2600))


@of_every_rung
def test_launches_in_two_streams_at_once_do_not_disturb_each_other(
    gpu, kernel, element_type, tmp_path
):
    binaries, wrong = compiled(gpu, kernel, element_type, tmp_path), []
    lanes = Lane(gpu), Lane(gpu)
    first, other = pair(element_type)
    wide = waves(gpu, element_type=element_type, beta=0.5)
    for pairs, layout in product(((first, other), (wide, other)), kernel.layouts):
        both = [replace(problem, layout=layout) for problem in pairs]
        for configuration, binary in binaries.items():
            if able(gpu, kernel, configuration, *both):
                complaints = at_once(gpu, kernel, configuration, binary, lanes, *both)
                wrong += [(configuration.label, complaint) for complaint in complaints]
    assert not wrong, f"{len(wrong)} wrong, the first: {wrong[:3]}"


def test_two_streams_with_one_workspace_do_disturb_each_other(gpu, tmp_path):
    """So launches in them do run at once."""
    import pycuda.driver as cuda

    kernel = next(kernel for kernel in KERNELS if kernel.workspace and not kernel.architecture)
    both, wrong = pair("float32"), []
    for configuration, binary in compiled(gpu, kernel, "float32", tmp_path).items():
        if not able(gpu, kernel, configuration, *both):
            continue
        names = [{**problem.names(), **gpu.names} for problem in both]
        size = max(kernel.workspace_of(configuration, each) or 0 for each in names)
        shared = cuda.mem_alloc(size)
        lanes = Lane(gpu, shared, size), Lane(gpu, shared, size)
        wrong += at_once(gpu, kernel, configuration, binary, lanes, *both)
    assert wrong
    assert all(complaint.startswith("at once") for complaint in wrong)
