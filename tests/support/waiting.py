"""The one place where tests wait for what real processes do."""

import time
from collections.abc import Callable

LIMIT = 900.0
"""Seconds after which something hangs: a safety limit and no expectation, however busy the machine
is.
"""


def wait_until(there: Callable[[], object], what: str, seconds: float = 0.02) -> None:
    """Return once something is there, looking every so many seconds. Raises `TimeoutError` only if
    it hangs.
    """
    end = time.monotonic() + LIMIT
    while not there():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {LIMIT:g} s for {what}")
        time.sleep(seconds)
