"""What is said of two that were timed side by side, by the interval of their ratio."""

SAME = "not distinguishable"
"""The verdict on a pair whose interval comes as near to 1 as the clock can tell."""
RESOLUTION = 1e-3
"""What the clock can tell: half a microsecond (CUDA Runtime API, cudaEventElapsedTime) of a sample of 500."""
UNCONFIRMED = "not confirmed"
"""The verdict on a pair where the confirmation was left out: of medians of different rounds nothing can be said."""


def of(low: float, high: float) -> str:
    """Whether something is faster, by the ends of the interval of how many times as fast it is."""
    return "faster" if low > 1 + RESOLUTION else "slower" if high < 1 - RESOLUTION else SAME
