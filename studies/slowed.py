"""Whether `snakemake reproduce` finds a kernel that has become 3 % slower, and names it: on a GPU whose model is published.

    .venv/bin/python studies/slowed.py        some minutes

Runs the short campaign of the claims in two copies of the project, as it is and with rung 15 slowed: every block of it ends as much later as
3 % of the clocks that it took. Measured is what each says to the claims, by state.
"""

import json
import re
import shutil
import tempfile
from pathlib import Path

from checkout import Checkout
from ladder.claims.answers import STUDIES
from ladder.claims.study import binaries, command_line
from ladder.core.files import ROOT
from ladder.devices.lock import first_gpu
from ladder.storage.dataset_layout import PUBLISHED

KERNEL = "15_last_wave"
PERCENT = 3
ASKED = ("reproduce", "--config", "campaign=reproduce-short", "devices=[cuda]", "kernels=[cuda/14*,cuda/15*,cuda/16*]")


STUDY = STUDIES["slowed"]


def slowed(source: str, percent: int) -> str:
    """The kernel file with a function `gemm` of which every thread waits for so many per cent of its own clocks before it ends."""
    begun = "  const long long begun = clock64();\n"
    wait = f"\n  const long long spent = clock64() - begun;\n  while (100 * (clock64() - begun - spent) < {percent} * spent);"
    made, count = re.subn(
        r"( gemm\([^)]*\) \{\n)(.*?)(\n\}\n)", rf"\g<1>{begun}\g<2>{wait}\g<3>", source, count=1, flags=re.DOTALL
    )
    assert count == 1
    return made


def verdicts_of(results: Path) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The ids of the claims by what the one campaign below `results` says to them of its own data, and the sha256 of what it timed."""
    (table,) = results.glob("reproduce-short*/reproduced.json")  # with kernels of its own the campaign has a name of its own
    states: dict[str, list[str]] = {"not reproduced": [], "reproduced": [], "not distinguishable": []}
    for entry in json.loads(table.read_text()):
        if str(entry["dataset"]).startswith(f"results/{table.parent.name}/") and entry["state"] in states:
            states[entry["state"]].append(entry["id"])
    return states, binaries(table.parent)


def reproduce(folder: Path, percent: int) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The ids of the claims by what the campaign in a copy of the project said to them, and the sha256 of what it timed."""
    project = Checkout(folder)
    shutil.copytree(ROOT / PUBLISHED, folder / PUBLISHED)
    path = f"kernels/cuda/{KERNEL}.cu"
    if percent:
        project.write(path, slowed((ROOT / path).read_text(), percent))
    done = project.snakemake(*ASKED)
    states, timed = verdicts_of(folder / "results")
    assert bool(states["not reproduced"]) == (done.returncode != 0), done.stdout[-8000:]
    return states, timed


def main() -> None:
    """Run both, and write what was found."""
    command_line(__doc__).parse_args()
    gpu = first_gpu()
    with tempfile.TemporaryDirectory() as scratch:
        runs = {name: reproduce(Path(scratch) / name, percent) for name, percent in (("as_it_is", 0), ("slowed", PERCENT))}
    measured = {"kernel": KERNEL, "percent": PERCENT} | {name: states for name, (states, _) in runs.items()}
    timed = {f"{name}: {what}": sha256 for name, (_, of) in runs.items() for what, sha256 in of.items()}
    STUDY.write(gpu, measured, uuids=list(gpu.uuids), binaries=timed)


if __name__ == "__main__":
    main()
