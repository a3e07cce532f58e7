"""Keep what was compiled, YAML that was read and kernels that were checked, for all campaigns,
folders and tries of a user, by the digest of all that went into it.
"""

import contextlib
import hashlib
import os
from pathlib import Path

from ladder.core.errors import InputError
from ladder.core.files import write_whole

BYTES = 1 << 30
"""The size that the store keeps to."""
SHELVES = 256
"""Folders by the first two digits of the keys. Each keeps to its share of `BYTES`, so that adding
an entry never walks the whole store.
"""


def take(key: str) -> bytes | None:
    """Return the data that were kept under a key, or None if there are none.

    Damaged data and those of another user count as none: the folder may lie in `/tmp`.
    """
    try:
        path = _path(key)
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_uid != os.getuid():
                return None
            checksum, data = file.read().split(b"\n", 1)
    except (OSError, ValueError, RuntimeError):
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # used last
    return data if checksum == _checksum(key, data) else None


def keep(key: str, data: bytes) -> None:
    """Keep data under a key, and remove what was used least recently. Does nothing where the folder
    cannot be written, and with more data than a shelf holds.
    """
    left = BYTES // SHELVES
    if len(data) > left // 2:
        return
    with contextlib.suppress(OSError, InputError, RuntimeError):
        path = _path(key)
        write_whole(path, _checksum(key, data) + b"\n" + data)
        entries = [(entry.stat(), entry) for entry in path.parent.iterdir()]
        for stat, entry in sorted(entries, key=lambda each: -each[0].st_mtime_ns):
            left -= stat.st_size
            if left < 0:
                entry.unlink()


def _path(key: str) -> Path:
    """Return the file of an entry: in `$LADDER_STORE`, else in the user's cache. Raises
    `RuntimeError` for a user without a home.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(os.environ.get("LADDER_STORE") or f"{cache}/gemm-ladder").expanduser()
    return folder / key[:2] / key


def _checksum(key: str, data: bytes) -> bytes:
    return hashlib.sha256(key.encode() + data).hexdigest().encode()
