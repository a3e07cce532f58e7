"""Whether anything is lost when a campaign is killed at random steps; half a minute a kill.

    .venv/bin/python tests/support/kill.py 50 [SEED]

Each kill is a SIGKILL to the child that measures, to its job, to Snakemake alone (whose jobs go on without it), or to all of them at once.
It strikes once a random number of jobs and lines of journals has been begun, however fast the machine is. The next run follows at once.
When a campaign is done it must have what an undisturbed one has, with every sample that a journal had when a kill struck, and the next
campaign begins from nothing.
"""

import csv
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil
from ladder.claims.answers import STUDIES
from ladder.claims.study import command_line
from ladder.devices.detect import detect_cpu
from ladder.storage import journal
from ladder.storage import samples as records
from planted import C_RIGHT, Project, c_kernel
from waiting import wait_until

CAMPAIGN = """
campaign: kill
devices: [cpu]
architectures: [sm_80]
kernels: [cpu/02_reordered_ikj, cpu/90_many]
problems: {cpu: [{square: [24, 48]}]}
measure: {min_samples: 10, max_samples: 10, sample_us: 3000, target: 0.000001, race: false}
confirm: {processes: 3, rounds: 3}
"""
COMMAND = ["--configfile", "config/test.yaml"]
TARGETS = ("child", "job", "snakemake", "all")


def _by_name(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Rows by their key; of those of the confirmation, whose rounds have one key, by kernel and configuration too."""
    return {" ".join([row["key"], *([row["kernel"], row["configuration"]] if row.get("process") else [])]): row for row in rows}


class Disturbed(Project):
    """A copy of the project whose campaign gets killed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        # all but U=1 take longer: which configurations are confirmed must not be left to chance
        slow = "if (U > 1) for (volatile long i = 0; i < (long)M * N * K; ++i);"
        sweep = f"parameters: {{U: 1}}\nsweep: {{U: {list(range(1, 12))}}}\n---*/"
        self.write("kernels/cpu/90_many.c", c_kernel("many", slow + C_RIGHT).replace("---*/", sweep, 1))
        self.campaign(CAMPAIGN)
        self.start_of_campaign()

    def start_of_campaign(self) -> None:
        """Forget all results."""
        for path in sorted((self.folder / "results").rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()

    def start(self) -> subprocess.Popen[bytes]:
        """Start Snakemake as the leader of a process group of its own."""
        return subprocess.Popen(
            [self.python, "-m", "snakemake", "--cores", "1", *COMMAND],
            cwd=self.folder, stdout=(self.folder / "log").open("wb"), stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def processes(self) -> dict[str, psutil.Process]:
        """The child and the job that run now, and the job's script by name, of all processes that work in the folder."""
        running = {}
        for process in psutil.process_iter():
            try:
                line, here = " ".join(process.cmdline()), process.cwd() == str(self.folder)
            except (psutil.Error, OSError):  # gone, or not ours
                continue
            if here and "ladder.measuring.worker_start" in line:
                running["child"] = process
            elif here and "/.snakemake/scripts/" in line and "/bin/bash" not in line:
                running["job"] = process
        return running

    def steps(self) -> int:
        """How far the campaign is: lines in all journals, and jobs that the present run has begun."""
        journals = self.folder.glob("results/kill/*/**/*.journal")
        jobs = re.findall(r"^(?:local)?rule \w+:$", (self.folder / "log").read_text(errors="replace"), re.MULTILINE)
        return len(jobs) + sum(path.read_bytes().count(b"\n") for path in journals)

    def journaled(self) -> dict[str, dict[str, Any]]:
        """The measurements that the journals have now, each once; what they have of the gauntlet has no samples."""
        journals = self.folder.glob("results/kill/*/**/*.journal")
        parsed = filter(None, map(journal._parse, (line for path in journals for line in path.read_bytes().split(b"\n"))))
        rows = (row | {"key": record["key"]} for record in parsed for row in record.get("rows", [record]))
        measured = [row for row in rows if row.get("samples_us")]
        assert len(measured) == len(_by_name(measured)), "measured again what a journal had"
        return _by_name(measured)

    def samples(self) -> dict[str, dict[str, Any]]:
        """All rows of the sample files, by key."""
        rows = [row for path in self.folder.glob("results/kill/*/**/*.parquet") for row in records.read(path)[0]]
        assert len(rows) == len(_by_name(rows))
        return _by_name(rows)

    def outcome(self) -> dict[str, Any]:
        """What must be the same however often a campaign was killed: all but times and rates."""
        (folder,) = (self.folder / "results" / "kill").glob("cpu-*")

        def rows(path: Path, *columns: str) -> list[tuple[str, ...]]:
            with path.open() as file:
                return [tuple(row[column] for column in columns) for row in csv.DictReader(file)]

        what = ("kernel", "configuration", "problem", "element_type", "state", "status", "reason")
        return {
            "keys": sorted(row["key"] for row in self.samples().values() if not row["process"]),
            # who is a finalist, chance decides
            "rounds": sorted({(row["process"], row["m"], row["state"]) for row in self.samples().values() if row["process"]}),
            "summary": rows(folder / "summary.csv", *what, "samples", "stop"),
            "best": rows(folder / "best.csv", "kernel", "problem", "configurations", "interval", "processes"),
            "costs": rows(folder / "costs.csv", "job"),
            "figures": sorted(path.name for path in (folder / "figures").glob("*.*")),
            "environment": sorted(json.loads((folder / "environment.json").read_text())),
            "binaries": [
                rows(path, "slug", "status", "sha256")
                for path in sorted((self.folder / "results" / "kill" / "build").glob("*/*/resources.csv"))
            ],
        }


def strike(project: Disturbed, target: str, step: int | None) -> tuple[str, int, dict[str, Any]]:
    """Run, and kill at a step (None for never); returns what was going on ("" if the run ended before), the exit code and the journals.

    A child or a job that is not there yet is waited for.
    """
    process = project.start()
    if step is None:
        process.wait()

    def there() -> bool:
        return project.steps() >= (step or 0) and (target not in ("child", "job") or target in project.processes())

    # not more often: the campaign takes the looks for another program's use of the CPU
    wait_until(lambda: process.poll() is not None or there(), f"step {step}", 0.05)
    running, had = project.processes(), project.journaled()
    if process.poll() is not None:
        return "", process.wait(), had
    try:
        during = running["job"].cmdline()[-1].rsplit(".", 2)[-2] if "job" in running else "no job"
        if target == "snakemake":
            process.kill()
        elif target == "all":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            running[target].kill()
    except (psutil.NoSuchProcess, KeyError):  # it ended by itself in this very moment
        return "", process.wait(), had
    if target in ("job", "all"):
        _, alive = psutil.wait_procs(running.values(), timeout=60)
        # in a container nothing reaps zombies
        alive = [process for process in alive if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
        assert not alive, f"left behind when {target} was killed: {alive}"
    return during, process.wait(), had


def kill(count: int, seed: int, folder: Path) -> dict[str, Any]:
    """Kill `count` times; return what was counted. Raises `AssertionError` if anything is lost, or repeated without need."""
    start, choose, project = time.monotonic(), random.Random(seed), Disturbed(folder)
    project.write("log", project.ok(*COMMAND))
    whole, steps = project.outcome(), project.steps()
    kills: list[tuple[str, str]] = []
    campaigns = 0
    while len(kills) < count:
        project.start_of_campaign()
        had: dict[str, dict[str, Any]] = {}
        done = False
        while not done:
            target = TARGETS[len(kills) % len(TARGETS)]
            step = choose.randint(1, steps) if len(kills) < count else None
            during, code, seen = strike(project, target, step)
            had |= seen | project.journaled()
            if during:
                kills.append((target, during))
                print(
                    f"{len(kills)}: {target} during {during}, {len(had)} measurements in the journals",
                    file=sys.stderr,
                    flush=True,
                )
            done = code == 0
            assert done or (during and target != "child"), (project.folder / "log").read_text()[-3000:]
        campaigns += 1
        outcome = project.outcome()
        differs = {name: (outcome[name], whole[name]) for name in whole if outcome[name] != whole[name]}
        assert not differs, f"not what an undisturbed campaign has: {differs}"
        final = project.samples()
        for key, record in had.items():
            assert final[key]["samples_us"] == record["samples_us"], "a sample was lost"
    return {
        "kills": len(kills), "seed": seed, "killed": dict(Counter(target for target, _ in kills)),
        "during": dict(Counter(during for _, during in kills)), "campaigns_finished": campaigns,
        "measurements_a_campaign": len(whole["keys"]), "measurements_lost": 0, "seconds": round(time.monotonic() - start),
    }  # fmt: skip


def main() -> None:
    """Kill, and write what was lost."""
    parser = command_line(__doc__)
    parser.add_argument("kills", type=int)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        counted = kill(given.kills, given.seed, Path(scratch) / "project")
    STUDIES["kill"].write(detect_cpu(), counted)


if __name__ == "__main__":
    main()
