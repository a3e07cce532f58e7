"""Files: reading JSON, and atomic writes."""

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from ladder.core.errors import InputError, unwritable

MEND = "Where it is committed, restore it: git checkout. Else remove it and run again"


def read_json(path: Path) -> Any:
    """Return the data in a JSON file. Raises `InputError` if the file cannot be read or is not
    JSON.
    """
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: {error}; expected JSON. {MEND}") from None


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically, in a folder that is made if it is missing: nobody ever sees half of
    it. Raises `InputError` if it cannot be written.
    """
    with whole(path) as file:
        file.write(data)


def write_text(path: Path, text: str) -> None:
    """Write a file atomically and in UTF-8; print the text for the path `-`. Raises `InputError` if
    the file cannot be written.
    """
    if path == Path("-"):
        print(text)
    else:
        write_whole(path, f"{text}\n".encode())


@contextlib.contextmanager
def whole(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, that takes its place atomically at the end; an exception leaves none.
    Raises `InputError` if it cannot be written.
    """
    part = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            part = file.name
            yield file
        os.chmod(part, 0o644)
        os.replace(part, path)
        part = None
    except OSError as error:
        raise unwritable(path, error) from None
    finally:
        if part:
            with contextlib.suppress(OSError):
                Path(part).unlink()


def digest(data: Any) -> str:
    """Return a short digest of plain data, the same in every process."""
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()[:16]
