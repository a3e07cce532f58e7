"""What a GPU without memory left means, behind a made-up PyCUDA: too large a problem, or another process there."""

import sys
from importlib import import_module
from types import ModuleType

import numpy as np
import pytest
from ladder.devices.base import Refused
from ladder.devices.operands import GUARD
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
    found = []

    def allocate(size):
        if found and size > found[0].left:
            raise OutOfMemory
        found_at = len(addresses)
        addresses.append(size)
        return Buffer(found_at)

    addresses = []
    driver.MemoryError, driver.Error = OutOfMemory, OutOfMemory
    driver.mem_alloc, driver.mem_get_info = allocate, lambda: (0, 80 * GIB)
    driver.module_from_buffer = lambda binary: None
    monkeypatch.setitem(sys.modules, "pycuda.driver", driver)
    monkeypatch.delitem(sys.modules, "ladder.devices.cuda_operands", raising=False)
    found.append(import_module("ladder.devices.cuda_operands").Support(b"", None))
    found[0].left = 80 * GIB
    yield found[0]
    del sys.modules["ladder.devices.cuda_operands"]  # which has the made-up one


def test_where_the_next_launch_has_its_c_is_left_to_chance(support):
    """But for the first, which begins where the room of all of them does."""
    at = import_module("ladder.devices.cuda_operands").Operands(Problem(5, 6, 7), support, None)
    at.reserve(50, 0)
    steps = np.diff([at.of_launch(turn, 1)[2] for turn in range(50)])
    assert at.of_launch(0, 1)[2] == at.results + at.firsts[2]
    assert len(set(steps.tolist())) > 10
    assert (steps >= 4 * at.places[2].total).all()
    assert (steps % 256 == 0).all()


def test_a_b_and_c_begin_at_their_own_offsets(support):
    at = import_module("ladder.devices.cuda_operands").Operands(Problem(5, 6, 7, padding="1,4,2", offset="0,1,3"), support, None)
    at.reserve(3, 0)
    (a, b), launch = at.sets[0], at.of_launch(2, 1)
    assert launch == (a + 4 * GUARD, b + 4 * (GUARD + 1) + 2 * 4 * 10 * 4, at._result(2) + 4 * (GUARD + 3))


def test_what_is_too_large_for_the_device_is_not_supported(support):
    support.left = 10 * GIB
    with pytest.raises(Refused, match=r"no 73\.0 GiB left for an operand") as refused:
        support.allocate(73 * GIB, "an operand")
    assert refused.value.status == "not_supported"


def test_what_would_fit_but_for_another_process_is_the_machines_fault(support):
    support.left = 10 * GIB
    with pytest.raises(
        OSError, match=r"no 20\.0 GiB left for the workspace, and 80\.0 GiB in all: something else holds its memory"
    ):
        support.allocate(20 * GIB, "the workspace")


def test_what_this_process_holds_counts(support):
    held = support.allocate(60 * GIB, "an operand")
    support.left = 10 * GIB
    with pytest.raises(Refused):
        support.allocate(20 * GIB, "an operand")
    support.free(held)
    with pytest.raises(OSError, match="something else"):
        support.allocate(20 * GIB, "an operand")
