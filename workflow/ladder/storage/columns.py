"""The data dictionary in `schemas/data.yaml`: name, type, unit and meaning of every column of every
table and Parquet file.
"""

from dataclasses import dataclass
from functools import lru_cache

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


def environment() -> list[Column]:
    """Return the keys of `environment.json`, those within others joined with dots; `.*` at the end
    stands for any name.
    """
    data = load(SOURCE.read_text(), str(SOURCE))["environment"].items()
    return [Column(name, *column) for name, column in data]


@lru_cache
def tables() -> dict[str, Table]:
    """Return the tables of the dictionary by name."""
    data = load(SOURCE.read_text(), str(SOURCE))
    schemas = {}
    for name, table in data["tables"].items():
        given = data["columns"] | table.get("own", {})
        columns = tuple(Column(column, *given[column]) for column in table["columns"].split())
        schemas[name] = Table(name, table["files"], table["row"], columns)
    return schemas


def of_text() -> set[str]:
    """Return the names of the columns that are text in the tables that have them."""
    every = [column for table in tables().values() for column in table.columns]
    return {column.name for column in every if column.type == "string"}


def names(table: str) -> list[str]:
    """Return the names of a table's columns, in order."""
    return [column.name for column in tables()[table].columns]


def schema(table: str) -> pa.Schema:
    """Return the Arrow schema of a table."""
    return pa.schema(
        [pa.field(column.name, TYPES[column.type]) for column in tables()[table].columns]
    )
