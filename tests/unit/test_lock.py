"""Which GPU is taken, and that a device has one timer at a time."""

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import answer
import faults
import pytest
from ladder.core.errors import InputError
from ladder.devices import lock
from ladder.devices.detect import DetectedDevice
from ladder.devices.lock import WAIT_SECONDS, exclusive
from ladder.measuring.supervisor import Child


def test_the_first_gpu_is_one_that_may_be_used(monkeypatch):
    two = [
        DetectedDevice(name, "cuda", name, "sm_90", 1, (f"{name}-1", f"{name}-2"))
        for name in ("a", "b")
    ]
    monkeypatch.setattr(answer, "detect_gpus", lambda: two)
    shown = {"a": [], "b": ["b-2"]}
    monkeypatch.setattr(answer, "visible", shown.get)
    assert answer.first_gpu() == replace(two[1], uuids=("b-2",))
    shown["b"] = []
    with pytest.raises(InputError, match=r"No GPU found.* `nvidia-smi` and CUDA_VISIBLE_DEVICES"):
        answer.first_gpu()


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
            holders = lock.holders("made-up")
        ended.kill()
    assert len(holders) == 1
    assert holders[0].startswith(f"process {os.getpid()}: ")


def hold(uuid: str, ready: Connection, user: int) -> None:
    os.setuid(user)
    with exclusive([uuid]) as (held, _):
        ready.send(held)
        signal.pause()


@pytest.fixture
def holder() -> Iterator[BaseProcess]:
    """A process, another user's where we may become one, that holds the device GPU-held."""
    fork = get_context("fork")
    ours, other_end = fork.Pipe()
    process = fork.Process(target=hold, args=("GPU-held", other_end, os.getuid() or 65534))
    process.start()
    assert ours.recv() == "GPU-held"
    yield process
    process.kill()
    process.join()


def test_a_device_has_one_timer_whoever_asks(holder, capfd, virtual_clock):
    with exclusive(["GPU-held", "GPU-free"]) as (uuid, _):
        assert uuid == "GPU-free"  # a second GPU of the model is taken at once
    with (
        pytest.raises(BlockingIOError, match="GPU-held: in use by another run"),
        exclusive(["GPU-held"], wait=False),
    ):
        pass
    assert virtual_clock.slept == []

    def end():
        holder.kill()  # no lock outlives its holder
        holder.join()

    virtual_clock.after(3.1 * WAIT_SECONDS, end)
    with exclusive(["GPU-held"]) as (uuid, _):
        assert uuid == "GPU-held"
    assert virtual_clock.slept == [WAIT_SECONDS] * 4
    output = capfd.readouterr().err
    assert output.count(f"GPU-held: {faults.MACHINE['held'].reason} (process {holder.pid}: ") == 1


def test_the_lock_is_held_until_the_worker_that_uses_the_device_is_gone():
    """However its job ended: here as by SIGKILL, which leaves the worker behind."""
    with exclusive(["GPU-shared"]) as (_, lock):
        child = Child("cpu", "", lock)
    with pytest.raises(BlockingIOError), exclusive(["GPU-shared"], wait=False):
        pass
    child.kill()
    child.connection.close()
    with exclusive(["GPU-shared"], wait=False):
        pass
