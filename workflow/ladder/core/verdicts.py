"""The verdict on two candidates timed side by side, from the interval of their ratio, and values
with their intervals as text.
"""

import math
from typing import Any

SAME = "not distinguishable"
"""The verdict if the interval of the ratio reaches to within `MARGIN` of 1."""
MARGIN = 1e-3
"""The relative difference that the whole interval must exceed. It is what the clock resolves in a
sample of 500 microseconds: half a microsecond (CUDA Runtime API, cudaEventElapsedTime). Nobody
chooses a kernel for less. `ladder repeat` says how often intervals alone call the same binary
different.
"""
UNCONFIRMED = "not confirmed"
"""The verdict if the confirmation was left out: medians of different rounds allow no verdict."""
AGAIN = "measure again"
"""The verdict if marks of the rows could have caused any other."""
BUSY = ("disturbed", "unsteady")
"""The marks of a row that a busy machine gives, and that can cause any difference and hide it:
docs/method.md defines them.
"""
UNSTEADY, UNKNOWN = 1.1, 1.25
"""The factors by which the reference's ratio to itself, and the ends of its interval, may differ
from 1. Beyond, no ratio is a result.
"""

FEW_PROBLEMS = 20
"""A verdict from fewer problems of the gauntlet says little."""

NOT_KNOWN, FACTOR = "not known", 2
"""An interval with an end beyond this factor of the value says nothing: Student's t of two
processes makes "0.0 to 122864".
"""


def known(value: float, low: float, high: float) -> bool:
    """Return whether the interval of a positive value says anything."""
    return value / FACTOR <= low <= high <= value * FACTOR


def plus_minus(value: float, low: float, high: float, percent: bool = False) -> str:
    """Return a positive value with half the width of its interval, `1.064 ± 0.002`, or in `percent`.

    The half-width is the larger distance to an end of the interval, rounded to one digit, and the
    value has the same number of decimals. Without an interval, or with one that is `NOT_KNOWN`, the
    value has four digits.
    """
    value, low, high = ((100 if percent else 1) * each for each in (value, low, high))
    half, unit = max(high - value, value - low), " %" if percent else ""
    if not half or not known(value, low, high):
        return f"{value:.4g}{unit}{f' (interval {NOT_KNOWN})' if half else ''}"
    decimals = max(0, -math.floor(math.log10(float(f"{half:.0e}"))))
    return f"{value:.{decimals}f} ± {half:.{decimals}f}{unit}"


def of(low: float, high: float) -> str:
    """Return the verdict for a speedup whose interval has these ends: faster, slower or `SAME`."""
    return "faster" if low > 1 + MARGIN else "slower" if high < 1 - MARGIN else SAME


def steady(ratio: float, low: float, high: float) -> bool:
    """Return whether the reference's ratio to itself, with its interval, is near enough to 1."""
    return 1 / UNSTEADY < ratio < UNSTEADY and 1 / UNKNOWN < low <= high < UNKNOWN


def marks(*cells: Any) -> list[str]:
    """Return the marks in cells of a column `marks`, each once; an empty cell may be NaN."""
    return list(
        dict.fromkeys(
            mark for cell in cells if isinstance(cell, str) for mark in cell.split("; ") if mark
        )
    )


def busy(*cells: Any) -> list[str]:
    """Return the marks of a busy machine, `BUSY`, in cells of a column `marks`."""
    return [mark for mark in marks(*cells) if mark in BUSY]


def disturbance(kind: str, others: float, of: str = "") -> str:
    """Return what other processes did on a device meanwhile, in words: how many computed on a GPU,
    or how many cores they used.
    """
    if not others:
        return ""
    if kind == "cuda":
        return f"timed while {others:.0f} other process(es) computed on the device"
    return f"timed while other processes used {others:.1f}{of} cores"
