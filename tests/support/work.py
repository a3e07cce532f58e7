"""Count the work of a call: lines of the package that it executes, bytes that it reads and writes.
No clock and no other process changes these.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from ladder.core.places import HOME


class Work(NamedTuple):
    """What a call did."""

    lines: int
    """A loop within one line counts at each pass."""
    read: int
    written: int


def _bytes() -> tuple[int, int]:
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["rchar"]), int(counts["wchar"])


def of(call: Callable[[], object], package: Path = HOME / "workflow") -> Work:
    """Return the work of a call."""
    lines, folder = 0, str(package)

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return local

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        return local if frame.f_code.co_filename.startswith(folder) else None

    before, traced = _bytes(), sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(traced)
    read, written = (after - at for after, at in zip(_bytes(), before, strict=True))
    return Work(lines, read, written)


def excess(counts: Sequence[int]) -> float:
    """Return how much a count is above a straight line, relatively: the counts are of the sizes 1, 2
    and 5, and the first two make the line.
    """
    one, two, five = counts
    return five / (one + 4 * (two - one)) - 1 if five else 0.0
