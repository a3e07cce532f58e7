"""The data dictionary in `schemas/data.yaml`: name, type, unit and meaning of every column of every table and Parquet file."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from ladder.core.yaml_schema import SCHEMAS, load

SOURCE = SCHEMAS / "data.yaml"
TYPES = {
    "string": pa.string(),
    "bool": pa.bool_(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "list<int64>": pa.list_(pa.int64()),
    "list<float64>": pa.list_(pa.float64()),
}
"""Arrow types by their names in the dictionary."""
HEAD = """# Data dictionary

Every column of every table and Parquet file. This page is made from [`workflow/schemas/data.yaml`](../workflow/schemas/data.yaml) by
`ladder story`; from there also come types and metadata of the Parquet files (`pyarrow.parquet.read_schema(path).field(name).metadata`).
A field is empty where there is no value. CSV files have a header, commas, UTF-8 and six significant digits.
"""


@dataclass(frozen=True)
class Column:
    """A column of a table. `type` is a key of `TYPES`; `unit` is empty for a column without one."""

    name: str
    type: str
    unit: str
    meaning: str


@dataclass(frozen=True)
class Table:
    """A table: its files in a dataset's folder, the meaning of a row, and its columns in order."""

    name: str
    files: str
    row: str
    columns: tuple[Column, ...]


@lru_cache
def tables() -> dict[str, Table]:
    """Return the tables of the dictionary by name."""
    data: dict[str, Any] = load(SOURCE.read_text(), str(SOURCE))
    schemas = {}
    for name, table in data["tables"].items():
        given = data["columns"] | table.get("own", {})
        columns = tuple(Column(column, *given[column]) for column in table["columns"].split())
        schemas[name] = Table(name, table["files"], table["row"], columns)
    return schemas


def schema(table: str) -> pa.Schema:
    """Return the Arrow schema of a table. The metadata of each field has its `unit` and `meaning`."""
    return pa.schema(
        [
            pa.field(column.name, TYPES[column.type], metadata={"unit": column.unit, "meaning": column.meaning})
            for column in tables()[table].columns
        ]
    )


def _sections() -> Iterator[str]:
    yield HEAD
    for table in tables().values():
        yield f"## {table.name}\n\n`{table.files}`. A row is {table.row}.\n\n| column | type | unit | meaning |\n|---|---|---|---|"
        yield from (
            f"| `{column.name}` | `{column.type}` | {column.unit} | {column.meaning.replace('|', chr(92) + '|')} |"
            for column in table.columns
        )
        yield ""


def page() -> str:
    """Return the text of docs/data.md."""
    return "\n".join(_sections())
