"""Whether `ladder compare` calls the same code different, and whether it finds 2 %: by published runs on one machine.

    .venv/bin/python studies/told_apart.py        needs no GPU

Every two published datasets of a machine with a confirmation are compared, as they are and with all times of the second made 2 % longer, in
either direction of the two. Measured are the shares called faster or slower, and of the longer ones on problems of at least 1024^3
multiply-adds the share called slower. The limits of how far runs differ are those of `ladder repeat`, from the same runs.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pandas as pd
from ladder.campaign import CONFIRMED
from ladder.compare import Side, changes, read_side
from ladder.environment import ROOT
from ladder.jobs import write_whole
from ladder.repeat import limits, made_from
from ladder.study import PUBLISHED, Study
from ladder.verdicts import SAME

LONGER = 1.02
LARGE = 2 * 1024**3
"""Operations."""


def found(measured: Mapping[str, Any]) -> str:
    """Both shares."""
    return (
        f"on one machine, of {measured['alike']} times of the same code {measured['called']:.1%} are called faster or slower, "
        f"{measured['sure']:.1%} surely; "
        f"of {measured['slowed']} that were made 2 % longer at 1024 and up {measured['found']:.1%} are found"
    )


STUDY = Study(
    "told_apart",
    "Are runs told apart that differ, and no others?",
    found,
    ".venv/bin/python studies/told_apart.py",
    "told-apart-*.json",
)


def longer(side: Side) -> Side:
    """The same dataset, of whose confirmation all times are longer."""
    confirmed = copy(side.confirmed)
    confirmed.groups = {
        key: {
            one: {
                process: {**record, "samples_us": [us * LONGER for us in record["samples_us"]]} for process, record in of.items()
            }
            for one, of in group.items()
        }
        for key, group in confirmed.groups.items()
    }
    return replace(side, confirmed=confirmed)


def measure(published: Path, machines: Sequence[Sequence[Side]]) -> dict[str, Any]:
    """The shares, over every two datasets of a machine."""
    alike, slowed = [], []
    for one, other in (pair for sides in machines for pair in permutations(sides, 2)):
        known = limits(published, one.environment, other.environment, "time_")
        alike.append(changes(one, other, known))
        slowed.append(
            changes(one, longer(other), known).merge(other.best[["problem", "m", "n", "k"]].drop_duplicates(), on="problem")
        )
    same, late = pd.concat(alike), pd.concat(slowed)
    late = late[2.0 * late["m"] * late["n"] * late["k"] >= LARGE]
    return {
        "device": machines[0][0].environment["device"],
        "machines": [
            [{"dataset": os.path.relpath(side.folder, published), **made_from(side.folder, side.environment)} for side in sides]
            for sides in machines
        ],
        "alike": len(same),
        "called": float((same["verdict"] != SAME).mean()),
        "sure": float(same["sure"].mean()),
        "slowed": len(late),
        "found": float((late["verdict"] == "slower").mean()),
    }


def contents(published: Path) -> dict[Path, bytes]:
    """The file of every model of which a machine has several published runs."""
    models: dict[str, dict[str, list[Side]]] = {}
    for path in sorted(published.rglob(f"{CONFIRMED}.parquet")):
        side = read_side(path.parent)
        if uuid := side.environment["attributes"].get("uuid"):
            models.setdefault(side.environment["device"], {}).setdefault(uuid, []).append(side)
    made = {}
    for device, of_model in models.items():
        if machines := [sides for sides in of_model.values() if len(sides) > 1]:
            measured = measure(published, machines)
            made[published / f"told-apart-{device}.json"] = (json.dumps(measured, indent=1) + "\n").encode()
    return made


def main() -> None:
    """Compare, print and write."""
    made = contents(ROOT / PUBLISHED)
    if not made:
        sys.exit("no machine has two published runs with a confirmation: nothing to compare")
    for path, content in made.items():
        write_whole(path, content)
        print(f"{path.name}: {found(json.loads(content))}")


if __name__ == "__main__":
    main()
