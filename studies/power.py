"""What a comparison can tell apart: kernels made slower on purpose, published runs of the same code, and claims on another machine.

    .venv/bin/python studies/power.py CASE [OPTION...]

- `slowed`: whether `snakemake reproduce` names a kernel that has become 3 % slower. On a GPU whose model is published; some minutes.
- `two_percent`: whether `ladder compare` finds rungs that are 2 % slower, and nothing of cuBLAS beside them. The same.
- `false_positives`: whether `ladder compare` calls published runs on one machine different, as they are and with the times of one made 2 %
  longer. The limits are those of `ladder repeat`, which the same runs made too; `held_out` is what is called by limits that other machines
  of the model made alone. Needs no GPU.
- `elsewhere`: whether what is claimed is reproduced here, on the GPU if there is one, and how soon. Takes options of Snakemake, such as
  --config campaign=reproduce-short.

A slowed kernel ends as much later as so many per cent of the clocks that each block took. "Slower" counts on problems of at least 1024^3
multiply-adds.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
from checkout import Checkout
from ladder.analysis.compare import changes
from ladder.analysis.dataset import Dataset
from ladder.analysis.repeatability import Run, limits, made_from, of_table, ratios
from ladder.analysis.repeatability import table as table_of
from ladder.claims.answers import STUDIES
from ladder.claims.study import binaries, command_line
from ladder.core.files import ROOT, write_whole
from ladder.devices.detect import detect_cpu, detect_gpus
from ladder.devices.lock import first_gpu
from ladder.storage import published_index
from ladder.storage.dataset_layout import PUBLISHED

SLOWED = ("15_last_wave", 3)
"""The kernel of `slowed`, and by how many per cent."""
SHORT = ("reproduce", "--config", "campaign=reproduce-short", "devices=[cuda]", "kernels=[cuda/14*,cuda/15*,cuda/16*]")
KERNELS = ("13_snake_order", "14_cluster_split_k", "15_last_wave", "16_thin_edge")
"""Those of `two_percent`."""
PERCENT = 2
WHOLE = ("--config", "campaign=reproduce", "devices=[cuda]", f"kernels=[{','.join(f'cuda/{name}' for name in KERNELS)}]")
LARGE = 2 * 1024**3
"""Operations from which on a slower kernel must be found."""
COLUMNS = ["kernel", "problem", "state", "ratio", "low", "high", "limit", "verdict"]


def slow_down(source: str, percent: int) -> str:
    """The kernel file with a function `gemm` of which every thread waits for so many per cent of its own clocks before it ends."""
    begun = "  const long long begun = clock64();\n"
    wait = f"\n  const long long spent = clock64() - begun;\n  while (100 * (clock64() - begun - spent) < {percent} * spent);"
    made, count = re.subn(
        r"( gemm\([^)]*\) \{\n)(.*?)(\n\}\n)", rf"\g<1>{begun}\g<2>{wait}\g<3>", source, count=1, flags=re.DOTALL
    )
    assert count == 1
    return made


def checkout(folder: Path, kernels: Sequence[str], percent: int) -> Checkout:
    """A copy of the project with kernels slowed by so many per cent."""
    copied = Checkout(folder)
    for path in (f"kernels/cuda/{name}.cu" for name in kernels if percent):
        copied.write(path, slow_down((ROOT / path).read_text(), percent))
    return copied


def own_entries(campaign: Path) -> list[dict[str, Any]]:
    """What a campaign's `reproduced.json` says to the claims that were held against its own datasets."""
    entries = json.loads((campaign / "reproduced.json").read_text())
    return [entry for entry in entries if str(entry["dataset"]).startswith(f"results/{campaign.name}/")]


def verdicts(campaign: Path) -> dict[str, list[str]]:
    """The ids of the claims by what a campaign says to them of its own data."""
    entries = own_entries(campaign)
    states = ("not reproduced", "reproduced", "not distinguishable")
    return {state: [entry["id"] for entry in entries if entry["state"] == state] for state in states}


def slowed() -> None:
    """Run the short campaign of the claims twice, as it is and with a kernel slowed."""
    gpu, (kernel, percent) = first_gpu(), SLOWED
    runs: dict[str, Any] = {}
    timed: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, by in (("as_it_is", 0), ("slowed", percent)):
            copied = checkout(Path(scratch) / name, [kernel], by)
            shutil.copytree(ROOT / PUBLISHED, copied.folder / PUBLISHED)
            done = copied.snakemake(*SHORT)
            (table,) = (copied.folder / "results").glob(
                "reproduce-short*/reproduced.json"
            )  # kernels of its own: a name of its own
            runs[name] = verdicts(table.parent)
            assert bool(runs[name]["not reproduced"]) == (done.returncode == 1), done.stdout[-8000:]
            timed |= {f"{name}: {what}": sha256 for what, sha256 in binaries(table.parent).items()}
    STUDIES["slowed"].write(gpu, {"kernel": kernel, "percent": percent} | runs, uuids=list(gpu.uuids), binaries=timed)


def compared(before: Path, after: Path) -> pd.DataFrame:
    """What `ladder compare` says of two datasets of a machine, with M, N and K."""
    first, second = Dataset.open(before), Dataset.open(after)
    known = limits(ROOT / PUBLISHED, first.environment, second.environment, "time_")
    return changes(first, second, known).merge(sizes(first), on="problem")


def sizes(dataset: Dataset) -> pd.DataFrame:
    """M, N and K of the problems of a dataset."""
    return dataset.best[["problem", "m", "n", "k"]].drop_duplicates()


def large(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of problems on which a slower kernel must be found."""
    return rows[2.0 * rows["m"] * rows["n"] * rows["k"] >= LARGE]


def called(rows: pd.DataFrame) -> float:
    """The share of rows that are called faster or slower."""
    return float(rows["verdict"].isin(["faster", "slower"]).mean())


def shares(rows: pd.DataFrame) -> dict[str, Any]:
    """How many rows are of slowed rungs, and what share is called slower; how many are of cuBLAS, and what share is called anything."""
    slow, alike = large(rows[rows["kernel"].isin(KERNELS)]), rows[~rows["kernel"].isin(KERNELS)]
    return {
        "slowed": len(slow),
        "found": float((slow["verdict"] == "slower").mean()),
        "alike": len(alike),
        "called": called(alike),
    }


def two_percent() -> None:
    """Run the campaign of the claims with some rungs twice, as they are and slowed, and compare."""
    gpu = first_gpu()
    datasets: dict[str, Path] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, by in (("as_it_is", 0), ("slowed", PERCENT)):
            copied = checkout(Path(scratch) / name, KERNELS, by)
            copied.ok(*WHOLE, cores=8)
            (datasets[name],) = (copied.folder / "results").glob("reproduce*/nvidia-*")
        rows = compared(*datasets.values())
        timed = {f"{name}: {what}": sha256 for name, path in datasets.items() for what, sha256 in binaries(path.parent).items()}
    listed = [row | {"limit": None if pd.isna(row["limit"]) else row["limit"]} for row in rows[COLUMNS].to_dict("records")]
    STUDIES["two_percent"].write(gpu, {"percent": PERCENT, **shares(rows), "rows": listed}, uuids=[gpu.uuids[0]], binaries=timed)


def longer(dataset: Dataset, factor: float = 1 + PERCENT / 100) -> Dataset:
    """The same dataset, but all times of its confirmation are longer."""
    slow, finalists = copy(dataset), copy(dataset.finalists)
    finalists.groups = {
        key: {
            name: {
                process: {**record, "samples_us": [us * factor for us in record["samples_us"]]} for process, record in of.items()
            }
            for name, of in group.items()
        }
        for key, group in dataset.finalists.groups.items()
    }
    slow.best, slow.finalists = dataset.best, finalists
    return slow


def measure_published(published: Path, machines: Mapping[str, Sequence[Dataset]]) -> dict[str, Any]:
    """The shares, over every two datasets of a machine of a model, by the machines' UUIDs."""
    alike, held_out, slow = [], [], []
    runs = [Run("", "", uuid, {}, ratios(side.finalists), pd.DataFrame()) for uuid, sides in machines.items() for side in sides]
    for uuid, sides in machines.items():
        of_others = of_table(table_of([run for run in runs if run.machine != uuid]), True, "time_")
        for first, second in combinations(sides, 2):
            known = limits(published, first.environment, second.environment, "time_")
            alike.append(changes(first, second, known))
            held_out.append(changes(first, second, of_others).dropna(subset=["limit"]))
            slow += [
                changes(before, longer(after), known).merge(sizes(after), on="problem")
                for before, after in ((first, second), (second, first))
            ]
    same, apart, late = pd.concat(alike), pd.concat(held_out), large(pd.concat(slow))
    return {
        "device": next(iter(machines.values()))[0].environment["device"],
        "machines": [
            [{"dataset": os.path.relpath(side.folder, published), **made_from(side.folder, side.environment)} for side in sides]
            for sides in machines.values()
            if len(sides) > 1
        ],
        "alike": len(same),
        "called": called(same),
        "sure": float(same["sure"].mean()),
        "held_out": {"alike": len(apart), "called": called(apart) if len(apart) else None},
        "slowed": len(late),
        "found": float((late["verdict"] == "slower").mean()),
    }


def contents(published: Path) -> dict[Path, bytes]:
    """The file of every model of which a machine has several published runs."""
    models: dict[str, dict[str, list[Dataset]]] = {}
    for folder in published_index.runs(published).values():
        side = Dataset.open(folder)
        if not side.finalists.left_out and (uuid := side.environment["attributes"].get("uuid")):
            models.setdefault(side.environment["device"], {}).setdefault(uuid, []).append(side)
    return {
        published / f"false-positives-{device}.json": (
            json.dumps(measure_published(published, machines), indent=1) + "\n"
        ).encode()
        for device, machines in models.items()
        if any(len(sides) > 1 for sides in machines.values())
    }


def false_positives() -> None:
    """Compare every two published runs on a machine."""
    made = contents(ROOT / PUBLISHED)
    if not made:
        sys.exit("no machine has two published runs with a confirmation: nothing to compare")
    for path, content in made.items():
        write_whole(path, content)
        print(f"{path.name}: {STUDIES['false_positives'].answer(json.loads(content))}")


def published_devices(folder: Path) -> set[str]:
    """The UUIDs of the GPUs that took part in what is published, and the models of the CPUs, which have none."""
    environments = [json.loads(path.read_text()) for path in folder.rglob("environment.json")]
    return {name for environment in environments for name in environment["fingerprint"].get("uuids", [environment["device"]])}


def states(campaign: Path) -> dict[str, Any]:
    """How often a campaign's own datasets reproduced a claim or not, and the claims that they did not."""
    entries = own_entries(campaign)
    return {
        "states": dict(Counter(entry["state"] for entry in entries).most_common()),
        "not_reproduced": [entry["id"] for entry in entries if entry["state"] == "not reproduced"],
    }


def elsewhere(*options: str) -> None:
    """Run `snakemake reproduce` in this checkout."""
    device = first_gpu() if detect_gpus() else detect_cpu()
    start = time.perf_counter()
    command = [sys.executable, "-m", "snakemake", "--cores", "all", "reproduce", *options]
    status = subprocess.run(command, cwd=ROOT, env=os.environ | {"NO_COLOR": "1"}, check=False).returncode
    spent = time.perf_counter() - start
    results = ROOT / "results" / next((word.partition("=")[2] for word in options if word.startswith("campaign=")), "reproduce")
    took_part = bool(published_devices(ROOT / PUBLISHED) & {*device.uuids, device.slug})
    measured = states(results) | {"seconds": spent, "exit_status": status, "took_part": took_part}
    STUDIES["elsewhere"].write(device, measured, uuids=list(device.uuids), binaries=binaries(results))
    sys.exit(status)


CASES: dict[str, Callable[..., None]] = {
    "slowed": slowed,
    "two_percent": two_percent,
    "false_positives": false_positives,
    "elsewhere": elsewhere,
}


def main() -> None:
    """Run a case, and write what it measured."""
    parser = command_line(__doc__)
    parser.add_argument("case", choices=CASES)
    given, options = parser.parse_known_args()
    if options and given.case != "elsewhere":
        parser.error(f"{given.case} takes no options; got {' '.join(options)}")
    CASES[given.case](*options)


if __name__ == "__main__":
    main()
