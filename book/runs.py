"""Make the tables of the pages about all published runs: the limits between runs, and the list of
datasets.
"""

import math
from itertools import product
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
from ladder.core import yaml_schema
from ladder.figures.data import span
from ladder.storage import published_index
from ladder.storage.csv_files import read_csv
from ladder.storage.dataset_layout import PUBLISHED, read_environment

from book.data import Story, Unmeasured
from book.markdown import kernel_text, markdown_table, percent, problem_text

PEAKS = {
    "copy_tb_s": "copy, TB/s",
    "l2_tb_s": "reads from L2, TB/s",
    "l2_latency_ns": "a load from L2, ns",
    "memory_latency_ns": "a load from memory, ns",
}
"""What the probe measures of a GPU's memories, and the headings of columns. Older data have the
first only.
"""
LIMITED = {"": [False, False], "on tensor cores, ": [True, False], "TF32, ": [True, True]}
"""The parts of a table of limits: whether on tensor cores, and whether another baseline than the
reference.
"""


def limits(story: Story, device: str) -> str:
    """Return the limits of `ladder repeat`: the most by which two results differ on a device model,
    by problem, `warm`, in float32.

    Problems without any limit have no row.
    """
    path = story.root / PUBLISHED / f"repeat-{device}.csv"
    if not path.exists():
        raise Unmeasured
    table = read_csv(path).astype({"problem": str})
    table = table[(table["element_type"] == "float32") & (table["state"] == "warm")]
    known = table[table[["repeat_limit", "reproduce_limit"]].notna().any(axis=1)]
    limits_of = known.set_index(["problem", "tensor_cores", "other_baseline"])
    rows = []
    for problem in dict.fromkeys(known["problem"]):
        cells = []
        for group, name in product(LIMITED.values(), ("repeat_limit", "reproduce_limit")):
            limit = limits_of[name].get((problem, *group), math.nan)
            cells.append("–" if math.isnan(limit) else percent(math.expm1(limit)))
        rows.append([problem_text(problem), *cells])
    columns = [f"{group}{what}" for group in LIMITED for what in ("one machine", "between")]
    text = f"From {span(known['machines'])} machines"
    pairs = known.loc[known["repeat_pairs"] > 0, "repeat_pairs"]
    if len(pairs):
        text += f", and on one machine from {span(pairs)} pairs of runs"
    if without := table["problem"].nunique() - len(rows):
        text += f". Of {without} other problems no limit is known: too few machines measured them"
    return f"{text}.\n\n{markdown_table(['M × N × K', *columns], rows)}"


def machines(story: Story, device: str, *columns: str) -> str:
    """Return the published machines of a device model: their memories, and how kernels run on them.

    A column is `time:KERNEL:PROBLEM`, how much longer the kernel takes than on the median machine,
    or `ratio:KERNEL:PROBLEM`, its ratio to the reference. Both are the mean of the machine's runs,
    `warm`. The last row has the correlation with the copy bandwidth.
    """
    runs = pd.DataFrame(
        {"machine": run.machine, **run.environment["peaks"]}
        for run in story.everything
        if run.environment["device"] == device
    )
    if runs.empty:
        raise Unmeasured
    peaks = [key for key in PEAKS if key in runs]
    means = runs.groupby("machine", sort=False)[peaks].mean()
    counts = runs["machine"].value_counts()
    cells = {
        "GPU": [f"`{name.removeprefix('GPU-')[:4]}`" for name in means.index],
        "runs": [str(counts[name]) for name in means.index],
    }
    cells |= {PEAKS[key]: _texts(means[key], "{:#.4g}") for key in peaks}
    last = ["correlation with the copy bandwidth", *[""] * (1 + len(peaks))]
    for column in columns:
        of, kernel, problem = column.split(":")
        head = f"{kernel_text(kernel)} at {problem_text(problem)}, "
        logs = pd.Series(_logs(story, device, kernel, problem, COLUMNS[of])).reindex(means.index)
        if of == "time":
            longer = 100 * np.expm1(logs - logs.median())
            cells[f"{head}time"] = _texts(longer, "{:+.2f} %")
        else:
            cells[f"{head}× the reference"] = _texts(np.exp(logs), "{:.3f}")
        known = logs.count() > 2 and logs.nunique() > 1
        last.append(f"{logs.corr(means['copy_tb_s']):+.2f}" if known else "–")
    rows = [list(row) for row in zip(*cells.values(), strict=True)]
    return markdown_table(list(cells), [*rows, last])


COLUMNS = {"time": "median_us", "ratio": "ratio"}
"""The columns of `best` that a table of machines can show."""


def _texts(numbers: pd.Series, form: str) -> list[str]:
    return ["–" if math.isnan(number) else form.format(number) for number in numbers]


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


def withdrawn(story: Story) -> str:
    """Return the runs that were published and removed, with the reasons."""
    path = story.root / PUBLISHED / published_index.WITHDRAWN
    runs = yaml_schema.load(yaml_schema.read(path), str(path))
    rows = [
        [f"`{group}`", f"`{run}`", why]
        for name, why in runs.items()
        for group, _, run in [name.rpartition("/")]
    ]
    return markdown_table(["device and campaign", "run", "why"], rows, range(3))


def datasets(story: Story) -> str:
    """Return all published datasets: device and campaign, run, kind, commit, whether from the lock,
    and why each is kept.

    Below are both versions of the packages that are not those of the lock.
    """
    index, rows, others = published_index.read(story.root / PUBLISHED), [], set()
    for name, folder in published_index.runs(story.root / PUBLISHED).items():
        group, _, run = name.rpartition("/")
        environment = read_environment(folder / "environment.json")
        form = "featured" if run == index[group]["featured"] else "repeat"
        locked, packages = from_lock(index[group], run, environment)
        others |= set(packages.split(", ")) - {""}
        rows.append(
            [
                f"`{group}`",
                f"`{run}`",
                form,
                f"`{environment['project']['commit'][:10]}`",
                locked,
                index[group]["runs"][run],
            ]
        )
    columns = ["device and campaign", "run", "kept as", "commit", "from the lock", "why"]
    packages = ", ".join(f"`{package}`" for package in sorted(others))
    notes = [f"Not from the lock: {packages}"] if others else []
    return markdown_table(columns, rows, range(6), notes)
