"""What a GPU without memory left means, behind a made-up PyCUDA: too large a problem, or another
process there.
"""

import sys
from importlib import import_module
from types import ModuleType

import numpy as np
import pytest
from ladder.devices.base import Refused
from ladder.devices.operands import GUARD, places
from ladder.model.problem import Problem

GIB = 2**30


class OutOfMemory(Exception):
    pass


class Buffer:
    def __init__(self, address):
        self.address = address

    def __int__(self):
        return self.address

    def free(self):
        pass


@pytest.fixture
def support(monkeypatch):
    """The device's memory, 80 GiB, of which `support.left` are left."""
    driver = ModuleType("pycuda.driver")
    supports = []

    def allocate(size):
        if supports and size > supports[0].left:
            raise OutOfMemory
        addresses.append(addresses[-1] + size)
        return Buffer(addresses[-2])

    addresses = [256]
    driver.MemoryError, driver.Error = OutOfMemory, OutOfMemory
    driver.mem_alloc, driver.mem_get_info = allocate, lambda: (0, 80 * GIB)
    driver.module_from_buffer = lambda binary: None
    monkeypatch.setitem(sys.modules, "pycuda.driver", driver)
    monkeypatch.delitem(sys.modules, "ladder.devices.cuda_operands", raising=False)
    module = import_module("ladder.devices.cuda_operands")
    monkeypatch.setattr(module, "Apart", allocate)
    supports.append(module.Support(b"", None, 1))
    supports[0].left = 80 * GIB
    yield supports[0]
    del sys.modules["ladder.devices.cuda_operands"]  # which has the made-up one


def test_where_the_next_launch_has_its_c_is_left_to_chance(support):
    """But for the first, which begins where the room of all of them does."""
    at = import_module("ladder.devices.cuda_operands").Operands(Problem(5, 6, 7), support, None)
    at.reserve(50, 0)
    steps = np.diff([at.of_launch(turn, 1)[2] for turn in range(50)])
    assert at.of_launch(0, 1)[2] == at.results + 4 * GUARD
    assert len(set(steps.tolist())) > 10
    assert (steps >= 4 * at.place_c.total).all()
    assert (steps % 256 == 0).all()


def test_a_b_and_c_begin_at_their_own_offsets_and_each_launch_has_rows_of_its_own(support):
    at = import_module("ladder.devices.cuda_operands").Operands(
        Problem(5, 6, 7, padding="1,4,2", offset="0,1,3"), support, None
    )
    at.reserve(3, 0)
    a, b = (address + 4 * place.first for address, place in at.sets[0])
    assert at.of_launch(0, 1)[:2] == (a, b)
    assert at.of_launch(2, 1) == (
        a + 2 * 4 * 8 * 4,
        b + 2 * 4 * 10 * 4,
        at._result(2) + 4 * (GUARD + 3),
    )
    assert (b - at.sets[0][1].address) % 256 == 4  # which is its offset, in elements of 4 bytes
    # canaries fill the memory from its first byte to its last, at least as many as GUARD
    for address, place in at.sets[0]:
        assert place.first >= GUARD
        assert place.total - place.first - place.rows * place.ld >= GUARD
        assert (
            4 * place.total
            == 4 * (places(at.given, at.extra)[0 if address == at.sets[0][0].address else 1].total)
            + 4095 * 256
        )


@pytest.mark.parametrize(
    ("gib", "raised", "message"),
    [
        (73, Refused, r"no 73\.0 GiB left for an operand"),
        (
            20,
            OSError,
            r"no 20\.0 GiB left for an operand, and 80\.0 GiB in all: something else holds its "
            r"memory",
        ),
    ],
)
def test_what_would_fit_but_for_another_process_is_the_machines_fault(
    support, gib, raised, message
):
    support.left = 10 * GIB
    with pytest.raises(raised, match=message) as refused:
        support.allocate(gib * GIB, "an operand")
    assert getattr(refused.value, "status", "not_supported") == "not_supported"


def test_what_this_process_holds_counts(support):
    held = support.allocate(60 * GIB, "an operand")
    support.left = 10 * GIB
    with pytest.raises(Refused):
        support.allocate(20 * GIB, "an operand")
    support.free(held)
    with pytest.raises(OSError, match="something else"):
        support.allocate(20 * GIB, "an operand")


@pytest.mark.parametrize(
    "text",
    [
        "cuStreamSynchronize failed: uncorrectable ECC error encountered",
        "CUresult.CUDA_ERROR_ECC_UNCORRECTABLE",
        "cuLaunchKernel failed: CUDA-capable device(s) is/are busy or unavailable",
    ],
)
def test_an_error_of_the_hardware_is_no_kernels_fault(support, text):
    assert isinstance(support.failure(RuntimeError(text)), OSError)


def test_an_error_of_a_kernel_is_its_own(support):
    refused = support.failure(
        RuntimeError("cuStreamSynchronize failed: an illegal memory access was encountered")
    )
    assert (refused.status, refused.fatal) == ("launch_error", True)
    assert refused.reason == "cuStreamSynchronize failed: an illegal memory access was encountered"
    assert not support.failure(
        RuntimeError("named symbol not found"), "the cubin cannot be used: ", fatal=False
    ).fatal


def test_a_launch_without_memory_is_a_kernels_fault_only_where_nobody_else_has_it(support):
    driver = sys.modules["pycuda.driver"]
    support.allocate(30 * GIB, "an operand")
    driver.mem_get_info = lambda: (45 * GIB, 80 * GIB)  # all but what the driver itself takes
    assert isinstance(support.failure(OutOfMemory("out of memory")), Refused)
    driver.mem_get_info = lambda: (1 * GIB, 80 * GIB)
    failed = support.failure(
        OutOfMemory("out of memory"), "the cubin cannot be used: ", fatal=False
    )
    assert (
        str(failed)
        == "the cubin cannot be used: out of memory, and 1.0 GiB left: something else holds its "
        "memory"
    )
    assert isinstance(failed, OSError)


class Loads:
    """The kernels that measure memories: each load of a chase takes 250 ns from L2, and 600 ns
    where the cache was emptied before.
    """

    def __init__(self):
        self.emptied, self.ns, self.queued = False, 0.0, []

    def function(self, name, layout):
        self.name = name
        return type(
            name, (), {"prepared_async_call": lambda *given: self.launch(name, given[1:])}
        )()

    stream = None

    def address(self, part):
        return 0

    def launch(self, name, given):
        grid, block, _, buffer, count, times, _ = given
        self.queued.append((name, grid, block, int(buffer), count, times))
        self.ns = (600 if self.emptied else 250) * times
        self.emptied = False


def test_bandwidth_and_latencies_are_those_of_the_loads(support, monkeypatch):
    monkeypatch.delitem(sys.modules, "ladder.devices.cuda_peaks", raising=False)
    cuda_peaks = import_module("ladder.devices.cuda_peaks")
    driver, loads, uploaded = sys.modules["pycuda.driver"], Loads(), []

    def upload(words):
        uploaded.append(words)
        return Buffer(len(uploaded))

    driver.to_device = upload
    driver.memcpy_dtoh = lambda array, source: array.__setitem__(
        slice(None), loads.ns * np.array([0.5, 1, 1, 1.5])
    )

    def time_calls(calls):
        for call in calls:
            call()
        return [1000.0] * len(calls)

    def empty():
        loads.emptied = True

    l2 = 1 << 20
    expected = {
        "l2_tb_s": cuda_peaks.PASSES * l2 / 4 / 1e-3 * 1e-12,
        "l2_latency_ns": 250,
        "memory_latency_ns": 600,
    }
    assert cuda_peaks.memory(loads, time_calls, 4, l2, empty) == pytest.approx(expected)
    chases = [launch for launch in loads.queued if launch[0] == "peak_chase"]
    assert {launch[1:3] for launch in chases} == {((4, 1), (1, 1, 1))}  # one thread on each SM
    assert {launch[3:5] for launch in chases} == {(1, l2 // 4 // 128), (2, 8 * l2 // 128)}
    del sys.modules["ladder.devices.cuda_peaks"]
    for words in uploaded:  # a cycle through all lines, each once
        at, lines = 0, []
        for _ in range(len(words)):
            assert at % 32 == 0
            lines.append(at // 32)
            at = words[at // 32, 0]
        assert at == 0
        assert sorted(lines) == list(range(len(words)))
        assert np.abs(np.diff(lines)).mean() > len(words) / 4  # in no order that could be foreseen


def test_a_launch_that_only_multiplies_has_the_operations_of_its_loops(support, monkeypatch):
    monkeypatch.delitem(sys.modules, "ladder.devices.cuda_peaks", raising=False)
    cuda_peaks = import_module("ladder.devices.cuda_peaks")
    assert list(cuda_peaks.arithmetic(Loads(), 4, tensor_cores=False)) == ["fp32_tflops"]
    loads, launched = Loads(), {}
    loads.launch = lambda name, given: launched.update({name: given})
    launches = cuda_peaks.arithmetic(loads, 4, tensor_cores=True)
    for call, _ in launches.values():
        call()
    (blocks, _), (threads, *_), _, rounds, *_ = launched["peak_fma"]
    # of a thread's eight sums, 128 times
    assert launches["fp32_tflops"][1] == 2 * blocks * threads * rounds * 128 * 8
    (blocks, _), (threads, *_), _, rounds, *_ = launched["peak_tensor"]
    assert blocks == 4
    assert (
        launches["tensor_16_bit_tflops"][1]
        == 2 * blocks * (threads // 128) * rounds * 8 * 64 * 256 * 16
    )  # products of a warpgroup
    del sys.modules["ladder.devices.cuda_peaks"]
