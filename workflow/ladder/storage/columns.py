"""The data dictionary in `schemas/data.yaml`: name, type, unit and meaning of every column of every table and Parquet file."""

from collections.abc import Iterable, Iterator
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

For those who read the data with programs of their own: every column of every table and Parquet file.

## An example

`snakemake published` writes the tables of the published data to `results/redrawn/<device>/<campaign>/`, as CSV. Your own runs write
them to `results/<campaign>/<device>/`. All tables come from samples: Parquet files in `results/published/<device>/<campaign>/<run>/`.

These lines print the throughput of every rung at 4096 in percent of cuBLAS, with the 95 %<!-- from: definition --> interval:

```python
import pandas as pd

best = pd.read_csv("results/redrawn/nvidia-h200/default/best.csv")
best = best.query("m == n == k == 4096 and state == 'warm' and element_type == 'float32'")
best = best.set_index("kernel")[["ratio", "ratio_low", "ratio_high"]].sort_index()
print((100 * best).round(1).to_string())
```

## The files

This page is made from [`workflow/schemas/data.yaml`](../workflow/schemas/data.yaml) by
`ladder story`. The Parquet files have the same types. What a column means stands here only:
in each of their many small files it would take more room than the samples.
A field is empty if it has no value. CSV files have a header, commas, UTF-8 and six significant digits.
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


def environment() -> list[Column]:
    """Return the keys of `environment.json`, those within others joined with dots; `.*` at the end stands for any name."""
    data: dict[str, Any] = load(SOURCE.read_text(), str(SOURCE))
    return [Column(name, *column) for name, column in data["environment"].items()]


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
    """Return the Arrow schema of a table."""
    return pa.schema([pa.field(column.name, TYPES[column.type]) for column in tables()[table].columns])


def _section(title: str, text: str, columns: Iterable[Column], what: str) -> Iterator[str]:
    yield f"## {title}\n\n{text}\n\n| {what} | type | unit | meaning |\n|---|---|---|---|"
    for column in columns:
        yield f"| `{column.name}` | `{column.type}` | {column.unit} | {column.meaning.replace('|', chr(92) + '|')} |"
    yield ""


def _sections() -> Iterator[str]:
    yield HEAD
    for table in tables().values():
        yield from _section(table.name, f"`{table.files}`. A row is {table.row}.", table.columns, "column")
    described = "`environment.json` describes device, software and commit. Keys within keys are joined with dots."
    yield from _section("environment", described, environment(), "key")


def page() -> str:
    """Return the text of docs/data.md."""
    return "\n".join(_sections())
