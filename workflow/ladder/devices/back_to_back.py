"""Launches back to back: when they have settled, and the power from a counter of energy, which
moves in steps.
"""

import math
import time
from collections.abc import Callable

WINDOW_SECONDS = 0.05
"""The launches of a window are timed together."""
LEAST_SECONDS, MOST_SECONDS = 0.4, 2.0
"""How long launches may take to settle: at least and at most. A board at its power limit lowers its
clock for some time.
"""
SETTLED = 0.002
"""Launches have settled when two successive windows agree within this share of the time."""
MEASURED_SECONDS = 0.5
"""How long the launches that count take: the board's energy counter moves some ten times a
second.
"""

LOOK_SECONDS, LOOK_SHARE = 0.002, 0.25
"""The least time between two looks, and the most of the time that looks may take while the host has
launches to make. During a look it makes none, and the device may run dry. A look takes about a
millisecond, on some machines several.
"""
KNOWN_SECONDS = 0.02
"""A step between two looks that are further apart than this is ignored: nobody knows when it
was.
"""


def calls_in(seconds: float, us: float) -> int:
    """Return how many calls of `us` microseconds take at least some seconds."""
    return max(1, math.ceil(seconds * 1e6 / us))


def settle(run: Callable[[int], float], us: float) -> tuple[float, bool]:
    """Run windows until two successive ones agree. Return the last one's microseconds a call, and
    whether they settled in time.

    `run` makes so many calls and returns the microseconds of one in the latest window that has
    ended. `us` is roughly what a call takes.
    """
    elapsed = 0.0
    while elapsed < MOST_SECONDS:
        calls, before = calls_in(WINDOW_SECONDS, us), us
        us = run(calls)
        elapsed += calls * us / 1e6
        if elapsed >= LEAST_SECONDS and abs(us - before) <= SETTLED * us:
            return us, True
    return us, False


class Meter:
    """Watches a counter of millijoules that is updated some ten times a second.

    The time between two steps is known well; the time since the last one is not. `read` returns
    None if the counter cannot be read. Nobody looks before `clock` reaches `since`, and nothing
    before it counts. By then the host has launched so much that the device does not run dry
    meanwhile.
    """

    def __init__(
        self,
        read: Callable[[], int | None],
        since: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._since, self._clock = read, since, clock
        self._last, self._looked, self._again = read(), clock(), since
        self._steps: list[tuple[float, int]] = []

    def look(self, launching: bool) -> None:
        """See whether the counter has moved; call it often. A step is taken to lie halfway between
        two looks.

        `launching` says whether the host still has launches to make.
        """
        now = self._clock()
        if now < self._again:
            return
        value, before = self._read(), self._looked
        self._looked, done = now, self._clock()
        self._again = done + max(
            LOOK_SECONDS, (done - now) * (1 / LOOK_SHARE - 1) if launching else 0.0
        )
        if value is not None and value != self._last:
            self._last = value
            if before >= self._since and now - before <= KNOWN_SECONDS:
                self._steps.append(((before + now) / 2, value))

    def watts(self) -> float | None:
        """Return the mean power in watts between the first step and the last; None if there are not
        two.
        """
        if len(self._steps) < 2:
            return None
        (first_at, first), (last_at, last) = self._steps[0], self._steps[-1]
        return (last - first) / 1e3 / (last_at - first_at)
