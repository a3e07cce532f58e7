"""What was measured, on disk: an append-only journal while a job runs, one Parquet file when it is done."""

import fcntl
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ladder.units import InputError

SCHEMA = pa.schema(
    [
        ("device", pa.string()),
        ("kernel", pa.string()),
        ("configuration", pa.string()),
        ("element_type", pa.string()),
        ("m", pa.int32()),
        ("n", pa.int32()),
        ("k", pa.int32()),
        ("alpha", pa.float64()),
        ("beta", pa.float64()),
        ("padding", pa.int32()),
        ("distribution", pa.string()),
        ("seed", pa.int64()),
        ("state", pa.string()),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("stop", pa.string()),
        ("race", pa.bool_()),
        ("reference", pa.string()),
        ("repeats", pa.int32()),
        ("samples_us", pa.list_(pa.float64())),
        ("reference_us", pa.list_(pa.float64())),
        ("frobenius_error", pa.float64()),
        ("component_error", pa.float64()),
        ("component_bound", pa.float64()),
        ("time", pa.string()),
        ("uuid", pa.string()),
        ("sm_clock_mhz", pa.float64()),
        ("memory_clock_mhz", pa.float64()),
        ("power_w", pa.float64()),
        ("temperature_c", pa.float64()),
        ("throttle_reasons", pa.int64()),
        ("samples_sm_clock_mhz", pa.list_(pa.float64())),
        ("samples_throttle_reasons", pa.list_(pa.int64())),
        ("energy_j", pa.float64()),
        ("key", pa.string()),
    ]
)
"""One row a measurement. Element i of every list is from round i; `throttle_reasons` has the bits of all rounds."""


class Journal:
    """Records in the order they were made, each a line with a checksum, on disk before `append` returns.

    A last line cut short by a kill is dropped when the journal is opened; a damaged line in the middle is an `InputError`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: dict[str, dict[str, Any]] = {}
        whole = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise InputError(f"{path}: another run is measuring into it; expected one at a time") from None
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
        self._file.write(b"%08x %s\n" % (zlib.crc32(text), text))
        self._file.flush()
        os.fsync(self._file.fileno())
        self.records[record["key"]] = dict(record)

    def close(self) -> None:
        self._file.close()


def _parse(line: bytes) -> dict[str, Any] | None:
    checksum, _, text = line.partition(b" ")
    try:
        if int(checksum, 16) != zlib.crc32(text):
            return None
        record: dict[str, Any] = json.loads(text)
    except ValueError:
        return None
    return record


def write(path: Path, records: Iterable[Mapping[str, Any]], session: Mapping[str, Any]) -> None:
    """Write measurements to a Parquet file, whole or not at all; `session` says how they were made and goes into its metadata."""
    rows = [{name: record.get(name) for name in SCHEMA.names} for record in records]
    table = pa.Table.from_pylist(rows, schema=SCHEMA.with_metadata({"session": json.dumps(session)}))
    part = path.with_name(f".{path.name}.part")
    pq.write_table(table, part, compression="zstd")
    os.replace(part, path)


def read(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The measurements of a Parquet file and its session; raises `InputError` where it is not one of ours.

    Columns that were added since it was written are None: samples outlive the program that took them.
    """
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: not a Parquet file of measurements: {error}") from None
    if not {"key", "samples_us"} <= set(table.schema.names) or any(field not in SCHEMA for field in table.schema):
        raise InputError(f"{path}: expected the columns {', '.join(SCHEMA.names)}; got {', '.join(table.schema.names)}")
    blank = dict.fromkeys(SCHEMA.names)
    return [blank | row for row in table.to_pylist()], json.loads((table.schema.metadata or {}).get(b"session", b"{}"))
