"""The worker process in which kernels run, supervised: a hang is killed, a death gets a reason, and
nothing is left behind.
"""

import contextlib
import ctypes
import itertools
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from ladder.compiling import toolchain
from ladder.core import clock
from ladder.core.errors import InputError, plain
from ladder.core.types import Status
from ladder.devices import simulation
from ladder.measuring import protocol, worker_start
from ladder.measuring.protocol import Answer, Declined, Done, Opened, Request, Unusable, decode

START_SECONDS = 120.0
"""Time limit for a child to open its device, or to make the operands of a problem."""
FROM_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
"""Signals by which a user, a batch system or a machine out of memory ends a process. A kernel's own
faults raise others.
"""
LOOK_SECONDS = 0.5
"""Time between looks at a child without an answer: what a kernel left behind may hold the pipe open
when the child is gone.
"""
ANSWER_SECONDS = 10
"""Time limit for the rest of an answer that has begun."""
ANSWER_BYTES = 1 << 24
"""The most bytes of an answer."""
LAST_BYTES = 4096
"""Bytes read from the end of a child's output."""
MARK = "GEMM_LADDER_CHILD"
"""The variable in a child's environment that identifies the processes that a kernel starts
there.
"""
IDLE = {"OPENBLAS_THREAD_TIMEOUT": "20", "GOMP_SPINCOUNT": "50000"}
"""Threads then spin for a short while after a call, and the next timing waits until they rest:
OpenBLAS's for 2^20 cycles instead of 2^26, OpenMP's 50,000 times instead of 300,000. One that waits
longer inside a call has to be woken up.
"""
NO_FAULT = (
    "no kernel is at fault, and none is recorded as failed. What is measured is kept: run again "
    "once the device works"
)
_numbers = itertools.count()


def pipe() -> tuple[Connection, Connection]:
    """Return our end and the child's end of a pipe.

    Ours waits at most `ANSWER_SECONDS` for the rest of a message that has begun to come (socket(7),
    SO_RCVTIMEO).
    """
    parents_end, childs_end = Pipe()
    with socket.socket(fileno=os.dup(parents_end.fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", ANSWER_SECONDS, 0))
    return parents_end, childs_end


def oom_kills() -> int:
    """Return how many processes of the machine the system has killed for lack of memory; 0 if it
    does not count them (proc(5)).
    """
    counts = re.search(r"^oom_kill (\d+)$", Path("/proc/vmstat").read_text(), re.MULTILINE)
    return int(counts[1]) if counts else 0


@dataclass(eq=False)
class Failure(Exception):
    """The child ended, was killed at its time limit, or refused a request."""

    status: Status
    reason: str
    alive: bool
    """Whether it can go on."""
    killed: bool = False
    """Whether it was killed from outside."""
    starved: bool = False
    """Whether it was killed when the system ran out of memory."""

    def __post_init__(self) -> None:
        self.reason = plain(self.reason)
        super().__init__(self.reason)

    @property
    def outcome(self) -> dict[str, Any]:
        """Status and reason, as columns of the candidate that failed."""
        return {"status": self.status, "reason": self.reason}

    def during(self, what: str) -> "Failure":
        """Return the same failure with a reason that begins with what was being done."""
        return replace(self, reason=f"{what}: {self.reason}")


class Child:
    """The worker process. A request yields its answers until it is done.

    The child holds the job's lock too: the device is not free before the last process that uses it
    is gone. The child is its own session, so that a kernel's signals to its process group reach
    nobody else. This process adopts the processes that kernels start there, and ends them with the
    child.
    """

    oom_kills = 0
    """How many processes of the machine the system had killed for lack of memory when this one
    opened the device.
    """

    def __init__(self, kind: str, uuid: str, lock: int | None, library: str = "") -> None:
        """Start the process, which leaves the device alone until it has to `open` it."""
        self.busy_us = 0.0
        self.kind, self.uuid, self._lock, self.library = kind, uuid, lock, library
        self._start()

    def open(self, support: Path) -> None:
        """Open the device, with the file of the pipeline's own device code. Raises `InputError` if
        that fails in a second process too.
        """
        self.oom_kills = oom_kills()
        request = protocol.Open(self.kind, self.uuid, support, self.library)
        for last in (False, True):
            try:
                (answer,) = self.ask(request, START_SECONDS)
                assert isinstance(answer, Opened)
                self.attributes = answer.attributes
                """What the device, and the libraries in the child, are."""
                return
            except Failure as failure:
                self.close()
                if last:
                    raise InputError(
                        f"{self.uuid}: the device cannot be opened: {failure.reason}; {NO_FAULT}"
                    ) from None
            except InputError:
                self.close()
                raise
            self._start()

    def _start(self) -> None:
        self.connection, childs_end = pipe()
        self.errors = tempfile.TemporaryFile()
        self.mark = f"{os.getpid()}-{next(_numbers)}"
        descriptors = [childs_end.fileno()]
        settings = {"CUDA_VISIBLE_DEVICES": self.uuid} if self.kind == "cuda" else IDLE
        words = str(childs_end.fileno()), self.kind, self.library
        # prctl(2), PR_SET_CHILD_SUBREAPER: orphans below this process become its children
        ctypes.CDLL(None).prctl(36, 1)
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-m", worker_start.__name__, *words],
                pass_fds=descriptors if self._lock is None else [*descriptors, self._lock],
                stdin=subprocess.DEVNULL,
                stdout=self.errors,
                stderr=self.errors,
                env=toolchain.environment() | simulation.variables() | settings | {MARK: self.mark},
                start_new_session=True,
            )
        except OSError as error:
            raise InputError(
                f"{sys.executable}: no process can be started: {error.strerror}; {NO_FAULT}"
            ) from None
        childs_end.close()

    def ask(self, request: Request, timeout: float) -> Iterator[Answer]:
        """Send a request; yield its answers, but not the last.

        Raises `Failure` if no answer comes for `timeout` seconds, the child ends, or it sends
        something that is no answer. Raises
        `InputError` if the child answers that the machine keeps it from its work.
        """
        try:
            self.connection.send(request)
            while not isinstance(answer := self._answer(timeout), Done):
                if isinstance(answer, Declined):
                    raise Failure(answer.status, answer.reason, alive=not answer.fatal)
                if isinstance(answer, Unusable):
                    raise InputError(f"{answer.reason}; {NO_FAULT}")
                yield answer
            self.busy_us = float(answer.busy_us)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self.process.wait()
            killed = -self.process.returncode in FROM_OUTSIDE
            starved = self.process.returncode == -signal.SIGKILL and oom_kills() > self.oom_kills
            raise Failure(
                "launch_error", self._epitaph(), alive=False, killed=killed, starved=starved
            ) from None

    def _answer(self, timeout: float) -> Answer:
        waited, looked = 0.0, clock.now()
        while not clock.wait(self.connection, max(0.0, min(LOOK_SECONDS, timeout - waited))):
            if self.process.poll() is not None and not self.connection.poll():
                raise EOFError
            # a look that took longer: this process or the whole machine stood still, and the child
            # perhaps too
            waited, looked = waited + min(clock.now() - looked, LOOK_SECONDS), clock.now()
            if waited >= timeout - 1e-9:
                raise self._kill_because("timeout", f"no answer within {timeout:g} s")
        try:
            return decode(self.connection.recv_bytes(ANSWER_BYTES))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise
        except (OSError, ValueError):
            pass
        raise self._kill_because(
            "launch_error", "something wrote to the pipe of the child process, and it is no answer"
        )

    def _kill_because(self, status: Status, reason: str) -> Failure:
        """Kill the child, and return why. A child that somebody had stopped by a signal is taken
        for killed from outside.
        """
        stopped = False
        with contextlib.suppress(psutil.Error):
            stopped = psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED
        self.kill()
        if stopped:
            reason += ": it had been stopped by a signal"
        return Failure(status, reason, alive=False, killed=stopped)

    def _epitaph(self) -> str:
        code = self.process.returncode
        self.errors.seek(max(0, self.errors.seek(0, os.SEEK_END) - LAST_BYTES))
        lines = self.errors.read().decode(errors="replace").splitlines()
        last = [line.strip() for line in lines if any(map(str.isalpha, line))][-1:]
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return ": ".join([f"the child process {how}", *last])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Let the child end by itself, kill it if it does not, and end the processes that kernels
        left running there.
        """
        with contextlib.suppress(OSError):
            self.connection.send(None)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.kill()
        self._end_left_behind()
        self.connection.close()
        self.errors.close()

    def _end_left_behind(self) -> None:
        left = []
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARK) == self.mark:
                    process.kill()
                    left.append(process)
        if left:
            pids = ", ".join(str(process.pid) for process in left)
            print(
                f"Warning: a kernel left processes running ({pids}); they were killed",
                file=sys.stderr,
                flush=True,
            )
            psutil.wait_procs(left, timeout=5)
