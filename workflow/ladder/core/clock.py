"""The clock by which the pipeline waits and counts elapsed time. Samples are timed by their device, never by this clock."""

import contextlib
import time
from collections.abc import Iterator
from typing import Protocol


class Readable(Protocol):
    """What can be waited for: a `multiprocessing.connection.Connection`."""

    def poll(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds; returns whether there is something to read."""


class Clock:
    """The system's monotonic clock. Tests subclass it (`use`)."""

    def now(self) -> float:
        """Seconds since an arbitrary moment."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let that time pass."""
        time.sleep(seconds)

    def wait(self, connection: Readable, seconds: float) -> bool:
        """Wait until there is something to read, `seconds` at most; returns whether there is."""
        return connection.poll(seconds)


_clock = Clock()


def now() -> float:
    """Seconds since an arbitrary moment."""
    return _clock.now()


def sleep(seconds: float) -> None:
    """Let that time pass."""
    _clock.sleep(seconds)


def wait(connection: Readable, seconds: float) -> bool:
    """Wait until there is something to read, `seconds` at most; returns whether there is."""
    return _clock.wait(connection, seconds)


@contextlib.contextmanager
def use(clock: Clock) -> Iterator[None]:
    """Let this process go by another clock."""
    global _clock
    before, _clock = _clock, clock
    try:
        yield
    finally:
        _clock = before
