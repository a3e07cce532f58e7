"""A place where launches of different jobs wait for each other, so that a test forces the jobs to overlap in time."""

import os
import time
from pathlib import Path

VARIABLE = "RENDEZVOUS"
"""Names a folder in which every job leaves a file."""
SAFETY_SECONDS = 300.0
"""The others never come if a launch waits for longer."""


def meet(count: int) -> None:
    """Wait until launches on `count` simulated GPUs, this one among them, have begun."""
    folder = Path(os.environ[VARIABLE])
    (folder / os.environ.get("CUDA_VISIBLE_DEVICES", "any")).touch()
    end = time.monotonic() + SAFETY_SECONDS
    while len(list(folder.iterdir())) < count:
        if time.monotonic() > end:
            raise TimeoutError(f"only {sorted(path.name for path in folder.iterdir())} came; expected {count} GPUs at once")
        time.sleep(0.02)
