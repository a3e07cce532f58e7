"""A clock that a test turns: time passes when somebody waits, and costs none."""

import heapq
import itertools
from collections.abc import Callable

from ladder.core.clock import Clock, Readable

FOREVER = 1e6
"""Seconds after which a wait is taken for one without an end."""


class VirtualClock(Clock):
    """Starts at 1000 s. `after` schedules what happens while others wait; `slept` has the length of
    every sleep.
    """

    def __init__(self) -> None:
        self.time, self.end = 1000.0, 1000.0 + FOREVER
        self.slept: list[float] = []
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()

    def now(self) -> float:
        return self.time

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        """Have something happen once that much more time has passed."""
        heapq.heappush(self._events, (self.time + seconds, next(self._numbers), action))

    def stand_still(self, seconds: float) -> None:
        """Let time pass in which this process does nothing."""
        self.time += seconds

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._pass(self.time + seconds, lambda: False)

    def wait(self, connection: Readable, seconds: float) -> bool:
        return self._pass(self.time + seconds, lambda: connection.poll(0))

    def _pass(self, end: float, done: Callable[[], bool]) -> bool:
        """Let time pass, with all that happens meanwhile, until it is `end` or `done`; returns
        whether it is done.
        """
        while not done():
            if not self._events or self._events[0][0] > end:
                self.time = max(self.time, end)
                assert self.time < self.end, "waits without an end"
                return done()
            at, _, action = heapq.heappop(self._events)
            # an action may let time pass, too: then this process stood still
            self.time = max(self.time, at)
            action()
        return True
