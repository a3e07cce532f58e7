"""Make the tables about all published runs: the limits between runs, the machines, and the list of
datasets.
"""

import math
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
from ladder.core import yaml_schema
from ladder.core.places import HOME
from ladder.figures.data import span
from ladder.storage import published_index
from ladder.storage.csv_files import read_csv
from ladder.storage.dataset_layout import PUBLISHED, read_environment

from book.data import Story, Unmeasured
from book.markdown import kernel_text, markdown_table, percent, problem_text

PEAKS = ("copy_tb_s", "l2_tb_s", "l2_latency_ns", "memory_latency_ns")
"""What the probe measures of a GPU's memories. Older data have the first only."""
LIMITED = {"": [False, False], "on tensor cores, ": [True, False], "TF32, ": [True, True]}
"""The parts of a table of limits: whether on tensor cores, and whether another baseline than the
reference.
"""


def limits(story: Story, *devices: str) -> str:
    """Return the limits of `ladder repeat`: the most by which two results differ on each device
    model, `warm`, in float32, at 4096 and on the problem where each limit is the largest.
    """
    groups = list(product(LIMITED.values(), ("repeat_limit", "reproduce_limit")))
    rows, counts = [], []
    for device in devices:
        path = story.root / PUBLISHED / f"repeat-{device}.csv"
        if not path.exists():
            raise Unmeasured
        table = read_csv(path).astype({"problem": str})
        table = table[(table["element_type"] == "float32") & (table["state"] == "warm")]
        of = table.set_index(["tensor_cores", "other_baseline", "problem"]).sort_index()
        at, most = ([f"`{device}`", what] for what in ("4096", "largest"))
        for (tensor, other), name in groups:
            known = of.loc[(tensor, other), name]
            at.append(_limit(known.get("4096", math.nan)))
            most.append(f"{_limit(known.max())} ({problem_text(str(known.idxmax()))})")
        rows += [at, most]
        known = table[table[["repeat_limit", "reproduce_limit"]].notna().any(axis=1)]
        counts.append(f"`{device}`: from {span(known['machines'])} machines")
    columns = [f"{group}{what}" for group in LIMITED for what in ("one machine", "between")]
    return markdown_table(["device", "M × N × K", *columns], rows, (0, 1), counts)


def _limit(limit: float) -> str:
    return "–" if math.isnan(limit) else percent(math.expm1(limit))


def machines(story: Story, device: str, *columns: str) -> pd.DataFrame:
    """Return the published machines of a device model: their memories, and how kernels run on them.

    A column is `time:KERNEL:PROBLEM`, the time over that on the median machine, or
    `ratio:KERNEL:PROBLEM`, the ratio to the reference. Both are the mean of the machine's runs,
    `warm`.
    """
    runs = pd.DataFrame(
        {"machine": run.machine, **run.environment["peaks"]}
        for run in story.everything
        if run.environment["device"] == device
    )
    if runs.empty:
        raise Unmeasured
    by_machine = runs.groupby("machine", sort=False)
    table = by_machine[[key for key in PEAKS if key in runs]].mean()
    table.insert(0, "runs", by_machine.size())
    for column in columns:
        of, kernel, problem = column.split(":")
        logs = pd.Series(_logs(story, device, kernel, problem, COLUMNS[of])).reindex(table.index)
        table[column] = np.exp(logs - logs.median() if of == "time" else logs)
    return table


def correlations(story: Story, device: str) -> str:
    """Return how far kernels differ among the machines of a device model, and how that goes with
    the copy bandwidth.
    """
    table, rows = machines(story, device, *OF_MACHINES), []
    for column in OF_MACHINES:
        of, kernel, problem = column.split(":")
        values = table[column].dropna()
        known = len(values) > 2 and values.nunique() > 1
        with_copy = f"{np.log(values).corr(table['copy_tb_s']):+.2f}" if known else "–"
        what = "time over the median" if of == "time" else "speedup over cuBLAS"
        head = f"{kernel_text(kernel)} at {problem_text(problem)}, {what}"
        cells = [f"{values.min():.3f}", f"{values.max():.3f}", with_copy]
        rows.append([head, str(len(values)), *cells])
    columns = ["", "GPUs", "least", "most", "correlation with the copy bandwidth"]
    return markdown_table(columns, rows)


OF_MACHINES = (
    "ratio:15_last_wave:4096",
    "ratio:21_tensor_split:4096",
    "time:10_block_tile_128:64x4096x4096",
    "time:10_block_tile_128:8192x128x8192",
    "time:13_snake_order:64x4096x4096",
)
"""What the pages show of the machines of a device model, as `machines` takes it."""
COLUMNS = {"time": "median_us", "ratio": "ratio"}
"""The columns of `best` that a table of machines can show."""


def _logs(story: Story, device: str, kernel: str, problem: str, column: str) -> dict[str, float]:
    """Return the mean over a machine's runs of the logarithm of a column of `best`, `warm`, by
    machine.
    """
    runs: dict[str, list[float]] = {}
    for run, row in story.confirmed.get((device, kernel, problem, "warm"), []):
        runs.setdefault(run.machine, []).append(math.log(row[column]))
    return {name: fmean(values) for name, values in runs.items()}


def from_lock(entry: dict[str, Any], run: str, environment: dict[str, Any]) -> list[str]:
    """Return whether the packages of a run in an entry of the index were those of the lock, `yes`,
    `no` or `not known`, and which were not.

    Data older than the key `python.differs_from_lock` of `environment.json` name the versions of
    few packages.
    """
    differs = entry.get("not_from_lock", {}).get(run, "")
    known = "differs_from_lock" in environment.get("python", {})
    return ["no" if differs else "yes" if known else "not known", differs]


def datasets(story: Story) -> pd.DataFrame:
    """Return all published datasets, the withdrawn ones too: device and campaign, run, kind, commit,
    whether and which packages are not from the lock, and why each is kept or was removed.
    """
    index, rows = published_index.read(story.root / PUBLISHED), []
    for name, folder in published_index.runs(story.root / PUBLISHED).items():
        group, _, run = name.rpartition("/")
        environment = read_environment(folder / "environment.json")
        form = "featured" if run == index[group]["featured"] else "repeat"
        commit = environment["project"]["commit"][:10]
        locked = from_lock(index[group], run, environment)
        rows.append([group, run, form, commit, *locked, index[group]["runs"][run]])
    path = story.root / PUBLISHED / published_index.WITHDRAWN
    for name, why in yaml_schema.load(yaml_schema.read(path), str(path)).items():
        group, _, run = name.rpartition("/")
        rows.append([group, run, "withdrawn", "", "", "", why])
    columns = ["dataset", "run", "kept_as", "commit", "from_lock", "other_packages", "why"]
    return pd.DataFrame(rows, columns=columns)


def files(story: Story) -> dict[Path, str]:
    """Return the tables that the page on results links to, by their files."""
    of_machines = machines(story, "nvidia-h200", *OF_MACHINES).reset_index()
    tables = {"datasets": datasets(story), "gpus": of_machines}
    return {
        HOME / "docs" / f"{name}.csv": str(
            table.to_csv(index=False, float_format="%.5g", lineterminator="\n")
        )
        for name, table in tables.items()
    }
