"""A place where launches of different jobs wait for each other, so that a test forces the jobs to
overlap in time.
"""

import os
from pathlib import Path

from waiting import wait_until

VARIABLE = "RENDEZVOUS"
"""Names a folder in which every job leaves a file."""


def meet(count: int) -> None:
    """Wait until launches on `count` simulated GPUs, this one among them, have begun."""
    folder = Path(os.environ[VARIABLE])
    (folder / os.environ.get("CUDA_VISIBLE_DEVICES", "any")).touch()
    wait_until(
        lambda: len(list(folder.iterdir())) >= count,
        f"{count} GPUs at once, each with a file in {folder}",
    )
