"""Lists of checksums beside the files that a job made."""

import hashlib
from pathlib import Path


def _sha256(*paths: Path) -> str:
    state = hashlib.sha256()
    for path in paths:
        state.update(path.read_bytes())
    return state.hexdigest()
