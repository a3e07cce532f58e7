"""The power that a counter of energy tells, which moves in steps."""

import time
from collections.abc import Callable

LOOK_SECONDS, LOOK_SHARE = 0.002, 0.25
"""Between two looks, and the most of the time that they may take while the host has launches to make, for in a look it makes none, and the
device may run dry. One takes about a millisecond, on some machines several."""
KNOWN_SECONDS = 0.02
"""A step between two looks that are further apart than this is passed over: when it was is not known."""


class Meter:
    """Watches a counter of millijoules that is brought up to date some ten times a second: the time between two such steps is known well,
    that since the last of them is not.

    `read` is None where the counter cannot be read. What passes before `since`, of `clock`, does not count, and nobody looks: by then
    the host has launched so much that the device does not run dry meanwhile.
    """

    def __init__(self, read: Callable[[], int | None], since: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._read, self._since, self._clock = read, since, clock
        self._last, self._looked, self._again = read(), clock(), since
        self._steps: list[tuple[float, int]] = []

    def look(self, launching: bool) -> None:
        """See whether the counter has moved; to be called often. A step is taken to lie halfway between two looks.

        `launching`: whether the host has launches to make still.
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
        """The mean power between the first step and the last; None where there are no two."""
        if len(self._steps) < 2:
            return None
        (first_at, first), (last_at, last) = self._steps[0], self._steps[-1]
        return (last - first) / 1e3 / (last_at - first_at)
