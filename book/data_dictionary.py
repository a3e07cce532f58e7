"""Make docs/data.md, the data dictionary, from `workflow/schemas/data.yaml`."""

from collections.abc import Iterable, Iterator

from ladder.storage import columns

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
`python -m book`. The Parquet files have the same types. What a column means stands here only:
in each of their many small files it would take more room than the samples.
A field is empty if it has no value. CSV files have a header, commas, UTF-8 and six significant digits.
"""


def _section(
    title: str, text: str, described: Iterable[columns.Column], what: str
) -> Iterator[str]:
    yield f"## {title}\n\n{text}\n\n| {what} | type | unit | meaning |\n|---|---|---|---|"
    for column in described:
        yield (
            f"| `{column.name}` | `{column.type}` | {column.unit} | "
            f"{column.meaning.replace('|', chr(92) + '|')} |"
        )
    yield ""


def _sections() -> Iterator[str]:
    yield HEAD
    for table in columns.tables().values():
        yield from _section(
            table.name, f"`{table.files}`. A row is {table.row}.", table.columns, "column"
        )
    text = (
        "`environment.json` describes device, software and commit. Keys within keys are joined "
        "with dots."
    )
    yield from _section("environment", text, columns.environment(), "key")


def page() -> str:
    """Return the text of docs/data.md."""
    return "\n".join(_sections())
