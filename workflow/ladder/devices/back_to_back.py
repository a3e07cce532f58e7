"""Launches back to back: when they have settled, what one takes, and the power from a counter of
energy, which moves in steps.
"""

import math
import time
from collections.abc import Callable, Sequence
from statistics import median

WINDOW_SECONDS = 0.05
"""The launches of a window are timed together."""
LEAST_SECONDS, MOST_SECONDS = 0.4, 3.0
"""How long launches may take to settle: at least and at most. A board at its power limit lowers its
clock for some time, and the clock may oscillate for 3 s (NVIDIA, GEMM Performance Measurement
Methodology Guidelines).
"""
SETTLED, COMPARED = 0.002, 3
"""Launches have settled when three successive medians of `COMPARED` windows agree within this share
of the time. Two agree at the turns of an oscillation, too, and a single window may have a gap.
"""
GAP, GAPS = 0.02, 0.25
"""A window that takes longer than the median by this share has a gap, in which the device was idle
or did something else. At most this share of the windows may have one.
"""
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
    """Run windows until they agree. Return the microseconds of a call in the last ones, and whether
    they settled in time.

    `run` makes so many calls and returns the microseconds of one in the latest window that has
    ended. `us` is roughly what a call takes.
    """
    elapsed, windows = 0.0, [us]
    while elapsed < MOST_SECONDS:
        calls = calls_in(WINDOW_SECONDS, windows[-1])
        windows.append(run(calls))
        elapsed += calls * windows[-1] / 1e6
        size = min(COMPARED, len(windows) // 3)
        if elapsed >= LEAST_SECONDS and size:
            last = windows[-3 * size :]
            medians = [median(last[first : first + size]) for first in range(0, 3 * size, size)]
            if max(medians) - min(medians) <= SETTLED * medians[-1]:
                return medians[-1], True
    return windows[-1], False


def typical(windows: Sequence[float]) -> tuple[float, bool]:
    """Return the median of the microseconds of a call in each window, which a gap does not move, and
    whether too many of the windows have one.
    """
    middle = median(windows)
    return middle, sum(us > (1 + GAP) * middle for us in windows) > GAPS * len(windows)


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
