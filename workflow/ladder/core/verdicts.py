"""What is said of two that were timed side by side, by the interval of their ratio."""

SAME = "not distinguishable"
"""The verdict on a pair whose interval comes as near to 1 as `MARGIN`."""
MARGIN = 1e-3
"""By how much something must surely be faster: what the clock can tell of a sample of 500 microseconds, half a microsecond (CUDA Runtime API,
cudaEventElapsedTime), and less than anybody chooses a kernel for. `ladder repeat` says how often intervals alone call the same binary
different."""
UNCONFIRMED = "not confirmed"
"""The verdict on a pair where the confirmation was left out: of medians of different rounds nothing can be said."""


def of(low: float, high: float) -> str:
    """Whether something is faster, by the ends of the interval of how many times as fast it is."""
    return "faster" if low > 1 + MARGIN else "slower" if high < 1 - MARGIN else SAME
