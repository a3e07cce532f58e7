"""Whether `ladder compare` calls the same code different, and whether it finds 2 %: by published runs on one machine.

    .venv/bin/python studies/told_apart.py        needs no GPU

Every two published datasets of a machine with a confirmation are compared, as they are and with all times of either made 2 % longer.
Measured are the shares called faster or slower, and of the longer ones on problems of at least 1024^3 multiply-adds the share called
slower. The limits of how far runs differ are those of `ladder repeat`, which the same runs made too, and so hold of them; `held_out` is
what is called by limits that runs on other machines of the model made alone, where there are any.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from copy import copy
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
from ladder.analysis.compare import changes
from ladder.analysis.dataset import Dataset
from ladder.analysis.repeatability import Run, limits, made_from, of_table, ratios, table
from ladder.claims.answers import STUDIES
from ladder.claims.study import command_line
from ladder.core.files import ROOT, write_whole
from ladder.core.verdicts import SAME
from ladder.storage.dataset_layout import CONFIRMED, PUBLISHED

LONGER = 1.02
LARGE = 2 * 1024**3
"""Operations."""


STUDY = STUDIES["told_apart"]


def longer(dataset: Dataset) -> Dataset:
    """The same dataset, but all times of its confirmation are longer."""
    slowed, finalists = copy(dataset), copy(dataset.finalists)
    finalists.groups = {
        key: {
            name: {
                process: {**record, "samples_us": [us * LONGER for us in record["samples_us"]]} for process, record in of.items()
            }
            for name, of in group.items()
        }
        for key, group in dataset.finalists.groups.items()
    }
    slowed.best, slowed.finalists = dataset.best, finalists
    return slowed


def measure(published: Path, machines: Mapping[str, Sequence[Dataset]]) -> dict[str, Any]:
    """The shares, over every two datasets of a machine of a model, by the machines' UUIDs."""
    alike, held_out, slowed = [], [], []
    runs = [Run("", "", uuid, {}, ratios(side.finalists), pd.DataFrame()) for uuid, sides in machines.items() for side in sides]
    for uuid, sides in machines.items():
        of_others = of_table(table([run for run in runs if run.machine != uuid]), True, "time_")
        for one, other in combinations(sides, 2):
            known = limits(published, one.environment, other.environment, "time_")
            alike.append(changes(one, other, known))
            held_out.append(changes(one, other, of_others).dropna(subset=["limit"]))
            for first, second in ((one, other), (other, one)):
                sizes = second.best[["problem", "m", "n", "k"]].drop_duplicates()
                slowed.append(changes(first, longer(second), known).merge(sizes, on="problem"))
    same, apart, late = pd.concat(alike), pd.concat(held_out), pd.concat(slowed)
    late = late[2.0 * late["m"] * late["n"] * late["k"] >= LARGE]
    return {
        "device": next(iter(machines.values()))[0].environment["device"],
        "machines": [
            [{"dataset": os.path.relpath(side.folder, published), **made_from(side.folder, side.environment)} for side in sides]
            for sides in machines.values()
            if len(sides) > 1
        ],
        "alike": len(same),
        "called": float((same["verdict"] != SAME).mean()),
        "sure": float(same["sure"].mean()),
        "held_out": {"alike": len(apart), "called": float((apart["verdict"] != SAME).mean()) if len(apart) else None},
        "slowed": len(late),
        "found": float((late["verdict"] == "slower").mean()),
    }


def contents(published: Path) -> dict[Path, bytes]:
    """The file of every model of which a machine has several published runs."""
    models: dict[str, dict[str, list[Dataset]]] = {}
    for path in sorted(published.rglob(f"{CONFIRMED}.parquet")):
        side = Dataset.open(path.parent)
        if uuid := side.environment["attributes"].get("uuid"):
            models.setdefault(side.environment["device"], {}).setdefault(uuid, []).append(side)
    made = {}
    for device, machines in models.items():
        if any(len(sides) > 1 for sides in machines.values()):
            measured = measure(published, machines)
            made[published / f"told-apart-{device}.json"] = (json.dumps(measured, indent=1) + "\n").encode()
    return made


def main() -> None:
    """Compare, print and write."""
    command_line(__doc__).parse_args()
    made = contents(ROOT / PUBLISHED)
    if not made:
        sys.exit("no machine has two published runs with a confirmation: nothing to compare")
    for path, content in made.items():
        write_whole(path, content)
        print(f"{path.name}: {STUDY.answer(json.loads(content))}")


if __name__ == "__main__":
    main()
