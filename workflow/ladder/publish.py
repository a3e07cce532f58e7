"""Make a dataset of this machine a published one: `python -m ladder.publish results/default/nvidia-h200`.

Copies the raw samples and the environment to `results/published/<device>/` and draws its tables and figures there. The rule `published`
draws the same from them again, anywhere.
"""

import json
import shutil
import sys
from pathlib import Path

from ladder import figures, tables
from ladder.environment import ROOT
from ladder.jobs import clear_errors
from ladder.units import InputError


def draw(folder: Path) -> None:
    """Tables and figures of the dataset in a folder, beside its samples."""
    environment = json.loads((folder / "environment.json").read_text())
    records, sessions = tables.load(sorted((folder / "samples").glob("*.parquet")), environment)
    summary = tables.summarise(records, environment["peaks"]["fp32_tflops"], tables.flop_per_clock(environment))
    for name, table in (("summary", summary), ("best", tables.best(summary)), ("costs", tables.costs(sessions))):
        tables.write_csv(table, folder / f"{name}.csv")
    figures.draw_all(figures.read(folder / "summary.csv"), figures.read(folder / "best.csv"), environment, folder / "figures")


def publish(source: Path, published: Path) -> Path:
    """Publish the dataset in `source`; returns its new folder.

    Raises `InputError` for a folder without a dataset, and for one measured from a checkout that had changes or no commit: a published
    figure says which commit made it.
    """
    if not (source / "environment.json").exists() or not list((source / "samples").glob("*.parquet")):
        raise InputError(
            f"{source}: no environment.json and samples/*.parquet in it; expected a folder such as results/default/nvidia-h200"
        )
    environment = json.loads((source / "environment.json").read_text())
    _, sessions = tables.load(sorted((source / "samples").glob("*.parquet")), environment)
    for session in [{"job": "environment.json", **environment["project"]}, *sessions]:
        if not session["commit"] or session["dirty"]:
            raise InputError(
                f"{source}: {session['job']} was made from a checkout with changes or without a commit; expected a clean one"
            )
    target: Path = published / environment["device"]
    shutil.rmtree(target, ignore_errors=True)
    (target / "samples").mkdir(parents=True)
    shutil.copy(source / "environment.json", target)
    for path in (source / "samples").glob("*.parquet"):
        shutil.copy(path, target / "samples")
    draw(target)
    return target


if __name__ == "__main__":
    with clear_errors():
        if len(sys.argv) != 2:
            raise InputError("usage: python -m ladder.publish results/CAMPAIGN/DEVICE")
        print(f"published {publish(Path(sys.argv[1]), ROOT / 'results' / 'published')}; now commit it")
