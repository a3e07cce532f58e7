"""Kernels written to be called correct without being so, and what must become of each.
docs/frauds.md describes them.
"""

import json
import re
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from textwrap import indent
from typing import Any

import yaml
from ladder.compiling.compile import compile_kernel, compile_support
from ladder.core.clock import Clock, Readable
from ladder.core.stats import median_interval
from ladder.core.types import LAYOUTS
from ladder.devices.detect import DetectedDevice
from ladder.measuring import sweep
from ladder.measuring.job import Job
from ladder.measuring.probe import probe
from ladder.measuring.supervisor import Child
from ladder.model.baselines import BASELINES
from ladder.model.campaign import Limits
from ladder.model.kernel import Configuration, Kernel
from ladder.model.kernel_file import discover
from ladder.model.problem import Problem
from ladder.storage.samples import read

FOLDER = Path(__file__).resolve().parents[1] / "frauds"
INCLUDE = FOLDER / "include"
FRAUDS: Mapping[str, Mapping[str, Any]] = yaml.safe_load((FOLDER / "frauds.yaml").read_text())
PROBLEMS = {
    "deep": Problem(24, 20, 1300),
    "wide": Problem(330, 312, 8),
    "short": Problem(12, 12, 16, distribution="denormal"),
    **{layout: Problem(40, 36, 24, padding="1,2,0", layout=layout) for layout in LAYOUTS[1:]},
    "batch": Problem(24, 20, 40, padding="1,2,0", batch=150),
    "blocks": Problem(40, 272, 400, "float8_e4m3_blocks", padding="16,0,8", layout="nt"),
}
"""K, and C, beyond those of the gauntlet; and launches so short that they are repeated, of numbers
that only a campaign can ask for. Those of other layouts, and the batch, are for the kernels that
support them.
"""
CAUGHT = {
    "nothing": "",
    "cubin": "",
    "gauntlet": r"on M=\d+ N=\d+ K=.*: .*",
    "exact": r"(?=C\[).*",
    "audit": r"while timed: sample \d+: .*",
    "ceiling": "",
    "any": "",
    "supervision": "",
}
"""Where a fraud is caught, as docs/frauds.md explains it, and what its reason begins with."""
CONTROLS = [name for name in FRAUDS if name.startswith("right_")]
IN_HEADER = (
    *("title", "idea", "element_types", "layouts", "batch", "precision"),
    *("needs", "workspace", "then", "block", "grid"),
)
FRAMES = {
    "cpu": (".c", '#include "fraud.h"', {}),
    "cuda": (
        ".cu",
        '#include "fraud.cuh"',
        {"block": [16, 16], "grid": ["ceil_div(N, 16)", "ceil_div(M, 16)"]},
    ),
}
"""Of each device kind: the suffix of a kernel's file, its first line, and what its header has."""
HONEST = 0.3
"""The least share of the plain control's time on a GPU: a kernel that skips its work takes far
less. On a CPU it notes what it computes.
"""
NOTES = "FRAUD_NOTES"
"""The environment variable that names the folder of those notes."""
LIMITS = Limits(race=False, target=-1.0, min_samples=40, max_samples=40, timeout_seconds=3)
"""As many samples as a confirmation takes: of one that cheats in every other launch six of seven
may look at launches that are right.
"""
SETTING_UP = 20.0
"""Seconds without a word from a GPU's worker, which loads libraries at first."""


class StuckClock(Clock):
    """Lets a time limit expire at once if a kernel has noted that it hangs, and otherwise hardly
    ever, however busy the machine is.
    """

    def __init__(self, note: Path) -> None:
        self.note, self.skipped = note, 0.0
        self.stuck: Readable | None = None
        """The connection to the process of the kernel that hangs."""

    def now(self) -> float:
        return self.skipped + super().now() / 1000

    def wait(self, connection: Readable, seconds: float) -> bool:
        if connection.poll(min(seconds, 0.05)):
            return True
        if self.note.exists():
            self.note.unlink()
            self.stuck = connection
        if connection is self.stuck:
            self.skipped += seconds
        return False


def by_kind() -> dict[tuple[str, str], Mapping[str, Any]]:
    """Return the entries of `FRAUDS` by device kind and name, each with what differs there, and the
    `status` that it must get.
    """
    entries = {}
    for name, fraud in FRAUDS.items():
        for kind in FRAMES:
            if fraud.get("kind", kind) == kind:
                entry = {"says": "", "only": "", **fraud, **fraud.get(kind, {})}
                status = "correct" if entry["by"] == "nothing" else "incorrect"
                entries[kind, name] = {"status": status, **entry}
    return entries


def code(fraud: Mapping[str, Any]) -> str:
    """Return the code of an entry of `by_kind`, from its pieces."""
    if "code" in fraud:
        return str(fraud["code"])
    each = fraud.get("each") or "\n".join(
        [
            "Acc sum = 0;",
            f"for (int k = 0; k < K; ++k) sum += {fraud.get('term', 'At(m, k) * Bt(k, n)')};",
            fraud.get("store", "STORE(sum);"),
        ]
    )
    loop = ["  EACH {", indent(each, "    "), "  }"]
    begins = {name: fraud.get(f"at_{name}", f"z * batch.stride_{name}") for name in "abc"}
    if fraud.get("batch"):
        first = "const T *A = As + {a}, *B = Bs + {b}; T *C = Cs + {c};".format_map(begins)
        loop = ["  PRODUCTS {", first, *loop, "  }"]
    with_workspace = "GEMM_WITH(T *workspace) {" if "workspace" in fraud else "GEMM {"
    pieces = [
        fraud.get("before", ""),
        "GEMM_OF_BATCH {" if fraud.get("batch") else with_workspace,
        indent(fraud.get("start", ""), "  "),
        *loop,
        indent(fraud.get("end", ""), "  "),
        "}",
    ]
    return "\n".join(piece.rstrip("\n") for piece in pieces if piece) + "\n"


def assemble(folder: Path) -> dict[str, Kernel]:
    """Write the files of all kernels to `folder`/kernels, as in a checkout; returns them by id."""
    for (kind, name), fraud in by_kind().items():
        suffix, include, header = FRAMES[kind]
        header = header | {key: fraud[key] for key in IN_HEADER if key in fraud}
        if fraud.get("batch") and "grid" in header:
            header["grid"] = [*header["grid"], "batch"]
        path = folder / "kernels" / kind / f"{name}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"/*---\n{yaml.safe_dump(header)}---*/\n{include}\n\n{code(fraud)}")
    (folder / "kernels" / "include").symlink_to(INCLUDE)
    return discover(folder)


def _compile(arch: str, folder: Path, item: tuple[int, Kernel]) -> Mapping[str, Any]:
    number, kernel = item
    layout = kernel.layouts[0]
    chosen = Configuration(
        kernel.element_types[0], (("F", number),), layout=layout, batched=kernel.batch
    )
    (row,) = compile_kernel(kernel, [(chosen, "")], arch, folder / kernel.name, 1)
    return asdict(row) | {"binary": str(folder / kernel.name / row.binary)}


def run(
    device: DetectedDevice, uuid: str, folder: Path, workers: int
) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Measure all kernels of a device's kind on all problems, as a campaign's measure jobs do;
    returns rows by kernel and problem.

    Those that are launched alike share a job: candidates differ in
    a parameter F that none of them looks at.
    """
    mine = [kernel for kernel in assemble(folder).values() if kernel.kind == device.kind]
    with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
        compiled = pool.map(partial(_compile, device.arch, folder), enumerate(mine))
        binaries = {kernel.name: row for kernel, row in zip(mine, compiled, strict=True)}
    support = folder / "support"
    support.write_bytes(compile_support(device.kind, device.arch))
    with closing(Child(device.kind, uuid, None)) as child:
        child.open(support)
        environment = probe(device, child)
    rows = {
        (kernel.name, kernel.element_types[0], binaries[kernel.name]["configuration"]): binaries[
            kernel.name
        ]
        for kernel in mine
    }
    alike: dict[str, list[Kernel]] = {}
    for kernel in mine:
        key = [kernel.geometry, kernel.element_types, kernel.layouts, kernel.batch]
        alike.setdefault(json.dumps(key), []).append(kernel)
    results: dict[str, dict[str, Mapping[str, Any]]] = {kernel.name: {} for kernel in mine}
    limits = LIMITS if device.kind == "cpu" else replace(LIMITS, timeout_seconds=SETTING_UP)
    names = {problem: name for name, problem in PROBLEMS.items()}
    for number, group in enumerate(alike.values()):
        share = {
            "name": str(number),
            "kernel": group[0].id,
            "geometry": group[0].geometry,
            "layouts": list(group[0].layouts),
            "batch": group[0].batch,
            "candidates": [
                {
                    "name": kernel.name,
                    "label": binaries[kernel.name]["configuration"],
                    "objection": "",
                    "precision": kernel.precision,
                }
                for kernel in group
            ],
        }
        plan = {
            "paths": {kernel.name: str(kernel.path) for kernel in group},
            "shares": [share],
            "problems": [
                asdict(problem)
                for problem in PROBLEMS.values()
                if problem.form == (group[0].layouts[0], group[0].batch)
                and problem.element_type == group[0].element_types[0]
            ],
            "reference": BASELINES[device.kind][0],
            "limits": asdict(limits),
        }
        job = Job(device.slug, device.kind, plan, rows, support, {}, "code", environment)
        sweep.run(job, folder, folder / f"{number}.parquet", [uuid])
        for row in read(folder / f"{number}.parquet")[0]:
            problem = Problem(**{name: row[name] for name in Problem.__dataclass_fields__})
            results[row["kernel"]][names[problem]] = row
    return results


def complaints(kind: str, results: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[str]:
    """Where a job did not say what it must."""
    messages = []
    for (of_kind, name), must in by_kind().items():
        for problem, row in results[name].items() if of_kind == kind else ():
            shows = must["only"] in ("", problem)
            reason = str(row["reason"] or "")
            pattern = f"{CAUGHT[must['by']] or '.*'}(?:{must['says']})"
            right = row["status"] == must["status"] and re.match(pattern, reason)
            if not (right if shows else row["status"] in ("correct", must["status"])):
                messages.append(
                    f"{name} on {problem}: {row['status']}, {reason!r}; expected {must['status']} "
                    f"by {must['by']}: {must['says']}"
                )
            if (
                kind == "cuda"
                and must["status"] == "correct"
                and row["samples_us"]
                and name not in CONTROLS
            ):
                honest = median_interval(results["right_plain"][problem]["samples_us"])[0]
                us = median_interval(row["samples_us"])[0]
                if us < HONEST * honest:
                    messages.append(
                        f"{name} on {problem}: {us:.3g} us, where right_plain takes {honest:.3g}"
                    )
    return messages
