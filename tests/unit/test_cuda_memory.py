"""What a GPU without memory left means, behind a made-up PyCUDA: too large a problem, or another
process there.
"""

import sys
from dataclasses import replace
from importlib import import_module
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from ladder.devices.base import Refused
from ladder.devices.operands import GUARD, places
from ladder.model.problem import Problem

GIB = 2**30
MADE_UP = ("ladder.devices.cuda_operands", "ladder.devices.cuda_peaks")


class OutOfMemory(Exception):
    pass


class Buffer(int):
    """The address of memory."""

    def free(self):
        pass


@pytest.fixture
def support(monkeypatch):
    """The device's memory, 80 GiB, of which `support.left` are left."""
    driver, addresses = ModuleType("pycuda.driver"), [256]

    def allocate(size):
        if size > made.left:
            raise OutOfMemory
        addresses.append(addresses[-1] + size)
        return Buffer(addresses[-2])

    driver.MemoryError, driver.Error = OutOfMemory, OutOfMemory
    driver.mem_alloc, driver.mem_get_info = allocate, lambda: (0, 80 * GIB)
    driver.module_from_buffer = lambda binary: None
    monkeypatch.setitem(sys.modules, "pycuda.driver", driver)
    for name in MADE_UP:
        monkeypatch.delitem(sys.modules, name, raising=False)
    module = import_module("ladder.devices.cuda_operands")
    with monkeypatch.context() as at_first:
        at_first.setattr(module, "Apart", Buffer)
        made = module.Support(b"", None, 1)
    monkeypatch.setattr(module, "Apart", allocate)
    made.left = 80 * GIB
    yield made
    for name in MADE_UP:  # which have the made-up driver
        sys.modules.pop(name, None)


def operands_of(problem, support):
    return import_module("ladder.devices.cuda_operands").Operands(problem, support, None)


def test_where_the_next_launch_has_its_c_is_left_to_chance(support):
    """But for the first, which begins where the room of all of them does."""
    at = operands_of(Problem(5, 6, 7), support)
    at.reserve(50, 0)
    steps = np.diff([at.of_launch(turn, 1)[2] for turn in range(50)])
    assert at.of_launch(0, 1)[2] == at.results + 4 * GUARD
    assert len(set(steps.tolist())) > 10
    assert (steps >= 4 * at.place_c.total).all()
    assert (steps % 256 == 0).all()


def test_a_b_and_c_begin_at_their_own_offsets_and_each_launch_has_rows_of_its_own(support):
    at = operands_of(Problem(5, 6, 7, padding="1,4,2", offset="0,1,3"), support)
    at.reserve(3, 0)
    a, b = (address + 4 * place.first for address, place in at.sets[0])
    assert at.of_launch(0, 1)[:2] == (a, b)
    c = at._result(2) + 4 * (GUARD + 3)
    assert at.of_launch(2, 1) == (a + 2 * 4 * 8 * 4, b + 2 * 4 * 10 * 4, c)
    assert (b - at.sets[0][1].address) % 256 == 4  # which is its offset, in elements of 4 bytes
    # canaries fill the memory from its first byte to its last, at least as many as GUARD
    for (_, place), alone in zip(at.sets[0], places(at.given, at.extra), strict=False):
        assert place.first >= GUARD
        assert place.total - place.first - place.rows * place.ld >= GUARD
        assert 4 * place.total == 4 * alone.total + 4095 * 256


def test_each_set_of_operands_has_scales_of_its_own_and_a_batch_has_none(support):
    problem = Problem(130, 300, 700, "float8_e4m3_blocks", layout="nt")
    at, drawn = operands_of(problem, support), []
    support.queue = lambda name, layout, *given: drawn.append((name, *given, len(layout[1:])))
    at.reserve(2, GIB)
    at.draw(7, 2)
    scales = [queued for queued in drawn if queued[0] == "fill_float32"]
    assert len({draw[-2] for draw in scales}) == 2  # seeds
    for turn, of_set in enumerate((scales[:2], scales[2:])):
        begin = [address + 4 * first for _, address, _, first, *_ in of_set]
        assert list(at.of_launch(turn, 2)[3:]) == begin
        assert [tuple(draw[4:6]) for draw in of_set] == [(6, 130), (3, 8)]
        assert all(len(draw) == draw[-1] + 3 for draw in of_set)
    with pytest.raises(Refused, match="float8_e4m3_blocks has no batches"):
        operands_of(replace(problem, batch=2), support)


@pytest.mark.parametrize(
    ("held", "gib", "message"),
    [
        (0, 73, r"no 73\.0 GiB left for an operand"),
        (60, 20, r"no 20\.0 GiB left for an operand"),  # what this process holds counts
        (
            0,
            20,
            r"no 20\.0 GiB left for an operand, and 80\.0 GiB in all: something else holds its",
        ),
    ],
)
def test_what_would_fit_but_for_another_process_is_the_machines_fault(support, held, gib, message):
    support.allocate(held * GIB, "an operand")
    support.left = 10 * GIB
    raised = OSError if "something else" in message else Refused
    with pytest.raises(raised, match=message):
        support.allocate(gib * GIB, "an operand")


@pytest.mark.parametrize(
    ("text", "raised"),
    [
        ("cuStreamSynchronize failed: uncorrectable ECC error encountered", OSError),
        ("CUresult.CUDA_ERROR_ECC_UNCORRECTABLE", OSError),
        ("cuLaunchKernel failed: CUDA-capable device(s) is/are busy or unavailable", OSError),
        ("cuStreamSynchronize failed: an illegal memory access was encountered", Refused),
    ],
)
def test_an_error_of_the_hardware_is_no_kernels_fault(support, text, raised):
    failed = support.failure(RuntimeError(text))
    assert isinstance(failed, raised)
    if raised is Refused:
        assert (failed.status, failed.reason, failed.fatal) == ("launch_error", text, True)


def test_a_launch_without_memory_is_a_kernels_fault_only_where_nobody_else_has_it(support):
    driver, error = sys.modules["pycuda.driver"], OutOfMemory("out of memory")
    support.allocate(30 * GIB, "an operand")
    driver.mem_get_info = lambda: (45 * GIB, 80 * GIB)  # all but what the driver itself takes
    assert isinstance(support.failure(error), Refused)
    driver.mem_get_info = lambda: (1 * GIB, 80 * GIB)
    failed = support.failure(error, "the cubin cannot be used: ", fatal=False)
    assert isinstance(failed, OSError)
    message = "the cubin cannot be used: out of memory, and 1.0 GiB left: something else holds its"
    assert str(failed).startswith(message)


class Loads:
    """The kernels that measure: each load of a chase takes 250 ns from L2, and 600 ns where the
    cache was emptied before.
    """

    stream = None

    def __init__(self):
        self.emptied, self.ns, self.queued = False, 0.0, {}

    def function(self, name, layout):
        return SimpleNamespace(prepared_async_call=lambda *given: self.launch(name, *given))

    def address(self, part):
        return 0

    def launch(self, name, grid, block, stream, *arguments):
        self.queued.setdefault(name, []).append((grid, block, arguments))
        if name == "peak_chase":
            self.ns = (600 if self.emptied else 250) * arguments[2]
        self.emptied = False


def test_bandwidth_and_latencies_are_those_of_the_loads(support):
    cuda_peaks = import_module("ladder.devices.cuda_peaks")
    driver, loads, uploaded = sys.modules["pycuda.driver"], Loads(), []

    def upload(words):
        uploaded.append(words)
        return Buffer(len(uploaded))

    def download(array, source):
        array[:] = loads.ns * np.array([0.5, 1, 1, 1.5])

    def time_calls(calls):
        for call in calls:
            call()
        return [1000.0] * len(calls)

    def empty():
        loads.emptied = True

    driver.to_device, driver.memcpy_dtoh = upload, download
    l2 = 1 << 20
    assert cuda_peaks.memory(loads, time_calls, 4, l2, empty) == pytest.approx(
        {
            "l2_tb_s": cuda_peaks.PASSES * l2 / 4 / 1e-3 * 1e-12,
            "l2_latency_ns": 250,
            "memory_latency_ns": 600,
        }
    )
    for grid, block, (buffer, lines, *_) in loads.queued["peak_chase"]:
        assert (grid, block) == ((4, 1), (1, 1, 1))  # one thread on each SM
        assert lines == {1: l2 // 4 // 128, 2: 8 * l2 // 128}[buffer]
    for words in uploaded:  # a cycle through all lines, each once
        at, lines = 0, []
        for _ in words:
            at = words[at // 32, 0]
            lines.append(at // 32)
        assert at == 0
        assert sorted(lines) == list(range(len(words)))
        assert np.abs(np.diff(lines)).mean() > len(words) / 4  # in no order that could be foreseen


def test_a_launch_that_only_multiplies_has_the_operations_of_its_loops(support):
    cuda_peaks, loads = import_module("ladder.devices.cuda_peaks"), Loads()
    assert list(cuda_peaks.arithmetic(loads, 4, tensor_cores=False)) == ["fp32_tflops"]
    launches = cuda_peaks.arithmetic(loads, 4, tensor_cores=True)
    for call, _ in launches.values():
        call()
    # of a thread's eight sums, 128 times; and products of a warpgroup, 8 times 64 x 256 x 16 or 32
    work = {
        "peak_fma": ("fp32_tflops", lambda threads: threads * 128 * 8),
        "peak_tensor_16": ("tensor_16_bit_tflops", lambda threads: threads // 128 * 2**21),
        "peak_tensor_8": ("tensor_8_bit_tflops", lambda threads: threads // 128 * 2**22),
    }
    for function, (rate, multiply_adds) in work.items():
        (((blocks, _), (threads, *_), (rounds, *_)),) = loads.queued[function]
        assert launches[rate][1] == 2 * blocks * rounds * multiply_adds(threads)
