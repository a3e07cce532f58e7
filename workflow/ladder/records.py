"""What was measured, on disk: an append-only journal while a job runs, one Parquet file when it is done."""

import errno
import fcntl
import json
import os
import sys
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ladder.dictionary import schema
from ladder.jobs import unwritable, write_whole
from ladder.units import InputError

SCHEMA = schema("samples")
"""One row a measurement. Element i of every list is from round i; `throttle_reasons` has the bits of all rounds.

`process` (from 1) and `role` are those of the confirmation, whose rows of a problem, state and process are from the same rounds.
"""

READINGS = ("sm_clock_mhz", "memory_clock_mhz", "temperature_c")
"""Columns with what a device reads of itself while rounds run: of a measurement, the median."""


def journal_of(output: Path) -> Path:
    """The journal of a Parquet file: `journals/<name>.journal` of its dataset, where nobody looks for Parquet files."""
    folder = output.parent.parent if output.parent.name == "samples" else output.parent
    return folder / "journals" / f"{output.stem}.journal"


class Journal:
    """Records in the order they were made, each a line with a checksum, on disk before `append` returns.

    A last line cut short by a kill is dropped when the journal is opened; a damaged line in the middle is an `InputError`. One run
    writes at a time; another waits for it, and finds what it measured.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: dict[str, dict[str, Any]] = {}
        whole = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # without a buffer: what a full disk refused must not be tried again by `close`
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise unwritable(path, error) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{path}: another run is measuring into it; waiting until it is done", file=sys.stderr, flush=True)
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
        """Add a record (which has a `key`) and wait until the disk has it."""
        text = json.dumps(record).encode()
        line = b"%08x %s\n" % (zlib.crc32(text), text)
        try:
            if self._file.write(line) != len(line):  # as much as the disk had room for; opened again, the journal drops it
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


def write(path: Path, records: Iterable[Mapping[str, Any]], session: Mapping[str, Any]) -> None:
    """Write measurements to a Parquet file, whole or not at all; `session` says how they were made and goes into its metadata."""
    rows = [{name: record.get(name) for name in SCHEMA.names} for record in records]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    metadata = {"session": json.dumps(session), "checksum": _checksum(table.to_pylist(), dict(session))}
    file = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(metadata), file, compression="zstd")
    write_whole(path, file.getvalue().to_pybytes())


def _checksum(rows: list[dict[str, Any]], session: dict[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps([rows, session]).encode()):08x}"


def read(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The measurements of a Parquet file and its session; raises `InputError` where it is not one of ours, or not as it was written.

    Columns that were added since it was written are None: samples outlive the program that took them.
    """
    try:
        table = pq.ParquetFile(path).read()  # pq.read_table imports pandas, which takes longer than reading
        if not {"key", "samples_us"} <= set(table.schema.names) or any(field not in SCHEMA for field in table.schema):
            raise InputError(f"{path}: expected the columns {', '.join(SCHEMA.names)}; got {', '.join(table.schema.names)}")
        rows, metadata = table.to_pylist(), table.schema.metadata or {}
        session: dict[str, Any] = json.loads(metadata.get(b"session", b"{}"))
        if _checksum(rows, session) != metadata.get(b"checksum", _checksum(rows, session).encode()).decode():
            raise ValueError("its checksum is that of other contents")
    except (OSError, pa.ArrowException, ValueError) as error:
        raise InputError(
            f"{path}: not a Parquet file of measurements: {error}. Where it is committed, restore it: git checkout. Else remove it "
            "and run again: what a journal beside it has is kept"
        ) from None
    return [dict.fromkeys(SCHEMA.names) | row for row in rows], session
