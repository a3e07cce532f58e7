"""Make the tables of the pages about all published runs: the limits between runs, and the list of
datasets.
"""

import math
from pathlib import Path
from statistics import correlation, fmean, median
from typing import Any

from ladder.claims.definitions import NOTHING
from ladder.core.files import read_json
from ladder.core.verdicts import MARGIN
from ladder.figures.data import View, span
from ladder.storage import published_index
from ladder.storage.csv_files import read_csv
from ladder.storage.dataset_layout import PUBLISHED, read_environment

from book.data import Story
from book.markdown import kernel_text, markdown_table, percent, problem_text, with_legend

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
    path = story.root / "results" / "published" / f"repeat-{device}.csv"
    if not path.exists():
        return NOTHING.capitalize() + "."
    limits_of = read_csv(path).astype({"problem": str})
    limits_of = limits_of[(limits_of["element_type"] == "float32") & (limits_of["state"] == "warm")]
    known = limits_of[limits_of[["repeat_limit", "reproduce_limit"]].notna().any(axis=1)]
    rows = []
    for problem, of_problem in known.groupby("problem", sort=False):
        cells = []
        for group in LIMITED.values():
            of_group = of_problem[
                (of_problem[["tensor_cores", "other_baseline"]] == group).all(axis=1)
            ]
            row: dict[str, Any] = next(iter(of_group.to_dict("records")), {})
            limits = [
                math.expm1(row.get(f"{name}_limit", math.nan)) for name in ("repeat", "reproduce")
            ]
            cells += ["–" if math.isnan(limit) else percent(limit) for limit in limits]
        rows.append([problem_text(str(problem)), *cells])
    columns = [
        "M × N × K",
        *(f"{of}{what}" for of in LIMITED for what in ("one machine", "between")),
    ]
    counts = [f"{span(known['machines'])} machines"] if rows else []
    counts += (
        [f"on one machine from {span(pairs)} pairs of runs"]
        if len(pairs := known.loc[known["repeat_pairs"] > 0, "repeat_pairs"])
        else []
    )
    without = limits_of["problem"].nunique() - len(rows)
    more = (
        f" Of {without} other problems no limit is known: too few machines measured them."
        if without
        else ""
    )
    return (
        f"From {', and '.join(counts)}.{more}\n\n{markdown_table(columns, rows)}"
        if rows
        else more.strip()
    )


def machines(story: Story, device: str, *columns: str) -> str:
    """Return the published machines of a device model: their memories, and how kernels run on them.

    A column is `time:KERNEL:PROBLEM`, how much longer the kernel takes than on the median machine,
    or `ratio:KERNEL:PROBLEM`, its ratio to the reference. Both are the mean of the machine's runs,
    `warm`. The last row has the correlation with the copy bandwidth.
    """
    runs = [run for run, _ in story.runs if run.environment["device"] == device]
    names = list(dict.fromkeys(run.machine for run in runs))
    cells = {
        name: [f"`{name.removeprefix('GPU-')[:4]}`", str(sum(run.machine == name for run in runs))]
        for name in names
    }
    last, copies, heads = (
        ["correlation with the copy bandwidth", ""],
        dict[str, float](),
        ["GPU", "runs"],
    )
    for key, head in PEAKS.items():
        peaks = {
            name: fmean(of_it)
            for name in names
            if (
                of_it := [
                    run.environment["peaks"][key]
                    for run in runs
                    if run.machine == name and key in run.environment["peaks"]
                ]
            )
        }
        copies = copies or peaks
        heads, last = ([*heads, head], [*last, ""]) if peaks else (heads, last)
        for name in names if peaks else ():
            cells[name].append(f"{peaks[name]:#.4g}" if name in peaks else "–")
    for column in columns:
        of, kernel, problem = column.split(":")
        logs = _logs(story, device, kernel, problem, "median_us" if of == "time" else "ratio")
        middle = median(logs.values()) if logs else 0.0
        heads.append(
            f"{kernel_text(kernel)} at {problem_text(problem)}, "
            f"{'time' if of == 'time' else '× the reference'}"
        )
        for name in names:
            value = logs.get(name, math.nan)
            text = (
                f"{100 * math.expm1(value - middle):+.2f} %"
                if of == "time"
                else f"{math.exp(value):.3f}"
            )
            cells[name].append(text if name in logs else "–")
        both = [name for name in logs if name in copies]
        apart = len(both) > 2 and len(set(logs.values())) > 1
        last.append(
            f"{correlation([copies[name] for name in both], [logs[name] for name in both]):+.2f}"
            if apart
            else "–"
        )
    return markdown_table(heads, [*cells.values(), last]) if names else markdown_table(heads, [])


def _logs(story: Story, device: str, kernel: str, problem: str, column: str) -> dict[str, float]:
    """Return the mean over a machine's runs of the logarithm of a column of `best`, `warm`, by
    machine.
    """
    runs: dict[str, list[float]] = {}
    for run, row in story.confirmed.get((device, kernel, problem, "warm"), []):
        runs.setdefault(run.machine, []).append(math.log(row[column]))
    return {name: fmean(values) for name, values in runs.items()}


def alone(root: Path, data: View) -> list[str]:
    """Return a note on verdicts that are made one by one: how often equal code is called different
    on the device model.
    """
    path = root / PUBLISHED / f"repeat-{data.environment['device']}.json"
    if not path.exists():
        return []
    both = [read_json(path)[kind] for kind in ("null", "twins")]
    pairs = sum(counted["pairs"] for counted in both)
    called = sum(counted["pairs"] * (counted["called_different"] or 0) for counted in both)
    share = (
        f"{called / pairs:.1%} of {pairs} pairs of equal code" if pairs else "no pair of equal code"
    )
    return [
        f"each verdict is at 95 %, with a margin of {100 * MARGIN:g} %, and not corrected for "
        f"their number: {share} called different"
    ]


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
        locked, _, packages = published_index.from_lock(index, name, environment).partition(": ")
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
    table = markdown_table(
        ["device and campaign", "run", "kept as", "commit", "from the lock", "why"],
        rows,
        words=range(6),
    )
    return with_legend(
        table,
        *(
            [f"Not from the lock: {', '.join(f'`{package}`' for package in sorted(others))}"]
            if others
            else []
        ),
    )
