"""Every CPU rung and BLAS, in two configurations and more, through the gauntlet and on shapes and
factors that are not in it.
"""

import os
import threading
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest
from host import checked, held, host, launch, right
from ladder.compiling.compile import compile_kernel
from ladder.core.types import LAYOUTS
from ladder.devices import cpu, detect
from ladder.devices.base import Refused
from ladder.measuring import gauntlet
from ladder.measuring.verify import fault, judge
from ladder.model import kernel_file
from ladder.model.kernel import Configuration
from ladder.model.problem import Problem
from planted import c_kernel, written
from rungs import ALL
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
UNUSUAL = [
    {"padding": 16},
    {"alpha": -1.5, "beta": 0.5},
    {"alpha": 0.0, "beta": 1.0},
    {"alpha": 0.0},
]
KERNELS = [kernel for kernel in ALL.values() if kernel.kind == "cpu"]
CASES = [
    (kernel, element_type, layout)
    for kernel in KERNELS
    for element_type in kernel.element_types
    for layout in kernel.layouts
]


def problems(element_type, layout):
    """The gauntlet, and more of the same."""
    return [
        *gauntlet.problems(element_type, "", layout),
        *(
            Problem(*shape, element_type=element_type, layout=layout, **unusual)
            for shape in SHAPES
            for unusual in UNUSUAL
        ),
    ]


def complaints(launch, problem):
    """What is wrong with a launch on the present problem."""
    verdict = judge(host().check(launch), problem)
    return [] if verdict.status == "correct" else [(gauntlet.describe(problem), verdict.reason)]


@pytest.mark.parametrize(
    ("kernel", "element_type", "layout"),
    CASES,
    ids=[f"{kernel.name}-{element_type}-{layout}" for kernel, element_type, layout in CASES],
)
def test_every_rung_is_right_everywhere(kernel, element_type, layout, tmp_path: Path):
    every = kernel.expand({}, [element_type], layouts=[layout])
    legal = [each for each, objection in every if not objection]
    default = Configuration(element_type, tuple(kernel.parameters.items()), layout=layout)
    chosen = list(dict.fromkeys([default, legal[0], legal[-1]]))
    rows = compile_kernel(kernel, [(each, "") for each in chosen], "here", tmp_path, 2)
    wrong = []
    for problem in problems(element_type, layout):
        with held(problem):
            for configuration, row in zip(chosen, rows, strict=True):
                binary = (tmp_path / row.binary).read_bytes()
                wrong += complaints(host().kernel(kernel, configuration, binary), problem)
    assert wrong == []


@pytest.mark.parametrize("name", ["blas_1", "blas_all"])
@pytest.mark.parametrize("element_type", ["float32", "float64"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_blas_is_right_everywhere(name, element_type, layout):
    wrong = []
    for problem in problems(element_type, layout):
        with held(problem):
            wrong += complaints(host().baseline(name), problem)
    assert wrong == []


@pytest.mark.parametrize(
    ("total", "error", "message"),
    [
        (1, Refused, "1.8 GiB are needed for 4096, and 1.0 GiB are left"),
        (64, OSError, "and 1.0 GiB are left: something else holds the memory"),
    ],
)
def test_memory_is_looked_at_before_it_is_taken(monkeypatch, total, error, message):
    memory = psutil.virtual_memory()._replace(available=1 << 30)
    machine = detect.DetectedDevice("cpu", "cpu", "CPU", "cpu", total << 30)
    monkeypatch.setattr(detect, "detect_cpu", lambda: machine)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    with pytest.raises(error, match=message):
        host().operands(Problem(4096, 4096, 4096))


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
    assert host().settle() == bool(waits)
    assert virtual_clock.slept == [cpu.SETTLE_SECONDS] * waits


def test_threads_that_do_not_come_to_rest_are_refused(monkeypatch, virtual_clock):
    """They would take cores from everything that is timed in the same process. Time in which this
    process had no core does not count: the threads had none either.
    """
    monkeypatch.setattr(cpu, "_others_computing", lambda: True)
    for turn in range(10):
        virtual_clock.after(turn * cpu.SETTLE_SECONDS, partial(virtual_clock.stand_still, 10))
    with pytest.raises(Refused, match="still compute after 2 s") as refused:
        host().settle()
    assert refused.value.fatal
    assert 1102 - 10 * cpu.LOOK_SECONDS <= virtual_clock.now() <= 1102.001


def test_a_sample_has_the_cpu_time_of_the_process_and_of_its_thread(monkeypatch):
    """Also what other threads compute before they rest: the system may account for it only then."""
    numbers = np.random.default_rng(0).random(500_000)

    def beside():
        thread = threading.Thread(target=lambda: np.sort(numbers))
        thread.start()
        return thread

    def alone(p, a, b, c):
        np.sort(numbers)

    def with_company(p, a, b, c):
        thread = beside()
        np.sort(numbers[:50_000])
        thread.join()

    def cpu_ns(compute):
        (timed,) = host().time_round([host().sample(launch(host(), compute), 1)], False, 1)
        assert timed.cpu_ns[1] > 0
        return timed.cpu_ns

    def compute_at_the_second_look():
        if next(looks):
            beside().join()
        return False

    with held(Problem(8, 8, 8)):
        process, thread = cpu_ns(alone)
        assert process < 2 * thread
        process, thread = cpu_ns(with_company)
        assert process > 2 * thread
        looks = iter([False, True])
        monkeypatch.setattr(host(), "_waited", False)
        monkeypatch.setattr(host(), "settle", compute_at_the_second_look)
        process, thread = cpu_ns(lambda p, a, b, c: None)
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
    made, poisoned, left = [], {}, iter(looks)
    monkeypatch.setattr(host(), "_waited", False)
    monkeypatch.setattr(host(), "settle", lambda: next(left))

    def launched(name):
        def launch_it(p, a, b, c):
            made.append(name)
            poisoned[name] = np.isnan(c).all()

        return host().sample(launch(host(), launch_it), 1, cold)

    with held(Problem(8, 8, 8)):
        host().time_round([launched(name) for name in "ab"], cold, 1)
    assert "".join(made) == calls
    assert poisoned == {"a": True, "b": True}  # before the launch that is timed, which is the last


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
    text = c_kernel("t", "static int calls; C[0] = ++calls;")
    text = text.replace("\n---*/", "\nparameters: {COPY: 0}\n---*/")
    kernel, again = (
        kernel_file.parse(written(tmp_path / commit / "cpu" / "counts.c", text))
        for commit in ("one", "another")
    )
    operands, seen = host().operands(Problem(1, 1, 1)), []
    copies = [Configuration("float32", (("COPY", number),)) for number in (0, 1, 0)]
    rows = compile_kernel(kernel, [(copy, "") for copy in copies[:2]], "here", tmp_path, 1)
    assert rows[0].sha256 == rows[1].sha256
    for its, copy in [*((kernel, copy) for copy in copies), (again, copies[0])]:
        host().check(host().kernel(its, copy, (tmp_path / rows[0].binary).read_bytes()))
        seen.append(float(operands.results[0][operands.places[2].first]))
    host().free(operands)
    assert seen == [1, 1, 2, 1]


def openmp():
    return ThreadpoolController().select(user_api="openmp").lib_controllers


def threads_of_openmp():
    return [library.get_num_threads() for library in openmp()]


def set_threads_of_openmp(p, a, b, c):
    for library in openmp():
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
    # of each the one that neighbors disturbed least
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
