"""A lock that gives a device to one job at a time, among all processes of all users of a
machine.
"""

import contextlib
import errno
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ladder.core import clock
from ladder.core.errors import InputError, plain
from ladder.devices.detect import DetectedDevice
from ladder.devices.simulation import simulated

COMMAND = 120
"""The most characters of another process's command that are shown."""
WAIT_SECONDS = 0.5
"""Time between attempts to take a device that another run holds."""


def visible(slug: str) -> list[str]:
    """Return the UUIDs of the GPUs of a model that this process may use."""
    if gpus := simulated():
        return list(gpus.visible(slug))
    from ladder.devices import cuda  # cannot be imported without a driver

    return cuda.visible(slug)


def uuids(device: DetectedDevice) -> list[str]:
    """Return what can be locked: the GPUs of a model that this process may use, or the CPU's slug.
    Raises `InputError` for none.
    """
    if device.kind == "cpu":
        return [device.slug]
    # CUDA takes long to ask, and only that variable hides what NVML shows
    hides = "CUDA_VISIBLE_DEVICES" in os.environ or not device.uuids
    gpus = visible(device.slug) if hides else list(device.uuids)
    if not gpus:
        raise InputError(
            f"device {device.slug}: CUDA_VISIBLE_DEVICES hides it; expected at least one to be "
            "visible"
        )
    # versions of a library are compared on one GPU
    return gpus[:1] if device.library else gpus


def _name(uuid: str) -> str:
    """Return the name of a device's lock. Tests set `LADDER_LOCK`, so that no two of them wait for
    each other.
    """
    return f"{os.environ.get('LADDER_LOCK', 'gemm-ladder')} {uuid}"


def holders(uuid: str) -> list[str]:
    """Return pid and command of the processes that hold a device, as far as this user may see them
    (proc(5), /proc/net/unix).
    """
    table = Path("/proc/net/unix").read_text().splitlines()
    sockets = {f"socket:[{line.split()[6]}]" for line in table if line.endswith(f"@{_name(uuid)}")}
    processes = []
    for process in Path("/proc").glob("[0-9]*"):
        if not sockets.isdisjoint(_open(process)):
            with contextlib.suppress(OSError):
                command = (
                    (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
                processes.append(f"process {process.name}: {plain(command.strip(), COMMAND)}")
    return processes


def _open(process: Path) -> Iterator[str]:
    """Yield what a process has open, as far as it still runs and this user may see it."""
    with contextlib.suppress(OSError):
        for descriptor in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                yield str(descriptor.readlink())


@contextlib.contextmanager
def exclusive(candidates: Sequence[str], wait: bool = True) -> Iterator[tuple[str, int]]:
    """Hold one of several devices for timing, with a lock that every process of every user on this
    machine sees.

    If all are held it waits, or raises `BlockingIOError` if `wait` is false. Yields the device's
    UUID and the lock's file descriptor. The lock is a name in the abstract namespace of Unix
    sockets (unix(7)). So there is no file whose folder, owner or permissions could be wrong, and
    the lock is gone with the last process that holds it.
    """
    waiting = False
    while True:
        for uuid in candidates:
            with socket.socket(socket.AF_UNIX) as lock:
                try:
                    lock.bind(f"\0{_name(uuid)}")
                except OSError as error:
                    if error.errno != errno.EADDRINUSE:
                        raise
                    continue
                yield uuid, lock.fileno()
                return
        if not wait:
            raise BlockingIOError(f"{', '.join(candidates)}: in use by another run")
        if not waiting:
            who = (
                "; ".join(holder for uuid in candidates for holder in holders(uuid))
                or "not visible to this user"
            )
            print(
                f"Waiting: {', '.join(candidates)}: in use by another run ({who})",
                file=sys.stderr,
                flush=True,
            )
        waiting = True
        clock.sleep(WAIT_SECONDS)
