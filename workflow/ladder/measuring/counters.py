"""Hardware counters of every rung's best configuration, from Nsight Compute (`ncu`): the models are
compared with them.

`python -m ladder.measuring.counters TASK`, started below `ncu`, launches one configuration once.
"""

import contextlib
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ladder.analysis.kernel_model import KEY
from ladder.analysis.tables import headline_problem
from ladder.compiling import toolchain
from ladder.devices import simulation
from ladder.measuring.worker import opener
from ladder.model import kernel_file
from ladder.model.kernel import SUFFIXES, Configuration, Kernel
from ladder.model.problem import Problem

SECONDS = 600.0
"""Time limit for counting one kernel."""
METRICS = {
    "global_read_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_write_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "l2_read_sectors": "lts__t_sectors_srcunit_tex_op_read.sum",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "shared_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "shared_read_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_write_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "read_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "write_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "instructions": "sm__inst_executed.sum",
    "multiply_adds": "sm__sass_thread_inst_executed_op_ffma_pred_on.sum",
    "issue_percent": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "warps_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
}
"""Column of `counters.csv` -> metric of Nsight Compute (its guide, "Metrics Reference"), for one
GEMM. Caches are flushed before each launch.
"""
STALLS = {
    name: f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio"
    for name in (
        "barrier",
        "branch_resolving",
        "dispatch_stall",
        "drain",
        "gmma",
        "imc_miss",
        "lg_throttle",
        "long_scoreboard",
        "math_pipe_throttle",
        "membar",
        "mio_throttle",
        "misc",
        "no_instruction",
        "short_scoreboard",
        "sleeping",
        "tex_throttle",
        "wait",
    )
}
"""Why warps wait -> metric (Nsight Compute's "Warp State Statistics"): waiting warps per issued
instruction.
"""
CYCLES = "sm__cycles_active.sum"
"""The weight of a launch's ratios."""
ORIGIN = ["device", "uuid", "commit", "dirty"]
"""Columns with the device and the code of the counts, which may differ from those of the
dataset.
"""
OF_PROBLEM = ("m", "n", "k", "element_type", "alpha", "beta", "padding", "distribution")
COLUMNS = [*KEY, *ORIGIN, "binary_sha256", "reason", *METRICS, "bank_conflicts", "stalls"]


class NotCounted(Exception):
    """Nsight Compute is missing, refused, or gave no counts. The message says why."""


def _number(row: Mapping[str, str], metric: str) -> float:
    """Return a number of the table. Raises `ValueError` if it is none."""
    return float((row.get(metric) or "").replace(",", ""))


def parse(text: str, metrics: Iterable[str] = METRICS.values()) -> dict[str, float]:
    """Return the `metrics` in the output of `ncu --csv --page raw --print-units base`, in bytes,
    counts and percent: sums over its launches.

    Of ratios they are means, weighted by the cycles of each launch: a short one that adds up counts
    little.

    The table begins at the line with the column `ID`, and its first row has the units. Lines before
    it are from the program or from ncu itself. Raises `NotCounted` if there is no table, with ncu's
    own error if it gave one.
    """
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID",')), len(lines))
    # the first row has the units, and no ID
    launches = [row for row in csv.DictReader(lines[start:]) if (row["ID"] or "").isdigit()]
    if not launches:
        errors = [line for line in lines if line.startswith("==ERROR==")]
        last = [*(errors or lines[-1:]), "it printed nothing"][0]
        raise NotCounted(f"ncu gave no counts: {re.sub('==[A-Z]+==', '', last).strip()}")
    counted = {}
    for metric in metrics:
        values = []
        for row in launches:
            with contextlib.suppress(ValueError):  # n/a: this GPU has no such counter
                weight = _number(row, CYCLES) if row.get(CYCLES) else 1.0
                values.append((_number(row, metric), weight))
        if values and metric.endswith(".sum"):
            counted[metric] = sum(value for value, _ in values)
        elif values:
            weights = sum(weight for _, weight in values)
            counted[metric] = sum(value * weight for value, weight in values) / weights
    return counted


def stalls(values: Mapping[str, float], most: int = 3) -> str:
    """Return the `most` frequent reasons why warps wait, each with waiting warps per issued
    instruction; "" if `values` has none.
    """
    reasons = [
        (values[metric], name.replace("_", " "))
        for name, metric in STALLS.items()
        if values.get(metric)
    ]
    return ", ".join(
        f"{name} {float(f'{value:.2g}'):g}"
        for value, name in sorted(reasons, key=lambda reason: -reason[0])[:most]
    )


def profile(
    task: Mapping[str, Any], metrics: Iterable[str] = (*METRICS.values(), *STALLS.values())
) -> dict[str, float]:
    """Run a task below `ncu`, which must be on the PATH, and return the metrics. Raises
    `NotCounted`.
    """
    if not task["kernel"].endswith(SUFFIXES["cuda"]):
        raise NotCounted("Nsight Compute counts on NVIDIA GPUs only")
    ncu = shutil.which("ncu")
    if not ncu:
        raise NotCounted("ncu (Nsight Compute) is not on the PATH")
    command = [
        ncu,
        "--csv",
        "--page",
        "raw",
        "--print-units",
        "base",
        "--clock-control",
        "none",
        "--kernel-name",
        f"regex:^({'|'.join(task['functions'])})$",
        "--metrics",
        ",".join([*metrics, CYCLES]),
        sys.executable,
        "-m",
        "ladder.measuring.counters",
        json.dumps(task),
    ]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env=toolchain.environment() | simulation.variables() | {"LC_ALL": "C"},
    )
    try:
        output, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # kills the program below ncu too
        process.communicate()
        raise NotCounted(f"no counts within {SECONDS:g} s") from None
    try:
        return parse(output, metrics)
    except NotCounted:
        print(output, file=sys.stderr)  # all of it, for the log
        raise


def tasks(
    best: pd.DataFrame,
    resources: pd.DataFrame,
    chosen: Mapping[str, Kernel],
    build: Path,
    support: Path,
    origin: Mapping[str, Any],
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return what to count for every kernel, on the problem that the ladder is shown at: a row's
    first columns, and the task.

    The columns are `KEY` to the binary's sha256. `origin` has the columns `ORIGIN`; its `uuid` is
    that of the GPU.
    """
    rated = best[best["tflops"].notna() & best["kernel"].isin(list(chosen))]
    if rated.empty:
        return []
    problem, state = headline_problem(rated), rated["state"].iloc[0]
    rows = rated[(rated["problem"].astype(str) == problem) & (rated["state"] == state)]
    names = ["kernel", "element_type", "configuration"]
    binaries = resources.set_index(names)[["binary", "sha256"]].to_dict("index")
    todo = []
    for row in rows.to_dict("records"):
        kernel = chosen[row["kernel"]]
        compiled = binaries[tuple(row[name] for name in names)]
        row = {"batch": 1} | row  # tables without batches have no column for them
        task = {
            "uuid": origin["uuid"],
            "support": str(support),
            "kernel": str(kernel.path),
            "functions": ["gemm", *(launch["function"] for launch in kernel.then)],
            "configuration": row["configuration"],
            "binary": str(build / kernel.name / compiled["binary"]),
            "problem": {
                **{name: row[name] for name in OF_PROBLEM},
                "layout": Configuration.of("", row["configuration"]).layout,
                "batch": row["batch"],
            },
        }
        key = {name: row[name] for name in KEY}
        todo.append((key | dict(origin) | {"binary_sha256": compiled["sha256"]}, task))
    return todo


def count(
    todo: Sequence[tuple[dict[str, Any], dict[str, Any]]],
    measure: Callable[[Mapping[str, Any]], dict[str, float]] = profile,
) -> pd.DataFrame:
    """Return a row per task: its counters, or the reason why it has none. If the first has none,
    the others are not tried.
    """
    rows: list[dict[str, Any]] = []
    for key, task in todo:
        if rows and rows[0].get("reason"):
            rows.append(key | {"reason": rows[0]["reason"]})
            continue
        try:
            counts = measure(task)
        except NotCounted as why:
            rows.append(key | {"reason": str(why)})
            continue
        counted = {column: counts.get(metric) for column, metric in METRICS.items()}
        conflicts = counted["read_conflicts"], counted["write_conflicts"]
        added = {
            "bank_conflicts": None if None in conflicts else sum(filter(None, conflicts)),
            "stalls": stalls(counts) or None,
        }
        rows.append(key | counted | added)
    return pd.DataFrame(rows, columns=COLUMNS)


def launch(task: Mapping[str, Any]) -> None:
    """Launch one configuration once, on operands like those of a measurement."""
    device = opener("cuda")(task["uuid"], Path(task["support"]))
    problem = Problem(**task["problem"])
    device.operands(problem)
    configuration = Configuration.of(problem.element_type, task["configuration"])
    device.check(
        device.kernel(
            kernel_file.parse(Path(task["kernel"])),
            configuration,
            Path(task["binary"]).read_bytes(),
        )
    )
    device.close()


if __name__ == "__main__":
    launch(json.loads(sys.argv[1]))
