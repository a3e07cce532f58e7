"""How much sooner the default campaign is done on all GPUs of a machine than on one of them, with as many cores.

    .venv/bin/python studies/several_gpus.py FOLDER [--cores 8]

Runs it in two fresh clones, FOLDER/all and FOLDER/one, one after the other. Measured are wall times in seconds, and of the measure jobs the
sum, and the GPUs used. Exit status 1 where four GPUs or more take longer than a third of the time.
"""

import csv
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from checkout import interpreter
from ladder.claims.answers import STUDIES
from ladder.claims.study import command_line
from ladder.core.errors import InputError
from ladder.core.files import ROOT
from ladder.devices import detect

MOST = 1 / 3


STUDY = STUDIES["several_gpus"]


def campaign(clone: Path, cores: int, gpus: int) -> dict[str, Any]:
    """The default campaign in a fresh clone."""
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    python = interpreter(clone / ".venv", clone / "workflow")
    command = [python, "-m", "snakemake", "--cores", str(cores), "--resources", f"gpu={gpus}"]
    subprocess.run([*command, "--dry-run"], cwd=clone, check=True, stdout=subprocess.DEVNULL)  # files are cached for both alike
    start = time.perf_counter()
    subprocess.run(command, cwd=clone, check=True, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - start
    (folder,) = (clone / "results" / "default").glob("nvidia-*")
    with (folder / "costs.csv").open(newline="") as file:
        jobs = list(csv.DictReader(file))
    with (folder / "summary.csv").open(newline="") as file:
        used = sorted({row["uuid"] for row in csv.DictReader(file)} - {""})
    return {"gpus": gpus, "wall_s": wall, "measure_jobs_s": sum(float(row["wall_seconds"]) for row in jobs), "uuids": used}


def main() -> None:
    """Run both, print and write."""
    parser = command_line(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cores", type=int, default=8)
    given = parser.parse_args()
    device = next(iter(detect.detect_gpus()), None)
    if device is None:
        raise InputError("no GPU is to be seen; expected some of one model")
    runs = []
    for name, gpus in (("all", len(device.uuids)), ("one", 1)):
        runs.append(campaign(given.folder / name, given.cores, gpus))
        print(f"{gpus} GPU(s): {runs[-1]['wall_s']:.1f} s, of which measuring {runs[-1]['measure_jobs_s']:.1f} s", flush=True)
    STUDY.write(device, {"cores": given.cores, "cores_of_machine": os.cpu_count(), "runs": runs}, uuids=list(device.uuids))
    sys.exit(int(len(device.uuids) >= 4 and runs[0]["wall_s"] > MOST * runs[1]["wall_s"]))


if __name__ == "__main__":
    main()
