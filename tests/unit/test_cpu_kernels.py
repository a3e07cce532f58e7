"""Every CPU rung and BLAS, in two configurations and more, through the gauntlet and on shapes and
factors that are not in it.
"""

import os
import threading
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from host import checked, held, host, launch, right
from ladder.compiling.compile import compile_kernel
from ladder.devices import cpu, detect
from ladder.devices.base import Refused
from ladder.measuring import gauntlet
from ladder.measuring.verify import fault, judge
from ladder.model import kernel_file
from ladder.model.kernel import Configuration
from ladder.model.problem import Problem
from planted import ROOT
from threadpoolctl import ThreadpoolController

SHAPES = [
    (1, 7, 1),
    (1, 513, 31),
    (513, 1, 31),
    (31, 1, 513),
    (12, 32, 256),
    (121, 513, 257),
    (241, 33, 385),
    (3, 256, 256),
]
LAYOUTS = [
    {"padding": 16},
    {"alpha": -1.5, "beta": 0.5},
    {"alpha": 0.0, "beta": 1.0},
    {"alpha": 0.0},
]
KERNELS = [kernel for kernel in kernel_file.discover(ROOT).values() if kernel.kind == "cpu"]
CASES = [(kernel, element_type) for kernel in KERNELS for element_type in kernel.element_types]


def problems(element_type):
    """The gauntlet, and more of the same."""
    return [
        *gauntlet.problems(element_type),
        *(
            Problem(*shape, element_type=element_type, **layout)
            for shape in SHAPES
            for layout in LAYOUTS
        ),
    ]


@pytest.mark.parametrize(
    ("kernel", "element_type"), CASES, ids=[f"{kernel.name}-{t}" for kernel, t in CASES]
)
def test_every_rung_is_right_everywhere(kernel, element_type, tmp_path: Path):
    legal = [
        configuration
        for configuration, objection in kernel.expand({}, [element_type])
        if not objection
    ]
    default = Configuration(element_type, tuple(kernel.parameters.items()))
    chosen = list(dict.fromkeys([default, legal[0], legal[-1]]))
    rows = compile_kernel(
        kernel, [(configuration, "") for configuration in chosen], "here", tmp_path, 2
    )
    wrong = []
    for problem in problems(element_type):
        with held(problem):
            for configuration, row in zip(chosen, rows, strict=True):
                verdict = judge(
                    host().check(
                        host().kernel(kernel, configuration, (tmp_path / row.binary).read_bytes())
                    ),
                    problem,
                )
                if verdict.status != "correct":
                    wrong.append((configuration.label, gauntlet.describe(problem), verdict.reason))
    assert not wrong, f"{len(wrong)} wrong, the first: {wrong[:3]}"


@pytest.mark.parametrize("name", ["blas_1", "blas_all"])
@pytest.mark.parametrize("element_type", ["float32", "float64"])
def test_blas_is_right_everywhere(name, element_type):
    for problem in problems(element_type):
        with held(problem):
            verdict = judge(host().check(host().baseline(name)), problem)
        assert verdict.status == "correct", (gauntlet.describe(problem), verdict.reason)


@pytest.mark.parametrize(
    ("total", "left", "error", "message"),
    [
        (64, 60, None, ""),
        (1, 1, Refused, "1.8 GiB are needed for 4096, and 1.0 GiB are left"),
        (
            64,
            1,
            OSError,
            "1.8 GiB are needed for 4096, and 1.0 GiB are left: something else holds the memory",
        ),
    ],
)
def test_memory_is_looked_at_before_it_is_taken(monkeypatch, total, left, error, message):
    memory = psutil.virtual_memory()._replace(available=left << 30)
    monkeypatch.setattr(
        detect, "detect_cpu", lambda: detect.DetectedDevice("cpu", "cpu", "CPU", "cpu", total << 30)
    )
    monkeypatch.setattr(cpu, "Operands", lambda problem: SimpleNamespace(given=problem))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    with pytest.raises(error) if error else nullcontext() as raised:
        host().operands(Problem(4096, 4096, 4096))
    assert not error or message in (raised.value.reason if error is Refused else str(raised.value))


def test_a_thread_that_computes_is_seen():
    """As OpenBLAS's and OpenMP's, which spin on for a while after a call."""
    done, numbers = threading.Event(), np.random.default_rng(0).random(500_000)

    def compute():
        while not done.is_set():
            np.sort(numbers)  # without the interpreter's lock

    thread = threading.Thread(target=compute)
    thread.start()
    seen = any(cpu._others_computing() for _ in range(100_000))
    done.set()
    thread.join()
    assert seen
    assert not all(cpu._others_computing() for _ in range(100_000))


@pytest.mark.parametrize(("looks", "waits"), [([False], 0), ([True, True, True, False], 3)])
def test_timing_begins_when_other_threads_have_come_to_rest(
    monkeypatch, virtual_clock, looks, waits
):
    left = iter(looks)
    monkeypatch.setattr(cpu, "_others_computing", lambda: next(left))
    assert cpu._settle() == bool(waits)
    assert virtual_clock.slept == [cpu.SETTLE_SECONDS] * waits


def test_threads_that_do_not_come_to_rest_are_refused(monkeypatch, virtual_clock):
    """They would take cores from everything that is timed in the same process."""
    monkeypatch.setattr(cpu, "_others_computing", lambda: True)
    with pytest.raises(Refused, match="still compute after 2 s") as refused:
        cpu._settle()
    assert refused.value.fatal
    assert virtual_clock.now() == pytest.approx(1002, abs=0.001)


def test_time_in_which_the_process_had_no_core_is_none_in_which_threads_computed(
    monkeypatch, virtual_clock
):
    """As on a busy machine, or where the process was stopped: the threads had no core either."""
    looks = iter([True] * 100 + [False])
    monkeypatch.setattr(cpu, "_others_computing", lambda: next(looks))
    for turn in range(10):
        virtual_clock.after(turn * cpu.SETTLE_SECONDS, partial(virtual_clock.stand_still, 10))
    assert cpu._settle()
    assert virtual_clock.now() > 1100


def test_a_sample_has_the_cpu_time_of_the_process_and_of_its_thread():
    """Those of a call that computes beside another thread: what the machine does besides changes
    neither.
    """
    numbers = np.random.default_rng(0).random(500_000)

    def compute(p, a, b, c):
        beside = threading.Thread(target=lambda: np.sort(numbers))
        beside.start()
        np.sort(numbers[:50_000])
        beside.join()

    with held(Problem(8, 8, 8)):
        for call, company in ((lambda p, a, b, c: np.sort(numbers), False), (compute, True)):
            (timed,) = host().time_round([host().sample(launch(host(), call), 1)], False, 1)
            process, thread = timed.cpu_ns
            assert thread > 0
            assert (process > 2 * thread) == company


def test_what_other_threads_compute_before_they_rest_counts(monkeypatch):
    """The system may account for it only then."""
    numbers, looks = np.random.default_rng(0).random(500_000), []

    def settle():
        looks.append(None)
        if len(looks) == 2:
            beside = threading.Thread(target=lambda: np.sort(numbers))
            beside.start()
            beside.join()
        return False

    monkeypatch.setattr(host(), "_waited", False)
    monkeypatch.setattr(host(), "settle", settle)
    with held(Problem(8, 8, 8)):
        (timed,) = host().time_round(
            [host().sample(launch(host(), lambda p, a, b, c: None), 1)], False, 1
        )
    process, thread = timed.cpu_ns
    assert process > 2 * thread


@pytest.mark.parametrize(
    ("looks", "cold", "calls"),
    [
        ([False, False, False, False], False, "ab"),
        ([True, False, False, False], False, "aab"),
        ([True, False, False, False], True, "ab"),
        ([False, True, False, False], False, "abb"),  # after a sample, as before the next
    ],
)
def test_after_a_wait_a_warm_launch_has_one_before_it(monkeypatch, looks, cold, calls):
    made, left = [], iter(looks)
    monkeypatch.setattr(host(), "_waited", False)
    monkeypatch.setattr(host(), "settle", lambda: next(left))

    def launched(name):
        def launch_it(p, a, b, c):
            assert np.isnan(c).all()  # poisoned before it is timed
            made.append(name)

        return host().sample(launch(host(), launch_it), 1, cold)

    with held(Problem(8, 8, 8)):
        host().time_round([launched(name) for name in "ab"], cold, 1)
    assert "".join(made) == calls


def test_what_is_launched_before_the_clock_starts_has_another_a(monkeypatch):
    """Else a kernel that keeps its results would find that of the launch that is timed."""
    problem, seen = Problem(8, 9, 10), []
    monkeypatch.setattr(host(), "_waited", False)
    monkeypatch.setattr(host(), "settle", lambda: True)
    with held(problem):
        sample = host().sample(
            launch(host(), lambda p, a, b, c: seen.append(a.copy()) or right(p, a, b, c)), 1
        )
        timed = [
            timing for seed in (1, 2) for timing in host().time_round([sample, sample], False, seed)
        ]
    assert len(seen) == 8
    for turn in range(0, 8, 2):
        assert not np.isin(seen[turn][0], seen[turn + 1][0]).any()
    assert [fault(timing.audit, problem) for timing in timed] == [""] * 4


def test_kernels_with_the_same_binary_have_variables_of_their_own(tmp_path: Path):
    """Of two in a round, the second has the operands of the first."""
    (tmp_path / "cpu").mkdir()
    path = tmp_path / "cpu" / "counts.c"
    path.write_text("""/*---
title: Counts
idea: C is what its own variable has counted
parameters: {COPY: 0}
---*/
void gemm(int M, int N, int K, T alpha, const T *A, int lda, const T *B, int ldb, T beta, T *C, int ldc) {
  static int calls;
  C[0] = ++calls;
}
""")
    kernel, operands, seen = kernel_file.parse(path), host().operands(Problem(1, 1, 1)), []
    copies = [Configuration("float32", (("COPY", number),)) for number in (0, 1, 0)]
    rows = compile_kernel(kernel, [(copy, "") for copy in copies[:2]], "here", tmp_path, 1)
    assert rows[0].sha256 == rows[1].sha256
    for copy in copies:
        host().check(host().kernel(kernel, copy, (tmp_path / rows[0].binary).read_bytes()))
        seen.append(float(operands.results[0][operands.places[2].first]))
    host().free(operands)
    assert seen == [1, 1, 2]


def threads_of_openmp():
    return [
        library.get_num_threads()
        for library in ThreadpoolController().select(user_api="openmp").lib_controllers
    ]


def set_threads_of_openmp(p, a, b, c):
    for library in ThreadpoolController().select(user_api="openmp").lib_controllers:
        library.set_num_threads(library.get_num_threads() + 1)


def keep_to_a_core(p, a, b, c):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


@pytest.mark.parametrize(
    ("taken", "left"),
    [
        # OpenMP starts no more threads than cores
        (keep_to_a_core, lambda: os.sched_getaffinity(0)),
        (set_threads_of_openmp, threads_of_openmp),
    ],
)
def test_a_kernel_that_takes_cores_or_threads_leaves_the_others_theirs(taken, left):
    before, cores = left(), os.sched_getaffinity(0)
    checked(Problem(8, 8, 8), taken)
    after = left()
    os.sched_setaffinity(0, cores)
    assert before
    assert after == before


@pytest.mark.machine
def test_a_cold_launch_finds_no_operand_in_the_caches():
    def reads(p, a, b, c):  # and little else
        c[:] = a.max() + b.max()

    times: dict[bool, list[float]] = {False: [], True: []}
    with held(Problem(8, 8, 16384)):  # 1 MB: not too much for the caches
        sample = host().sample(launch(host(), reads), 1)
        for seed in range(60):
            cold = seed % 2 == 1
            times[cold].append(host().time_round([sample], cold, seed)[0].us)
    # of each the one that neighbours disturbed least
    assert min(times[True]) > 1.2 * min(times[False])


X86 = "processor\t: {}\nmodel name\t: AMD EPYC  9V74 80-Core Processor\n\n"
ARM = (
    "processor\t: {}\nBogoMIPS\t: 2000.00\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU "
    "part\t: {}\n\n"
)


@pytest.mark.parametrize(
    ("text", "name", "slug"),
    [
        (
            X86.format(0) + X86.format(1),
            "AMD EPYC 9V74 80-Core Processor",
            "cpu-amd-epyc-9v74-80-core-processor",
        ),
        (ARM.format(0, "0xd4f") + ARM.format(1, "0xd4f"), "Neoverse V2", "cpu-neoverse-v2"),
        (
            ARM.format(0, "0xd87") + ARM.format(1, "0xd85"),
            "Cortex-X925 and Cortex-A725",
            "cpu-cortex-x925-and-cortex-a725",
        ),
        (ARM.format(0, "0xd0c"), "Arm 0x41 0xd0c", "cpu-arm-0x41-0xd0c"),
    ],
)
def test_a_cpu_is_named_by_its_model_or_by_its_cores(text, name, slug, monkeypatch, tmp_path):
    monkeypatch.setattr(detect, "CPUINFO", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text(text)
    device = detect.detect_cpu.__wrapped__()
    assert (device.name, device.slug) == (name, slug)
