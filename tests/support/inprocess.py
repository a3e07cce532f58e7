"""The worker in the test's own process, on a virtual clock: all of `ladder.measuring.supervisor`
and `ladder.measuring.worker` but the process and the pipe.
"""

import json
import os
import signal
import subprocess
import tempfile
import traceback
from collections import deque
from pathlib import Path
from typing import Any, ClassVar

import simulated
from ladder.core import clock
from ladder.devices.simulation import VARIABLE
from ladder.measuring.supervisor import Child
from ladder.measuring.worker import Worker


class _Process:
    """In place of `subprocess.Popen`."""

    pid = os.getpid()

    def __init__(self) -> None:
        self.returncode: int | None = None
        self.hangs = False
        """Whether it is in a launch that never ends."""

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None and self.hangs and timeout is not None:
            clock.sleep(timeout)
            raise subprocess.TimeoutExpired("worker", timeout)
        assert self.returncode is not None, "waits for a process that does not end"
        return self.returncode

    def kill(self) -> None:
        if self.returncode is None:
            self.returncode = -signal.SIGKILL


class _Idle(BaseException):
    """The worker has answered, and waits for the next request."""


class _Pipe:
    """Both ends of the pipe: what is sent to the worker is done at once, and its answers are kept
    until they are asked for.
    """

    def __init__(self, process: _Process, errors: Any) -> None:
        self.process, self.errors = process, errors
        self.requests: deque[Any] = deque()
        self.answers: deque[bytes] = deque()
        self.worker = Worker()

    # the job's end

    def send(self, request: Any) -> None:
        if self.process.returncode is not None:
            raise BrokenPipeError
        self.requests.append(request)
        if self.process.hangs:
            return
        try:
            self.worker.serve(self)  # type: ignore[arg-type]
            self.process.returncode = 0
        except _Idle:
            pass
        except simulated.Hang:
            self.process.hangs = True
        except simulated.Died as death:
            self.process.returncode = -death.number
        except Exception:
            self.errors.write(traceback.format_exc().encode())
            self.errors.flush()
            self.process.returncode = 1

    def poll(self, timeout: float = 0.0) -> bool:
        return bool(self.answers)

    def recv_bytes(self, most: int) -> bytes:
        return self.answers.popleft()

    # the worker's end

    def recv(self) -> Any:
        if not self.requests:
            raise _Idle
        return self.requests.popleft()

    def send_bytes(self, answer: bytes) -> None:
        self.answers.append(answer)

    def close(self) -> None:
        pass


class InProcess(Child):
    """A child without a process; put it in place of `ladder.measuring.session.Child`, with a
    `VirtualClock` in use.
    """

    made: ClassVar[list["InProcess"]] = []

    def _start(self) -> None:
        self.made.append(self)
        self.mark, self.errors, process = "in process", tempfile.TemporaryFile(), _Process()
        self.process: Any = process
        self.connection: Any = _Pipe(process, self.errors)

    def _end_left_behind(self) -> None:
        pass


def use_simulated_gpus(monkeypatch: Any, folder: Path, **changes: Any) -> Path:
    """Simulate GPUs in this process and the processes that it starts; returns the file that says
    what they are like.
    """
    gpu = {
        "name": "Simulated",
        "uuids": ["GPU-1"],
        "driver": "1.0",
        "compiler": "nvcc 1.0",
        "others": [0],
    } | changes
    path = folder / "gpus.json"
    path.write_text(json.dumps(gpu))
    monkeypatch.setenv(VARIABLE, simulated.__file__)
    monkeypatch.setenv(simulated.VARIABLE, str(path))
    return path
