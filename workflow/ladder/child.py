"""The worker process in which kernels run, supervised: what hangs is killed, and what dies leaves a reason."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from ladder.units import Status

START_SECONDS = 120.0
"""Time a child has to open its device and make the operands of a problem."""
FROM_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
"""Signals by which a user, a batch system or a machine out of memory ends a process; a kernel's own faults have others."""


class Failure(Exception):
    """The child ended, was killed at its time limit, or refused a request; `alive` where it can go on, `killed` if from outside."""

    def __init__(self, status: Status, reason: str, alive: bool, killed: bool = False) -> None:
        super().__init__(reason)
        self.status, self.reason, self.alive, self.killed = status, reason, alive, killed


class Child:
    """The worker process. A request is a tuple; its answers are yielded until it is done.

    It holds the job's lock too: the device is not free before the last process that uses it is gone.
    """

    def __init__(self, kind: str, uuid: str, support: Path, lock: int) -> None:
        self.connection, theirs = Pipe()
        self.errors = tempfile.TemporaryFile()
        # Snakemake sets the threads of every library to those of the job; here the measurement decides
        inherited = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ladder.worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno(), lock],
            stderr=self.errors,
            env=inherited | ({"CUDA_VISIBLE_DEVICES": uuid} if kind == "cuda" else {}),
        )
        theirs.close()
        self.busy_us = 0.0
        self.loaded: set[int] = set()
        """Contestants of which it has the launch, on the operands that it has."""
        for _ in self.ask(("open", kind, uuid, str(support)), START_SECONDS):
            pass

    def ask(self, request: tuple[Any, ...], timeout: float) -> Iterator[tuple[Any, ...]]:
        """Send a request; yield its answers. Raises `Failure` when none comes for `timeout` seconds or the child ends."""
        try:
            self.connection.send(request)
            while True:
                if not self.connection.poll(timeout):
                    self.kill()
                    raise Failure("timeout", f"no answer within {timeout:g} s", alive=False)
                answer = self.connection.recv()
                if answer[0] == "done":
                    self.busy_us = answer[1]
                    return
                if answer[0] == "refused":
                    raise Failure(answer[1], answer[2], alive=not answer[3])
                yield answer
        except (EOFError, OSError):
            self.process.wait()
            killed = -self.process.returncode in FROM_OUTSIDE
            raise Failure("launch_error", self._epitaph(), alive=False, killed=killed) from None

    def _epitaph(self) -> str:
        code = self.process.returncode
        self.errors.seek(0)
        last = self.errors.read().decode(errors="replace").strip().splitlines()[-1:]
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return ": ".join([f"the child process {how}", *last])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Let the child end by itself; one that does not is killed."""
        with contextlib.suppress(OSError):
            self.connection.send(None)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.kill()
        self.connection.close()
        self.errors.close()
