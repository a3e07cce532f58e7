"""Samples as Parquet files."""

import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ladder.core.errors import InputError
from ladder.core.files import write_whole
from ladder.storage.columns import schema

SCHEMA = schema("samples")
"""One row a measurement. Element i of every list is from round i; `throttle_reasons` has the bits of all rounds.

`process` (from 1) and `role` are those of the confirmation, whose rows of a problem, state and process are from the same rounds.
"""

READINGS = ("sm_clock_mhz", "memory_clock_mhz", "temperature_c")
"""Columns with what a device reads of itself while rounds run: of a measurement, the median."""


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
        if b"checksum" in metadata and metadata[b"checksum"].decode() != _checksum(rows, session):
            raise ValueError("its checksum is that of other contents")
    except (OSError, pa.ArrowException, ValueError) as error:
        raise InputError(
            f"{path}: not a Parquet file of measurements: {error}. Where it is committed, restore it: git checkout. Else remove it "
            "and run again: what a journal beside it has is kept"
        ) from None
    return [dict.fromkeys(SCHEMA.names) | row for row in rows], session
