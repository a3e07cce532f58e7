"""The verdict on two candidates timed side by side, from the interval of their ratio."""

SAME = "not distinguishable"
"""The verdict if the interval of the ratio reaches to within `MARGIN` of 1."""
MARGIN = 1e-3
"""The relative difference that the whole interval must exceed. It is what the clock resolves in a sample of 500 microseconds: half a
microsecond (CUDA Runtime API, cudaEventElapsedTime). Nobody chooses a kernel for less. `ladder repeat` says how often intervals alone call
the same binary different."""
UNCONFIRMED = "not confirmed"
"""The verdict if the confirmation was left out: medians of different rounds allow no verdict."""


def of(low: float, high: float) -> str:
    """Return the verdict for a speedup whose interval has these ends: faster, slower or `SAME`."""
    return "faster" if low > 1 + MARGIN else "slower" if high < 1 - MARGIN else SAME
