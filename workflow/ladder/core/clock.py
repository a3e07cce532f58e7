"""The clock that the pipeline waits by and counts elapsed time with. Devices time samples
themselves, never with this clock.
"""

import contextlib
import signal
import time
from collections.abc import Iterator
from typing import Protocol


class Readable(Protocol):
    """An object that `wait` can wait for, such as a `multiprocessing.connection.Connection`."""

    def poll(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds; return whether there is something to read."""


class Clock:
    """The system's monotonic clock. Tests subclass it and install the subclass with `use`."""

    stops = 0
    """How often this process was stopped and continued, as far as it was told."""

    def now(self) -> float:
        """Return the seconds since an arbitrary moment."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep for `seconds`."""
        time.sleep(seconds)

    def wait(self, connection: Readable, seconds: float) -> bool:
        """Wait at most `seconds` for something to read; return whether there is something."""
        return connection.poll(seconds)


_clock = Clock()


def now() -> float:
    """Return the seconds since an arbitrary moment."""
    return _clock.now()


def sleep(seconds: float) -> None:
    """Sleep for `seconds`."""
    _clock.sleep(seconds)


def wait(connection: Readable, seconds: float) -> bool:
    """Wait at most `seconds` for something to read; return whether there is something."""
    return _clock.wait(connection, seconds)


def stops() -> int:
    """Return how often this process was stopped and continued. What was timed meanwhile is no
    measurement.
    """
    return _clock.stops


def count_stops() -> None:
    """Count from now on how often this process is stopped and continued, by the signal with which
    it continues.
    """

    def count(number: int, frame: object) -> None:
        _clock.stops += 1

    signal.signal(signal.SIGCONT, count)


def minutes(seconds: float) -> str:
    """Return a time as 0:07, 12:30 or 1:02:03."""
    hours, rest = divmod(round(seconds), 3600)
    text = f"{rest // 60}:{rest % 60:02}"
    return f"{hours}:{text:>05}" if hours else text


@contextlib.contextmanager
def use(clock: Clock) -> Iterator[None]:
    """Make this process use another clock inside the `with` block."""
    global _clock
    before, _clock = _clock, clock
    try:
        yield
    finally:
        _clock = before
