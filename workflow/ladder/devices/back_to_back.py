"""Launches back to back until they have settled, and for as long as their energy takes to measure."""

import math
from collections.abc import Callable

WINDOW_SECONDS = 0.05
"""The launches of a window are timed together."""
LEAST_SECONDS, MOST_SECONDS = 0.4, 2.0
"""How long launches take to settle: at least and at most. An H100 at its power limit lowers its clock for about 0.4 s."""
SETTLED = 0.002
"""Launches have settled when two successive windows agree within this share of the time."""
MEASURED_SECONDS = 0.4
"""How long the launches that count take: the board's energy counter moves some ten times a second."""


def calls_in(seconds: float, us: float) -> int:
    """Return how many calls of `us` microseconds take at least some seconds."""
    return max(1, math.ceil(seconds * 1e6 / us))


def settle(run: Callable[[int], float], us: float) -> tuple[float, bool]:
    """Run windows until two successive ones agree. Return the last one's microseconds a call, and whether they settled in time.

    `run` makes so many calls and returns the microseconds of one in the latest window that has ended. `us` is roughly what a call takes.
    """
    elapsed = 0.0
    while elapsed < MOST_SECONDS:
        calls, before = calls_in(WINDOW_SECONDS, us), us
        us = run(calls)
        elapsed += calls * us / 1e6
        if elapsed >= LEAST_SECONDS and abs(us - before) <= SETTLED * us:
            return us, True
    return us, False
