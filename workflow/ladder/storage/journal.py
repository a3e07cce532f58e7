"""The journal of a measure job: each measurement is on disk before the next begins."""

import errno
import fcntl
import json
import os
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ladder.core.errors import InputError, unwritable


def journal_of(output: Path) -> Path:
    """Return the journal of a Parquet file: `journals/<name>.journal` of its dataset, where nobody
    looks for Parquet files.
    """
    folder = output.parent.parent if output.parent.name == "samples" else output.parent
    return folder / "journals" / f"{output.stem}.journal"


class Journal:
    """Records in the order in which they were made, one line each with a checksum, on disk before
    `append` returns.

    Opening a journal drops a last line that a kill cut short. A damaged line in the middle raises
    `InputError`. One run writes at a time; another run waits for it, and then has its measurements.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: dict[str, dict[str, Any]] = {}
        whole = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # unbuffered: `close` must not retry what a full disk refused
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise unwritable(path, error) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(
                f"{path}: another run is measuring into it; waiting until it is done",
                file=sys.stderr,
                flush=True,
            )
            fcntl.flock(self._file, fcntl.LOCK_EX)
        if path.stat().st_size:
            data = path.read_bytes()
            lines = data.split(b"\n")
            for number, line in enumerate(lines[:-1], 1):
                record = _parse(line)
                if record is None:
                    raise InputError(
                        f"{path}: line {number}: damaged; expected a checksum and a record. "
                        f"Remove that line to keep the others and measure it again"
                    )
                self.records[record["key"]] = record
                whole += len(line) + 1
            self._file.truncate(whole)

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a record, which has a `key`, and wait until it is on disk. Raises `InputError` if it
        cannot be written.
        """
        text = json.dumps(record).encode()
        line = b"%08x %s\n" % (zlib.crc32(text), text)
        try:
            # the disk had no room for the rest; the next opening drops this part
            if self._file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())
        except OSError as error:
            raise unwritable(self.path, error) from None
        self.records[record["key"]] = dict(record)

    def close(self) -> None:
        self._file.close()


def _parse(line: bytes) -> dict[str, Any] | None:
    checksum, _, text = line.partition(b" ")
    try:
        if int(checksum, 16) != zlib.crc32(text):
            return None
        record: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("key"), str) else None
