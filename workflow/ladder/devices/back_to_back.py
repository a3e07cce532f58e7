"""Launches back to back: when they have settled, what one takes, and the power from a counter of
energy, which moves in steps.
"""

import math
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean, median

WINDOW_SECONDS = 0.05
"""The launches of a window are timed together."""
FIRST_SECONDS, NEXT_SECONDS = 0.8, 0.4
"""How long launches go on before any can count: the first ones of a process, for which the board
has to get hot, and those that follow others on a hot board, whose clock alone has to change.
"""
MEASURED_SECONDS, MORE_SECONDS, MOST_SECONDS = 0.5, 0.25, 1.25
"""How long the launches take that count, at least: the board's energy counter moves some ten times
a second. As long as they have not settled, more follow, until all since the first that could count
have taken the most. Clocks oscillate for up to 3 s (NVIDIA, GEMM Performance Measurement
Methodology Guidelines): the mean over a longer time is worth more than waiting for its end.
"""
STEP, QUIET, CHANCE = 0.01, 0.002, 4.0
"""Launches have settled when the means of three successive thirds of the windows agree within these
shares of the time.

A board that its power holds at 1,400 MHz steps between clocks 15 MHz apart: they agree within
`STEP`, about one step. Where windows in a row are more alike than that, at the turn of an
oscillation, they agree within `CHANCE` standard errors: three means differ by more in one case of
twenty (the studentized range for three groups of three or four). `QUIET` is always enough.
"""
GAP, GAPS = 0.02, 0.25
"""A window that takes longer than the median by this share has a gap, in which the device was idle
or did something else. At most this share of the windows may have one.
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


def settle(
    run: Callable[[int], float],
    us: float,
    wait: float,
    begin: Callable[[], object],
    known: Callable[[], bool] = lambda: True,
) -> bool:
    """Run windows until those since the last `begin` have settled and all about them is `known`, or
    `MOST_SECONDS` are over; return whether they have settled.

    `run` makes so many calls and returns the microseconds of one in the latest window that has
    ended. `us` is roughly what a call takes. Windows count after `wait` seconds. If they have not
    settled by themselves, the clock was still on its way: then others count, and however many
    follow.
    """
    windows, elapsed = [us], 0.0

    def run_for(seconds: float) -> None:
        nonlocal elapsed
        calls, end = calls_in(WINDOW_SECONDS, windows[-1]), elapsed + seconds
        while elapsed < end:
            windows.append(run(calls))
            elapsed += calls * windows[-1] / 1e6

    def start() -> None:
        windows[:-1] = []
        begin()
        run_for(MEASURED_SECONDS)

    run_for(wait)
    elapsed = 0.0
    start()
    if not steady(windows[1:]):
        start()
    while not (steady(windows[1:]) and known()) and elapsed < MOST_SECONDS:
        run_for(MORE_SECONDS)
    return steady(windows[1:])


def steady(windows: Sequence[float]) -> bool:
    """Return whether windows, given by the microseconds of a call, have settled. Those with a gap do
    not count; of one or two that is not known.
    """
    middle = median(windows)
    shares = [us / middle for us in windows if us <= (1 + GAP) * middle]
    size = len(shares) // 3
    if not size:
        return True
    thirds = [fmean(shares[first : first + size]) for first in range(0, 3 * size, size)]
    variance = fmean((later - share) ** 2 for share, later in pairwise(shares)) / 2
    by_chance = CHANCE * math.sqrt(variance / size)
    return max(thirds) - min(thirds) <= min(STEP, max(QUIET, by_chance))


def typical(windows: Sequence[float]) -> tuple[float, bool]:
    """Return the mean microseconds of a call in the middle half of the windows, which a gap does not
    move, and whether too many of the windows have one.
    """
    number, middle = len(windows), median(windows)
    half = sorted(windows)[number // 4 : number - number // 4]
    return fmean(half), sum(us > (1 + GAP) * middle for us in windows) > GAPS * number


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
