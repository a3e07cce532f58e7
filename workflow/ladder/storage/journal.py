"""Journals of measurements: each measurement is on disk before the next begins."""

import errno
import fcntl
import json
import os
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from ladder.core.errors import InputError, unwritable

START = b'{"key": "'
"""How each record begins: an index of keys needs no JSON."""


def journals_of(output: Path) -> Path:
    """Return the folder of the journals of a Parquet file: `journals` of its dataset, where nobody
    looks for Parquet files.
    """
    return (output.parent.parent if output.parent.name == "samples" else output.parent) / "journals"


@contextmanager
def opened(folder: Path, names: Iterable[str]) -> Iterator[dict[str, "Journal"]]:
    """Open the journals `<name>.journal` of a folder, by name. All runs open them in one order, so
    that no two wait for each other.
    """
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(closing(Journal(folder / f"{name}.journal")))
            for name in sorted(names)
        }


class Journal(Mapping[str, dict[str, Any]]):
    """Records by key in the order in which they were made, one line each with a checksum, on disk
    before `append` returns. Memory holds only where they are.

    Opening a journal drops a last line that a kill cut short. A damaged line in the middle raises
    `InputError`. One run writes at a time; another run waits for it, and then has its measurements.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._places: dict[str, tuple[int, int]] = {}
        """The offset and the length of each record's JSON."""
        self._end = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # unbuffered: `close` must not retry what a full disk refused
            self._file = path.open("a+b", buffering=0)
        except OSError as error:
            raise unwritable(path, error) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"Waiting: another run is measuring into {path}", file=sys.stderr, flush=True)
            fcntl.flock(self._file, fcntl.LOCK_EX)
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    self._file.truncate(self._end)
                    break
                key = key_of(line)
                if key is None:
                    raise InputError(
                        f"{path}: line {number}: damaged; expected a checksum and a record. "
                        f"Remove that line to keep the others and measure it again"
                    )
                self._add(key, line)

    def _add(self, key: str, line: bytes) -> None:
        start = line.index(b" ") + 1
        self._places[key] = self._end + start, len(line) - start
        self._end += len(line)

    def __getitem__(self, key: str) -> dict[str, Any]:
        offset, length = self._places[key]
        record: dict[str, Any] = json.loads(os.pread(self._file.fileno(), length, offset))
        return record

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a record, which has a `key`, and wait until it is on disk. Raises `InputError` if it
        cannot be written.
        """
        text = json.dumps({"key": record["key"]} | dict(record)).encode()
        line = b"%08x %s\n" % (zlib.crc32(text), text)
        try:
            # the disk had no room for the rest; the next opening drops this part
            if self._file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())
        except OSError as error:
            raise unwritable(self.path, error) from None
        self._add(record["key"], line)

    def close(self) -> None:
        self._file.close()


def key_of(line: bytes) -> str | None:
    """Return the key of the record in a line; None if it has none of ours, or is damaged."""
    checksum, _, text = line.partition(b" ")
    key, end, _ = text.removeprefix(START).partition(b'"')
    try:
        whole = int(checksum, 16) == zlib.crc32(text.rstrip(b"\n"))
    except ValueError:
        return None
    return key.decode() if whole and end and text.startswith(START) else None
