"""The progress of a job that measures: lines in its log, from which `pipeline.stages` says on the
terminal what is left.
"""

import sys
from collections.abc import Mapping

from ladder.core import clock

LINE_SECONDS = 5.0
"""Time between two lines."""


class Progress:
    """Counts measurements. The time left comes from expected costs, not from counts."""

    def __init__(self, costs: Mapping[str, float]) -> None:
        self.costs, self.total = dict(costs), len(costs)
        self.all = self.left = sum(costs.values())
        self.start = self.last_printed = clock.now()

    def done(self, key: str, what: str) -> None:
        """Count a measurement as done."""
        self.left -= self.costs.pop(key, 0.0)
        now, spent = clock.now(), self.all - self.left
        if self.costs and now - self.last_printed < LINE_SECONDS:
            return
        self.last_printed = now
        text = f"{self.total - len(self.costs)} of {self.total} measured"
        if spent > 0:
            text += f", about {(now - self.start) * self.left / spent:.0f} s left"
        print(f"{text}: {what}", file=sys.stderr, flush=True)
