"""A checksum over the contents of several files."""

import hashlib
from pathlib import Path


def _sha256(*paths: Path) -> str:
    state = hashlib.sha256()
    for path in paths:
        state.update(path.read_bytes())
    return state.hexdigest()
