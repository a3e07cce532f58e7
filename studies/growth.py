"""How much more each stage of the pipeline takes for a larger campaign, on made-up data.

    .venv/bin/python studies/growth.py               campaigns of two sizes along each axis
    .venv/bin/python studies/growth.py --large       a size more, and 50 kernels x 200 configurations x 200 problems
    .venv/bin/python studies/growth.py --axis NAME   one axis: kernels, configurations, problems, devices, journal

Kernels are small files in a copy of the project. Samples are seeded, and lie there as a campaign leaves
them; none was measured. Snakemake runs the stages, so each includes its start and its planning. A stage that
exceeds a limit is ended, and is a line of the table like others. CPU seconds are of all processes of a stage,
MB of the largest, files and their MB those that it writes. `growth` is the exponent: 1 is linear.
"""

import hashlib
import json
import math
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
from answer import command_line
from checkout import Checkout
from ladder.core.places import HOME
from ladder.model.problem import Problem
from ladder.storage import samples
from ladder.storage.columns import names
from ladder.storage.dataset_layout import PUBLISHED, read_environment
from ladder.storage.published_index import HEADLINE, featured

DEVICE: dict[str, Any] = {
    **read_environment(featured(HOME / PUBLISHED)[HEADLINE] / "environment.json"),
    "device": "nvidia-made-up",
    "name": "NVIDIA Made Up",
    "fingerprint": {"driver": "1", "uuids": ["GPU-1c0ffee-0000"]},
    "project": {"commit": "0" * 40, "dirty": False},
}
"""The `environment.json` of a device that does not exist."""
KERNEL = """/*---
title: kernel {0}
idea: made up
parameters: {{U: 1}}
sweep: {{U: {1}}}
block: [32]
grid: [1]
---*/
extern "C" __global__ void gemm(int M, int N, int K, T alpha, const T* A, int lda, const T* B, int ldb, T beta, T* C, int ldc) {{}}
"""
OPTIONS = ["--quiet", "host", "--configfile", "config/made.yaml", "--cores=1"]
NOISE = np.exp(np.random.default_rng(0).normal(0, 0.002, (4096, 12)))


class Size(NamedTuple):
    """The size of a campaign."""

    kernels: int
    configurations: int
    problems: int
    devices: int = 1


AXES = {
    "kernels": [Size(n, 2, 10) for n in (20, 200, 2000)],
    "configurations": [Size(2, n, 10) for n in (10, 1000, 10_000)],
    "problems": [Size(20, 10, n) for n in (10, 100, 1000)],
    "devices": [Size(20, 2, 10, n) for n in (1, 4, 16)],
    "all": [Size(5, 20, 20), Size(50, 20, 20), Size(50, 200, 200)],
}
JOURNAL = (10_000, 100_000, 1_000_000)
"""Records of a journal."""


class Cost(NamedTuple):
    """What a stage took. `failed` says how it ended otherwise than well."""

    cpu: float
    mb: float
    files: int
    written_mb: float
    printed: str
    failed: str


def kernels(size: Size) -> dict[str, str]:
    """The texts of the kernels' files, by name."""
    values = list(range(1, size.configurations + 1))
    return {f"{n:02}_made": KERNEL.format(n, values) for n in range(size.kernels)}


def campaign(size: Size) -> dict[str, Any]:
    """The data of the campaign's file."""
    machine = {"device": DEVICE["device"], "architecture": "sm_90"}
    return {
        "campaign": "made",
        "kernels": ["cuda/*"],
        "problems": {"cuda": [[64 + n, 64, 64] for n in range(size.problems)]},
        "partitions": {f"d{n}": machine for n in range(size.devices)},
        "baselines": {"cuda": ["cublas"]},
    }


class Made(Checkout):
    """A copy of the project with a campaign of a size. `seconds` and `megabytes` limit a stage."""

    def __init__(
        self, folder: Path, size: Size, seconds: float = 600, megabytes: float = 6000
    ) -> None:
        super().__init__(folder)
        self.seconds, self.megabytes, self.rows = seconds, megabytes, 0
        for path in (folder / "kernels" / "cuda").iterdir():
            path.unlink()
        for name, text in kernels(size).items():
            self.write(f"kernels/cuda/{name}.cu", text)
        self.write("config/made.yaml", json.dumps(campaign(size)))  # JSON is YAML
        self.results = folder / "results" / "made"
        self.devices = list(campaign(size)["partitions"])

    def run(self, *arguments: str) -> Cost:
        """Run Python with these arguments, and end it where it takes too much."""
        before, cpu, most, failed = self._files(), dict[int, float](), 0.0, ""
        with tempfile.TemporaryFile("w+") as printed:
            process = psutil.Popen(
                [self.python, *arguments],
                cwd=self.folder,
                stdout=printed,
                stderr=subprocess.STDOUT,
                env=os.environ | {"NO_COLOR": "1"},
            )
            while process.poll() is None and not failed:
                for each in (process, *process.children(recursive=True)):
                    try:
                        times, most = each.cpu_times(), max(most, each.memory_info().rss / 1e6)
                    except psutil.NoSuchProcess:
                        continue
                    cpu[each.pid] = times.user + times.system
                if most > self.megabytes or sum(cpu.values()) > self.seconds:
                    failed = "ended: above a limit"
                    for each in (*process.children(recursive=True), process):
                        each.kill()
                psutil.wait_procs([process], timeout=0.05)
            if process.wait() not in (0, 4):
                failed = failed or f"exit code {process.returncode}"
            printed.seek(0)
            text = printed.read()
        sizes = [stat[0] for path, stat in self._files().items() if before.get(path) != stat]
        return Cost(sum(cpu.values()), most, len(sizes), sum(sizes) / 1e6, text, failed)

    def _files(self) -> dict[Path, tuple[int, int]]:
        found = (path for path in (self.folder / "results").rglob("*") if path.is_file())
        return {path: ((stat := path.stat()).st_size, stat.st_mtime_ns) for path in found}

    def measure(self) -> None:
        """Write what compilers and measure jobs leave, by the plans of these jobs."""
        for device in self.devices:
            plans = {
                path.stem.split("-", 2)[2]: json.loads(path.read_text())["plan"]
                for path in sorted(self.results.glob(f"plans/measure-{device}-*.json"))
            }
            blocks = {
                path.stem.removeprefix(f"confirm-{device}"): {
                    problem["m"] for problem in json.loads(path.read_text())["plan"]["problems"]
                }
                for path in self.results.glob(f"plans/confirm-{device}*.json")
            }
            self.rows += write(self.results / device, plans, blocks)
        for kernel, lines in reports(plans).items():
            self.write(f"results/made/build/sm_90/{kernel}/resources.csv", HEAD + lines)
        self.write("results/made/build/sm_90/support.bin", "")

    def stages(self) -> Iterator[tuple[str, Cost]]:
        """Run each stage; yields its name and what it took."""
        snakemake, made = ["-m", "snakemake", *OPTIONS], "results/made"
        yield "plan", self.run(*snakemake, "--dry-run")
        self.measure()
        yield "finalists", self.run("-c", FINALISTS)
        targets = {
            "aggregate": [f"{made}/{device}/summary.csv" for device in self.devices],
            "figures": [f"{made}/{device}/figures" for device in self.devices],
            "claims": [f"{made}/{device}/claims.json" for device in self.devices],
            "index": [f"{made}/index.html"],
            "compare": [f"{made}/compared-cuda.svg"] if len(self.devices) > 1 else [],
        }
        for rule, files in targets.items():
            only = ["--rerun-triggers", "mtime", "--allowed-rules", rule]
            if files:
                yield rule, self.run(*snakemake, *files, *only)
        first = f"{made}/{self.devices[0]}"
        yield "ladder compare", self.run("-m", "ladder", "compare", first, first)
        options = ["made up", "--not-from-lock"]
        yield "ladder publish", self.run("-m", "ladder", "publish", first, *options)
        self.run(*snakemake, "--touch", "--forceall", "--no-hooks")
        yield "nothing to do", self.run(*snakemake)


def write(
    folder: Path, plans: Mapping[str, Any], blocks: Mapping[str, set[int] | None] | None = None
) -> int:
    """Write a dataset as a campaign leaves it, by the plans of its measure jobs; returns how many
    rows it has. The first two configurations of each kernel are its finalists. `blocks` has each M
    of the parts of the confirmation.
    """
    random, digests, count = np.random.default_rng(0), {}, 0
    finalists: list[dict[str, Any]] = []
    numbers = ("wall_seconds", "busy_seconds", "children", "measured", "peak_memory_bytes")
    session = {"fingerprint": DEVICE["fingerprint"], "code": "made up", **DEVICE["project"]}
    session |= dict.fromkeys(numbers, 1)
    (folder / "samples").mkdir(parents=True, exist_ok=True)
    (folder / "environment.json").write_text(json.dumps(DEVICE))
    for job, plan in plans.items():
        rows, path = list(swept(plan, random)), folder / "samples" / f"{job}.parquet"
        samples.write(path, rows, session | {"job": job})
        digests[job] = hashlib.sha256(path.read_bytes()).hexdigest()
        finalists += [row for row in rows if row["configuration"] in ("-", "U=1", "U=2")]
        count += len(rows)
    again = [
        row
        | {"process": process, "role": "finalist" if row["configuration"] == "U=2" else "best"}
        | timed(row["samples_us"][0], row["reference_us"][0], 8, "max_samples", random)
        for process in range(1, 6)
        for row in finalists
    ]
    about: dict[str, Any] = {"jobs": digests, "within": 0.02}
    for part, sizes in (blocks or {"": None}).items():
        rows = [row for row in again if sizes is None or row["m"] in sizes]
        about["job"] = f"confirmed{part}"
        samples.write(folder / f"confirmed{part}.parquet", rows, session | about)
    (folder / "resources.csv").write_text(HEAD + "".join(reports(plans).values()))
    return count + len(again)


HEAD = ",".join(names("resources")) + "\n"
"""The first line of the compilers' reports."""


def reports(plans: Mapping[str, Any]) -> dict[str, str]:
    """The compilers' reports by kernel, without their first line."""
    lines: dict[str, str] = {}
    for plan in plans.values():
        for name, label in ((each["name"], each["label"]) for each in candidates(plan)):
            if name != "cublas":
                line = f"{name},{label},float32,{label},sm_90,compiled,nvcc,1,,,a,{name} {label}"
                lines[name] = f"{lines.get(name, '')}{line},gemm,64,0,0,0,0,0.5,1\n"
    return lines


def candidates(plan: Mapping[str, Any]) -> list[dict[str, str]]:
    """The candidates of a measure job."""
    return [each for share in plan["shares"] for each in share["candidates"]]


def timed(
    us: float, reference_us: float, n: int, stop: str, random: np.random.Generator
) -> dict[str, Any]:
    """The columns of n samples."""
    ours, theirs = NOISE[random.integers(len(NOISE), size=2), :n]
    return {
        "stop": stop,
        "samples_us": (us * ours).tolist(),
        "reference_us": (reference_us * theirs).tolist(),
        "samples_throttle_reasons": [0] * n,
    }


def swept(plan: Mapping[str, Any], random: np.random.Generator) -> Iterator[dict[str, Any]]:
    """The rows of a measure job: 12 samples each, or 5 where the race ended them."""
    alike = {
        "device": DEVICE["device"],
        "uuid": DEVICE["fingerprint"]["uuids"][0],
        "status": "correct",
        "state": "warm",
        "repeats": 1,
        "race": True,
        "frobenius_error": 1e-7,
        "component_error": 2e-7,
        "component_bound": 2e-6,
        "key": "",
        "time": "2026-01-01",
        "sm_clock_mhz": 1980.0,
        "other_processes": 0.0,
    }
    for problem in plan["problems"]:
        reference_us = 2.5 + Problem(**problem).flops / 50e6
        for given in candidates(plan):
            place = int(given["label"].removeprefix("U=").replace("-", "0"))
            n, stop = (5, "race") if place > 3 else (12, "target")
            yield {
                **alike,
                **problem,
                "kernel": given["name"],
                "configuration": given["label"],
                "reference": plan["reference"],
                **timed(reference_us * (1 + 0.01 * place), reference_us, n, stop, random),
            }


FINALISTS = """
from pathlib import Path
from ladder.measuring.confirmation import finalists
from ladder.measuring.protocol import Candidate
from ladder.storage.samples import read
rows = (row for path in Path("results/made/d0/samples").iterdir() for row in read(path)[0])
finalists(rows, 0.02, 3, lambda name, _, label, precision: Candidate(name, label, sha256=name + label))
"""
RESUME = """
import os, sys
from pathlib import Path
from ladder.storage.journal import Journal
os.fsync = lambda file: None
journal = Journal(Path("results/made/journal"))
row = {"samples_us": [1.234567] * 12, "reference_us": [1.234567] * 12, "reason": "x" * 800}
for number in range(int(sys.argv[1])):
    journal.append({"key": f"{number:032}"} | row)
"""


def line(axis: str, size: str, stage: str, rows: int, cost: Cost, growth: str) -> str:
    """A line of the table."""
    jobs = (re.search(r"^total +(\d+)$", cost.printed, re.MULTILINE) or [""] * 2)[1]
    return (
        f"{axis:15}{size:17}{stage:15}{rows:>10,}{jobs:>8}{cost.cpu:9.1f}{cost.mb:8.0f}"
        f"{cost.files:7}{cost.written_mb:9.1f}  {growth:6}  {cost.failed}"
    )


def measured(axis: str, sizes: int, *limits: float) -> Iterator[str]:
    """Measure an axis at so many sizes; yields the lines of the table."""
    before: dict[str, tuple[float, float]] = {}

    def growth(stage: str, work: float, cpu: float) -> str:
        least, took = before.get(stage, (work, cpu))
        before[stage] = work, cpu
        both = work > least and cpu and took
        return f"{math.log(cpu / took) / math.log(work / least):.2f}" if both else ""

    with tempfile.TemporaryDirectory() as folder:
        if axis == "journal":
            made = Made(Path(folder), Size(1, 1, 1), *limits)
            for count in JOURNAL[:sizes]:
                made.run("-c", RESUME, str(count))
                cost = made.run("-c", RESUME, "0")
                yield line(axis, "", "resume", count, cost, growth(axis, count, cost.cpu))
            return
        for size in AXES[axis][:sizes]:
            name = "x".join(map(str, size))
            made = Made(Path(folder) / name, size, *limits)
            for stage, cost in made.stages():
                exponent = growth(stage, math.prod(size), cost.cpu)
                yield line(axis, name, stage, made.rows, cost, exponent)


def main() -> None:
    """Measure and print."""
    parser = command_line(__doc__)
    parser.add_argument("--large", action="store_true", help="a size more of each axis")
    parser.add_argument("--axis", choices=[*AXES, "journal"], help="one axis only")
    parser.add_argument("--seconds", type=float, default=600, help="CPU time of a stage at most")
    parser.add_argument("--mb", type=float, default=6000, help="memory of a stage at most")
    given = parser.parse_args()
    print(
        "axis           size             stage                rows    jobs    CPU s      MB  files"
        "  written  growth"
    )
    for axis in [given.axis] if given.axis else [*AXES, "journal"]:
        for each in measured(axis, 2 + given.large, given.seconds, given.mb):
            print(each, flush=True)


if __name__ == "__main__":
    main()
