"""The progress of a measure job."""

import sys
from collections.abc import Mapping

from tqdm import tqdm

from ladder.core import clock

LINE_SECONDS = 10.0
"""Time between lines of progress if there is no terminal."""


class Progress:
    """A bar on a terminal, else a line now and then. The time left comes from expected costs, not
    from counts.
    """

    def __init__(self, title: str, costs: Mapping[str, float]) -> None:
        self.title, self.costs = title, dict(costs)
        self.total, self.left, self.start, self.last_printed = (
            len(costs),
            sum(costs.values()),
            clock.now(),
            clock.now(),
        )
        self.all = self.left
        terminal = sys.__stderr__
        self.bar = tqdm(
            total=self.total,
            desc=title,
            file=terminal,
            disable=terminal is None or not terminal.isatty(),
            bar_format="{l_bar}{bar}| {n}/{total} {postfix}",
        )

    def done(self, key: str, what: str) -> None:
        """Count a measurement as done."""
        self.left -= self.costs.pop(key, 0.0)
        elapsed, spent = clock.now() - self.start, self.all - self.left
        remaining = f"{elapsed / spent * self.left:.0f} s left" if spent > 0 else ""
        self.bar.update()
        self.bar.set_postfix_str(f"{what}, {remaining}")
        if self.bar.disable and clock.now() - self.last_printed > LINE_SECONDS:
            self.last_printed = clock.now()
            print(
                f"{self.title}: {self.total - len(self.costs)}/{self.total} measured, now {what}, "
                f"{remaining}",
                file=sys.stderr,
                flush=True,
            )
