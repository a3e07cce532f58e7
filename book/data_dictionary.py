"""Make docs/data.md, the data dictionary, from `workflow/schemas/data.yaml`."""

from collections.abc import Iterable

from ladder.storage import columns

HEAD = """# Data dictionary

Every column of every table and Parquet file. [`data.yaml`](../workflow/schemas/data.yaml)
has the types, too, and the keys of `environment.json`: `python -m book` writes this page from it.

`snakemake published` writes the tables of the published data to `results/redrawn/<device>/<campaign>/`, your own runs to
`results/<campaign>/<device>/`. A field is empty if it has no value, or if the column is younger than the data.
Intervals are 95 %<!-- from: definition -->.

These lines print the throughput of every rung at 4096 in percent of cuBLAS:

```python
import pandas as pd

best = pd.read_csv("results/redrawn/nvidia-h200/default/best.csv")
best = best.query("m == n == k == 4096 and state == 'warm' and element_type == 'float32'")
best = best.set_index("kernel")[["ratio", "ratio_low", "ratio_high"]].sort_index()
print((100 * best).round(1).to_string())
```

"""


def _listed(described: Iterable[columns.Column]) -> str:
    rows = ["column | meaning", "---|---"]
    for column in described:
        meaning = column.meaning.replace("|", "\\|") + (f" ({column.unit})" if column.unit else "")
        rows.append(f"`{column.name}` | {meaning}")
    return "\n".join(rows)


def page() -> str:
    """Return the text of docs/data.md: the columns that several tables have with one meaning, by
    these tables, and then each table with its others.
    """
    tables, homes = columns.tables(), dict[columns.Column, list[str]]()
    for table in tables.values():
        for column in table.columns:
            homes.setdefault(column, []).append(table.name)
    groups: dict[str, list[columns.Column]] = {}
    for column, names in homes.items():
        groups.setdefault(", ".join(names), []).append(column)
    parts = ["## Columns of several tables"]
    parts += [
        f"In {names}:\n\n{_listed(of)}" for names, of in groups.items() if names not in tables
    ]
    for name, table in tables.items():
        parts.append(f"## {name}\n\n`{table.files}`. A row is {table.row}.")
        parts += [_listed(groups[name])] if name in groups else []
    return HEAD + "\n\n".join(parts) + "\n"
