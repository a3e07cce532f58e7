"""Whether what is claimed is reproduced on this machine, on its GPU where it has one, and how long it takes: `snakemake reproduce`.

    .venv/bin/python studies/elsewhere.py [OPTION...]      some minutes; options of Snakemake, such as --config campaign=reproduce-short

Measured are the seconds and the exit status of the command, and what it said to the claims that are held against this machine: how often
each, and the claims that were not reproduced.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from ladder.claims.answers import STUDIES
from ladder.claims.study import binaries, command_line
from ladder.core.files import ROOT
from ladder.devices.detect import detect_cpu, detect_gpus
from ladder.devices.lock import first_gpu
from ladder.storage.dataset_layout import PUBLISHED

STUDY = STUDIES["elsewhere"]


def read(folder: Path) -> dict[str, Any]:
    """Of a campaign's folder, what was said to the claims that were held against its own datasets."""
    entries = json.loads((folder / "reproduced.json").read_text())
    own = [entry for entry in entries if str(entry["dataset"]).startswith(f"results/{folder.name}/")]
    return {
        "states": dict(Counter(entry["state"] for entry in own).most_common()),
        "not_reproduced": [entry["id"] for entry in own if entry["state"] == "not reproduced"],
    }


def published(folder: Path) -> set[str]:
    """The UUIDs of the GPUs that took part in what is published, and the models of the CPUs, which have none."""
    environments = [json.loads(path.read_text()) for path in folder.rglob("environment.json")]
    return {one for environment in environments for one in environment["fingerprint"].get("uuids", [environment["device"]])}


def main() -> None:
    """Run it, and write what was said."""
    _, options = command_line(__doc__).parse_known_args()
    device = first_gpu() if detect_gpus() else detect_cpu()
    start = time.perf_counter()
    command = [sys.executable, "-m", "snakemake", "--cores", "all", "reproduce", *options]
    status = subprocess.run(command, cwd=ROOT, env=os.environ | {"NO_COLOR": "1"}, check=False).returncode
    spent = time.perf_counter() - start
    name = next((one.partition("=")[2] for one in options if one.startswith("campaign=")), "reproduce")
    results = ROOT / "results" / name
    took_part = bool(published(ROOT / PUBLISHED) & {*device.uuids, device.slug})
    measured = read(results) | {"seconds": spent, "exit_status": status, "took_part": took_part}
    STUDY.write(device, measured, uuids=list(device.uuids), binaries=binaries(results))
    sys.exit(status)


if __name__ == "__main__":
    main()
