"""Which GPU is taken."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from ladder import lock
from ladder.environment import Device
from ladder.units import InputError


def test_the_first_gpu_is_one_that_may_be_used(monkeypatch):
    two = [Device(name, "cuda", name, "sm_90", 1, (f"{name}-1", f"{name}-2")) for name in ("a", "b")]
    monkeypatch.setattr(lock, "detect_gpus", lambda: two)
    shown = {"a": [], "b": ["b-2"]}
    monkeypatch.setattr(lock, "visible", shown.get)
    assert lock.first_gpu() == replace(two[1], uuids=("b-2",))
    shown["b"] = []
    with pytest.raises(InputError, match="CUDA_VISIBLE_DEVICES"):
        lock.first_gpu()


def test_without_a_driver_there_is_no_gpu(monkeypatch):
    monkeypatch.setattr(lock, "detect_gpus", list)
    monkeypatch.setitem(sys.modules, "ladder.devices.cuda", None)  # importing it fails
    with pytest.raises(InputError, match="no GPU is to be seen"):
        lock.first_gpu()


def test_a_process_that_ends_while_the_holders_are_looked_for_is_none_of_them(monkeypatch):
    """Between the listing of all processes and the look at what one has open."""
    with subprocess.Popen(["sleep", "60"]) as ended:

        def gone(look):
            def at(path):
                if str(path) == f"/proc/{ended.pid}/fd":
                    raise FileNotFoundError(path)
                return look(path)

            return at

        for look in ("scandir", "listdir"):
            monkeypatch.setattr(os, look, gone(getattr(os, look)))
        with lock.exclusive(["made-up"]):
            found = lock.holders("made-up")
        ended.kill()
    assert len(found) == 1
    assert found[0].startswith(f"process {os.getpid()}: ")
