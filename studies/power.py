"""What `ladder compare` can tell apart: kernels made slower on purpose, and published runs of the same code.

    .venv/bin/python studies/power.py CASE

- `two_percent`: whether it finds rungs that are 2 % slower, and nothing of cuBLAS beside them. On a GPU whose model is published.
- `false_positives`: whether it calls published runs on one machine different, as they are and with the times of one made 2 %
  longer. The limits are those of `ladder repeat`, which the same runs made too; `held_out` is what is called by limits that other machines
  of the model made alone. Needs no GPU.

A slowed kernel ends as much later as so many per cent of the clocks that each block took. "Slower" counts on problems of at least 1024^3
multiply-adds.
"""

import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from itertools import combinations
from pathlib import Path
from typing import Any

import answer
import pandas as pd
from answer import binaries, command_line, first_gpu
from checkout import Checkout
from ladder.analysis import repeatability
from ladder.analysis.compare import changes
from ladder.analysis.dataset import Dataset
from ladder.analysis.repeatability import limits, made_from, of_table
from ladder.core.files import write_whole
from ladder.core.places import HOME
from ladder.core.stats import CONFIDENCE
from ladder.model.kernel_file import discover
from ladder.storage import published_index
from ladder.storage.dataset_layout import PUBLISHED

KERNELS = ("13_snake_order", "14_cluster_split_k", "15_last_wave", "16_thin_edge")
"""Those of `two_percent`."""
PERCENT = 2
WHOLE = (
    "--config",
    "campaign=reproduce",
    "devices=[cuda]",
    f"kernels=[{','.join(f'cuda/{name}' for name in KERNELS)}]",
)
LARGE = 2 * 1024**3
"""Operations from which on a slower kernel must be found."""
COLUMNS = ["kernel", "problem", "state", "ratio", "low", "high", "limit", "verdict"]


def slow_down(source: str, percent: int) -> str:
    """The kernel file with a function `gemm` of which every thread waits for so many per cent of
    its own clocks before it ends.
    """
    begun = "  const long long begun = clock64();\n"
    wait = (
        "\n  const long long spent = clock64() - begun;\n  while (100 * (clock64() - begun - "
        f"spent) < {percent} * spent);"
    )
    made, count = re.subn(
        r"( gemm\([^)]*\) \{\n)(.*?)(\n\}\n)",
        rf"\g<1>{begun}\g<2>{wait}\g<3>",
        source,
        count=1,
        flags=re.DOTALL,
    )
    assert count == 1
    return made


def checkout(folder: Path, kernels: Sequence[str], percent: int) -> Checkout:
    """A copy of the project with kernels slowed by so many per cent."""
    copied = Checkout(folder)
    for path in (f"kernels/cuda/{name}.cu" for name in kernels if percent):
        copied.write(path, slow_down((HOME / path).read_text(), percent))
    return copied


def compared(before: Path, after: Path) -> pd.DataFrame:
    """What `ladder compare` says of two datasets of a machine, with M, N and K."""
    first, second = Dataset.open(before), Dataset.open(after)
    known = limits(HOME / PUBLISHED, first.environment, second.environment, "time_")
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
    """How many rows are of slowed rungs, and what share is called slower; how many are of cuBLAS,
    and what share is called anything.
    """
    slow, alike = large(rows[rows["kernel"].isin(KERNELS)]), rows[~rows["kernel"].isin(KERNELS)]
    return {
        "slowed": len(slow),
        "found": float((slow["verdict"] == "slower").mean()),
        "faster": int((slow["verdict"] == "faster").sum()),
        "longer": [100 * (1 / end - 1) for end in (slow["ratio"].max(), slow["ratio"].min())],
        "alike": len(alike),
        "called": called(alike),
    }


def worded_slowed(measured: Mapping[str, Any]) -> tuple[str, str]:
    """The short and the long answer. How much longer a slowed kernel took is measured too: it waits
    for a share of its own clocks, not of its time.
    """
    of, found = measured["slowed"], round(measured["found"] * measured["slowed"])
    low, high = share_interval(found, of)
    ends = measured["longer"]
    short = (
        f"{found} of {of} in one run ({low:.0%} to {high:.0%} at 95 % confidence). Their "
        f"times changed by {ends[0]:+.1f} to {ends[1]:+.1f} %"
    )
    return short, (
        f"of {of} times of rungs slowed by {PERCENT} % of each block's clocks at 1024 and up, "
        f"{found} are called slower ({low:.0%} to {high:.0%} at 95 % confidence) and "
        f"{measured['faster']} faster; measured, they took {ends[0]:+.1f} to {ends[1]:+.1f} % "
        f"longer, each run in the configurations that it chose; of {measured['alike']} times of "
        f"unchanged cuBLAS, {measured['called']:.1%} are called faster or slower"
    )


def share_interval(found: int, of: int) -> tuple[float, float]:
    """The ends of the exact 95 % interval of a share (Clopper and Pearson, Biometrika 26, 1934)."""

    def end(chance: Callable[[float], float]) -> float:
        low, high = 0.0, 1.0
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if chance(middle) < 0 else (low, middle)
        return low

    def at_most(number: int, share: float) -> float:
        return math.fsum(
            math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(number + 1)
        )

    tail = (1 - CONFIDENCE) / 2
    return (
        end(lambda share: 1 - at_most(found - 1, share) - tail),
        end(lambda share: tail - at_most(found, share)),
    )


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
        timed = {
            f"{name}: {what}": sha256
            for name, path in datasets.items()
            for what, sha256 in binaries(path.parent).items()
        }
    listed = [
        row | {"limit": None if pd.isna(row["limit"]) else row["limit"]}
        for row in rows[COLUMNS].to_dict("records")
    ]
    measured = {"percent": PERCENT, **shares(rows), "rows": listed}
    answer.write(
        "two_percent",
        "Does `ladder compare` find kernels that became 2 % slower?",
        *worded_slowed(measured),
        gpu,
        measured,
        [kernel for kernel in discover(HOME).values() if kernel.name in KERNELS],
        uuids=[gpu.uuids[0]],
        binaries=timed,
    )


def same_code(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of one binary, or of a baseline."""
    return rows[rows["binary"] != "another"]


def longer(dataset: Dataset, factor: float = 1 + PERCENT / 100) -> Dataset:
    """The same dataset, but all times of its confirmation are longer."""
    slow, finalists = copy(dataset), copy(dataset.finalists)
    finalists.groups = {
        key: {
            name: {
                process: {**record, "samples_us": [us * factor for us in record["samples_us"]]}
                for process, record in of.items()
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
    runs = [(uuid, side) for uuid, sides in machines.items() for side in sides]
    found = repeatability.measured({str(run): side for run, (_, side) in enumerate(runs)})
    found["machine"] = [runs[run][0] for run in found["run"]]
    for uuid, sides in machines.items():
        others = repeatability.table(found[found["machine"] != uuid])
        of_others = of_table(others, True, "time_")
        for first, second in combinations(sides, 2):
            known = limits(published, first.environment, second.environment, "time_")
            alike.append(same_code(changes(first, second, known)))
            of_others_only = changes(first, second, of_others).dropna(subset=["limit"])
            held_out.append(same_code(of_others_only))
            slow += [
                same_code(changes(before, longer(after), known)).merge(sizes(after), on="problem")
                for before, after in ((first, second), (second, first))
            ]
    same, apart, late = pd.concat(alike), pd.concat(held_out), large(pd.concat(slow))
    return {
        "device": next(iter(machines.values()))[0].environment["device"],
        "machines": [
            [
                {"dataset": os.path.relpath(side.folder, published), **made_from(side)}
                for side in sides
            ]
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


def worded(measured: Mapping[str, Any]) -> dict[str, Any]:
    """What was measured, behind the question and its answers."""
    held_out = measured["held_out"]
    others = (
        f"; with limits estimated from other machines only, {held_out['called']:.1%} of "
        f"{held_out['alike']}"
        if held_out["alike"]
        else ""
    )
    return {
        "question": "Does `ladder compare` report only real changes?",
        "short": f"{measured['called']:.1%} of comparisons of the same code are called different",
        "long": (
            f"on one machine, {measured['called']:.1%} of {measured['alike']} comparisons of the "
            "same code are called "
            f"faster or slower, {measured['sure']:.1%} significantly, with limits estimated from "
            f"these runs{others}; "
            f"of {measured['slowed']} recorded times at 1024 and up, lengthened by {PERCENT} %, "
            f"{measured['found']:.1%} are found"
        ),
        "command": ".venv/bin/python studies/power.py false_positives",
        **measured,
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
            json.dumps(worded(measure_published(published, machines)), indent=1) + "\n"
        ).encode()
        for device, machines in models.items()
        if any(len(sides) > 1 for sides in machines.values())
    }


def false_positives() -> None:
    """Compare every two published runs on a machine."""
    made = contents(HOME / PUBLISHED)
    if not made:
        sys.exit("no machine has two published runs with a confirmation: nothing to compare")
    for path, content in made.items():
        write_whole(path, content)
        print(f"{path.name}: {json.loads(content)['long']}")


def main() -> None:
    """Run a case, and write what it measured."""
    parser = command_line(__doc__)
    parser.add_argument("case", choices=("two_percent", "false_positives"))
    if parser.parse_args().case == "two_percent":
        two_percent()
    else:
        false_positives()


if __name__ == "__main__":
    main()
