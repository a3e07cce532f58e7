"""Samples in Parquet files."""

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ladder.core.errors import InputError
from ladder.core.files import write_whole
from ladder.core.types import FAILED, USUAL
from ladder.storage.columns import schema
from ladder.storage.dataset_layout import confirmations

SCHEMA = schema("samples")
"""One row per measurement. Element i of every list is from round i; `throttle_reasons` has the bits
of all rounds.

The confirmation sets `process` (from 1) and `role`. Its rows with the same `key` are from the same
rounds.
"""

THREES = ("padding", "offset")
"""Columns with a number, or with three such as `1,4,2` for A, B and C. Files have them as text,
files of older programs as int32.
"""
UNKNOWN = "no crc32"
"""What stands in a file's metadata in place of its checksum, of the same length, while the checksum
is computed.
"""
CANDIDATE = ("kernel", "element_type", "configuration")
"""The columns that identify a candidate."""
BATCH = 1000
"""Rows that are turned into JSON at once."""


def write(path: Path, records: Iterable[Mapping[str, Any]], session: Mapping[str, Any]) -> None:
    """Write measurements to a Parquet file, atomically. `session` says how they were made and
    becomes the file's metadata.
    """
    rows = [{name: record.get(name) for name in SCHEMA.names} for record in records]
    for row in rows:
        row |= {name: str(row[name]) for name in THREES if row[name] is not None}
    file = pa.BufferOutputStream()
    with pq.ParquetWriter(
        file,
        SCHEMA,
        # what makes small files large, also the Arrow schema beside Parquet's own
        write_statistics=False,
        use_dictionary=False,
        store_schema=False,
        # written once, kept in git: size counts, not time
        compression="zstd",
        compression_level=19,
    ) as writer:
        writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))
        writer.add_key_value_metadata({"session": json.dumps(session), "crc32": UNKNOWN})
    data = file.getvalue().to_pybytes()
    write_whole(path, _replaced(data, UNKNOWN, f"{zlib.crc32(data):08x}"))


def _replaced(data: bytes, old: str, new: str) -> bytes:
    """Return a file's bytes with another checksum in its metadata, which are at the end."""
    before, _, after = data.rpartition(old.encode())
    return before + new.encode() + after


def _check(path: Path, file: pq.ParquetFile) -> None:
    """Raise `ValueError` if a file has changed since it was written.

    `crc32` is the checksum of the whole file with `UNKNOWN` in its place. A file of an older
    program has the checksum of its rows and session as JSON instead.
    """
    metadata = file.schema_arrow.metadata or {}
    if checksum := metadata.get(b"crc32", b"").decode():
        actual = zlib.crc32(_replaced(path.read_bytes(), checksum, UNKNOWN))
    else:
        checksum, actual, comma = metadata.get(b"checksum", b"").decode(), zlib.crc32(b"[["), ""
        for batch in file.iter_batches(BATCH):
            rows = json.dumps(batch.to_pylist())[1:-1]
            actual = zlib.crc32(f"{comma}{rows}".encode(), actual)
            comma = ", "
        actual = zlib.crc32(f"], {json.dumps(_session(metadata))}]".encode(), actual)
    if checksum != f"{actual:08x}":
        raise ValueError("its checksum is that of other contents")


def _session(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    made: dict[str, Any] = json.loads((metadata or {}).get(b"session", b"{}"))
    return made


def is_known(field: pa.Field) -> bool:
    """Return whether a column is one of ours, in this program's type or an older one's."""
    return field in SCHEMA or (
        field.name in (*THREES, "other_processes") and field.type == pa.int32()
    )


def session(path: Path) -> dict[str, Any]:
    """Return the session of a Parquet file: how its measurements were made."""
    return _session(pq.read_metadata(path).metadata)


def last_time(path: Path) -> datetime:
    """Return when the last measurement in a Parquet file began."""
    times = pq.ParquetFile(path).read(columns=["time"])["time"].to_pylist()
    return max(
        map(datetime.fromisoformat, times),
        default=datetime.fromtimestamp(path.stat().st_mtime, UTC),
    )


def columns(path: Path, names: Sequence[str] = SCHEMA.names, check: bool = True) -> pa.Table:
    """Return columns of a Parquet file of measurements, in the types of `SCHEMA`.

    Columns that were added after it was written are null: samples outlive the program that took
    them. Raises `InputError` if the file is not one of ours, or has changed since it was written,
    which is not checked again without `check`.
    """
    try:
        # pq.read_table imports pandas, which takes longer than reading
        file = pq.ParquetFile(path)
        fields = file.schema_arrow
        if not ({"key", "samples_us"} <= set(fields.names) and all(map(is_known, fields))):
            raise InputError(
                f"{path}: expected the columns {', '.join(SCHEMA.names)}; got "
                f"{', '.join(fields.names)}"
            )
        if check:
            _check(path, file)
        table = file.read(columns=[name for name in names if name in fields.names])
    except (OSError, pa.ArrowException, ValueError) as error:
        raise InputError(
            f"{path}: not a Parquet file of measurements: {error}. Where it is committed, restore "
            "it: git checkout. Else remove it "
            "and run again: what a journal beside it has is kept"
        ) from None
    ours = table.cast(pa.schema(map(SCHEMA.field, table.column_names)))
    # `empty_table` imports pandas too
    every = pa.Table.from_batches([], pa.schema(map(SCHEMA.field, names)))
    return pa.concat_tables([every, ours], promote_options="default")


def with_usual(table: pa.Table) -> pa.Table:
    """Return a table of `columns` in which older samples have the values of `USUAL` too. This
    imports pandas.
    """
    for name, value in USUAL.items():
        place = table.column_names.index(name)
        table = table.set_column(place, name, table[name].fill_null(value))
    return table


def rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a table of `columns`."""
    made: list[dict[str, Any]] = table.to_pylist()
    for name in set(THREES) & set(table.column_names):
        for row in made:
            row[name] = number(row[name])
    for name in USUAL.keys() & set(table.column_names):
        for row in made:
            row[name] = row[name] or USUAL[name]
    return made


def number(value: Any) -> Any:
    """Return the value of a column of `THREES`: a number, or the text of three."""
    return int(value) if str(value).isdigit() else value


def read(
    path: Path, names: Sequence[str] = SCHEMA.names
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return columns of the measurements in a Parquet file as rows, and its session. Raises
    `InputError` as `columns` does.
    """
    return rows(columns(path, names)), session(path)


def swept(folder: Path) -> list[dict[str, Any]]:
    """Return the measurements of a dataset's sweep, each with the dataset's `folder`.

    This needs no pandas, which takes longer to import than all else of `ladder try`, and no
    complete dataset: a campaign may be under way.
    """
    paths = sorted(folder.glob("samples/*.parquet"))
    return [row | {"folder": folder} for path in paths for row in read(path)[0]]


def is_ranked(row: Mapping[str, Any]) -> bool:
    """Return whether the tables rank a configuration by a row of the sweep: it was correct and not
    stopped early.
    """
    return bool(row["status"] == "correct" and row["samples_us"] and row["stop"] != "race")


def is_refused(row: Mapping[str, Any]) -> bool:
    """Return whether the confirmation refuses the candidate of a row of `swept`, as the tables then
    say.
    """
    return any(
        other["status"] in FAILED and all(other[name] == row[name] for name in CANDIDATE)
        for path in confirmations(row["folder"])
        for other in read(path, (*CANDIDATE, "status"))[0]
    )
