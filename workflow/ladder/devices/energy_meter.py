"""Power from a counter of energy, which moves in steps."""

import time
from collections.abc import Callable

LOOK_SECONDS, LOOK_SHARE = 0.002, 0.25
"""The least time between two looks, and the most of the time that looks may take while the host has launches to make. During a look it
makes none, and the device may run dry. A look takes about a millisecond, on some machines several."""
KNOWN_SECONDS = 0.02
"""A step between two looks that are further apart than this is ignored: nobody knows when it was."""


class Meter:
    """Watches a counter of millijoules that is updated some ten times a second.

    The time between two steps is known well; the time since the last one is not. `read` returns None if the counter cannot be read. Nobody
    looks before `clock` reaches `since`, and nothing before it counts. By then the host has launched so much that the device does not run dry
    meanwhile.
    """

    def __init__(self, read: Callable[[], int | None], since: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._read, self._since, self._clock = read, since, clock
        self._last, self._looked, self._again = read(), clock(), since
        self._steps: list[tuple[float, int]] = []

    def look(self, launching: bool) -> None:
        """See whether the counter has moved; call it often. A step is taken to lie halfway between two looks.

        `launching` says whether the host still has launches to make.
        """
        now = self._clock()
        if now < self._again:
            return
        value, before = self._read(), self._looked
        self._looked, done = now, self._clock()
        self._again = done + max(LOOK_SECONDS, (done - now) * (1 / LOOK_SHARE - 1) if launching else 0.0)
        if value is not None and value != self._last:
            self._last = value
            if before >= self._since and now - before <= KNOWN_SECONDS:
                self._steps.append(((before + now) / 2, value))

    def watts(self) -> float | None:
        """Return the mean power in watts between the first step and the last; None if there are not two."""
        if len(self._steps) < 2:
            return None
        (first_at, first), (last_at, last) = self._steps[0], self._steps[-1]
        return (last - first) / 1e3 / (last_at - first_at)
