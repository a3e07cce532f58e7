"""Make a dataset of this machine a published one: `python -m ladder.publish results/default/nvidia-h200 [NAME]`.

Copies the raw samples, the environment and what the compiler and the counters said to `results/published/NAME/`, by default the
device's, and draws its tables and figures there; other files there stay. The rule `published` draws the same from them again, anywhere.
Without an argument all published datasets are drawn again in place, as is due when a figure or a kernel's model has changed.
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path

from ladder import figures, models, tables
from ladder.environment import ROOT
from ladder.jobs import clear_errors
from ladder.kernels import discover
from ladder.units import InputError


def draw(folder: Path) -> None:
    """Tables and figures of the dataset in a folder, beside its samples."""
    environment = json.loads((folder / "environment.json").read_text())
    chosen = [kernel for kernel in discover(ROOT).values() if kernel.kind == environment["kind"]]
    samples = sorted((folder / "samples").glob("*.parquet"))
    for name, table in models.dataset_tables(samples, [folder / "resources.csv"], chosen, environment).items():
        tables.write_csv(table, folder / f"{name}.csv")
    summary, best, modelled = (tables.read_csv(folder / f"{name}.csv") for name in ("summary", "best", "models"))
    figures.draw_all(summary, best, modelled, environment, folder / "figures", os.cpu_count() or 1)
    if (folder / "counters.csv").exists():
        counts = tables.read_csv(folder / "counters.csv")
        figures.draw_counters(counts, summary, best, modelled, environment, folder / "counters")


def publish(source: Path, published: Path, name: str = "") -> Path:
    """Publish the dataset in `source`; returns its new folder.

    Raises `InputError` for a name that is none, for a folder without a dataset, and for one measured from a checkout that had changes or
    no commit: a published figure says which commit made it.
    """
    if not re.fullmatch("[a-z0-9-]*", name):
        raise InputError(f"NAME: got {name!r}; expected small letters, digits and '-'")
    if not all((source / name).exists() for name in ("environment.json", "resources.csv")) or not list(
        (source / "samples").glob("*.parquet")
    ):
        raise InputError(
            f"{source}: no environment.json, resources.csv and samples/*.parquet in it; expected a folder such as results/default/nvidia-h200"
        )
    environment = json.loads((source / "environment.json").read_text())
    _, sessions = tables.load(sorted((source / "samples").glob("*.parquet")), environment)
    for session in [{"job": "environment.json", **environment["project"]}, *sessions]:
        if not session["commit"] or session["dirty"]:
            raise InputError(
                f"{source}: {session['job']} was made from a checkout with changes or without a commit; expected a clean one"
            )
    target: Path = published / (name or environment["device"])
    for folder in ("samples", "figures"):
        shutil.rmtree(target / folder, ignore_errors=True)
    for path in target.glob("counters.*"):
        path.unlink()
    (target / "samples").mkdir(parents=True)
    for name in ("environment.json", "resources.csv", "counters.csv"):
        if (source / name).exists():
            shutil.copy(source / name, target)
    for path in (source / "samples").glob("*.parquet"):
        shutil.copy(path, target / "samples")
    draw(target)
    return target


if __name__ == "__main__":
    with clear_errors():
        if len(sys.argv) > 3:
            raise InputError("usage: python -m ladder.publish [results/CAMPAIGN/DEVICE [NAME]]")
        everything = ROOT / "results" / "published"
        if len(sys.argv) > 1:
            print(f"published {publish(Path(sys.argv[1]), everything, *sys.argv[2:])}; now commit it")
        for path in everything.glob("*/environment.json") if len(sys.argv) == 1 else ():
            draw(path.parent)
            print(f"drew {path.parent} again")
