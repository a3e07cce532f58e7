"""Whether `ladder compare` finds kernels that have really become 2 % slower, and no others: on a GPU whose model is published.

    .venv/bin/python studies/two_percent.py        some minutes

Runs the campaign of the claims with rungs 13 to 16 in two copies of the project, as they are and slowed: every block ends as much later as
2 % of the clocks that it took (`studies/slowed.py`). Measured is what `ladder compare` says of each kernel, problem and state: of the slowed
ones on problems of at least 1024^3 multiply-adds the share called slower, and of cuBLAS, which is the same, the share called anything.
"""

import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
from checkout import Checkout
from ladder.analysis.compare import changes
from ladder.analysis.dataset import Dataset
from ladder.analysis.repeatability import limits
from ladder.claims.answers import STUDIES
from ladder.claims.study import binaries, command_line
from ladder.core.files import ROOT
from ladder.core.verdicts import SAME
from ladder.devices.lock import first_gpu
from ladder.storage.dataset_layout import PUBLISHED
from slowed import slowed
from told_apart import LARGE

KERNELS = ("13_snake_order", "14_cluster_split_k", "15_last_wave", "16_thin_edge")
PERCENT = 2
ASKED = ("--config", "campaign=reproduce", "devices=[cuda]", f"kernels=[{','.join(f'cuda/{name}' for name in KERNELS)}]")
TOLD = ["kernel", "problem", "state", "ratio", "low", "high", "limit", "verdict"]


STUDY = STUDIES["two_percent"]


def campaign(folder: Path, percent: int) -> Path:
    """The dataset of the campaign in a copy of the project, with its kernels slowed by so many per cent."""
    project = Checkout(folder)
    for name in KERNELS if percent else ():
        path = f"kernels/cuda/{name}.cu"
        project.write(path, slowed((ROOT / path).read_text(), percent))
    project.ok(*ASKED, cores=8)
    (dataset,) = (folder / "results").glob("reproduce*/nvidia-*")
    return dataset


def compared(one: Path, other: Path) -> pd.DataFrame:
    """What `ladder compare` says of two datasets of a machine, with M, N and K."""
    before, after = Dataset.open(one), Dataset.open(other)
    known = limits(ROOT / PUBLISHED, before.environment, after.environment, "time_")
    sizes = before.best[["problem", "m", "n", "k"]].drop_duplicates()
    return changes(before, after, known).merge(sizes, on="problem")


def shares(rows: pd.DataFrame) -> dict[str, Any]:
    """How many were slowed, and what share is found; how many are alike, and what share is not called so."""
    ours = rows["kernel"].isin(KERNELS)
    large = rows[ours & (2.0 * rows["m"] * rows["n"] * rows["k"] >= LARGE)]
    alike = rows[~ours]
    return {
        "slowed": len(large),
        "found": float((large["verdict"] == "slower").mean()),
        "alike": len(alike),
        "called": float((alike["verdict"] != SAME).mean()),
    }


def main() -> None:
    """Run both, compare and write."""
    command_line(__doc__).parse_args()
    gpu = first_gpu()
    with tempfile.TemporaryDirectory() as scratch:
        one, other = (campaign(Path(scratch) / name, percent) for name, percent in (("as_it_is", 0), ("slowed", PERCENT)))
        rows = compared(one, other)
        timed = {
            f"{name}: {what}": sha256
            for name, dataset in (("as_it_is", one), ("slowed", other))
            for what, sha256 in binaries(dataset.parent).items()
        }
    told = [row | {"limit": None if pd.isna(row["limit"]) else row["limit"]} for row in rows[TOLD].to_dict("records")]
    STUDY.write(gpu, {"percent": PERCENT, **shares(rows), "rows": told}, uuids=[gpu.uuids[0]], binaries=timed)


if __name__ == "__main__":
    main()
