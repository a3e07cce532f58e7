"""Compare two datasets: of two commits, machines, drivers or days."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ladder.analysis.dataset import Dataset
from ladder.analysis.repeatability import Limit, LimitKey, limit_key, limits, of_nights
from ladder.core import verdicts
from ladder.core.errors import InputError
from ladder.core.files import digest, write_whole
from ladder.core.stats import CONFIDENCE, between_processes, between_runs
from ladder.core.verdicts import AGAIN, SAME, UNCONFIRMED
from ladder.storage.dataset_layout import files

WHAT = [
    "kernel",
    "element_type",
    "m",
    "n",
    "k",
    "alpha",
    "beta",
    "padding",
    "distribution",
    "state",
]
"""The columns that identify what is compared: a kernel on a problem in a state."""
COLUMNS = [
    "kernel",
    "configuration",
    "other_configuration",
    "binary",
    "element_type",
    "problem",
    "state",
    "us",
    "other_us",
    "ratio",
    "low",
    "high",
    "limit",
    "verdict",
    "sure",
    "marks",
    "other_marks",
]
MEASURED = ("peaks", "idle", "launch_us", "repeated_launch_us")
"""Keys of `environment.json` that hold measured values, which always differ."""
SLOWER = 3
"""The exit code of `ladder compare --fail-if-slower` if something is slower."""
NIGHTS = 3
"""The fewest runs of the same code that show how far such runs differ."""
NO_LIMITS = (
    "nobody knows how far runs of the same code differ there: it is published for other devices. "
    f"Compare with {NIGHTS} or more runs of "
    "your own: ladder compare A1 A2 A3 -- B"
)


class NothingMeasured(InputError):
    """Two datasets hold the same measurements."""


def title(dataset: Dataset) -> str:
    """Return a dataset's folder, the name of its device and its date."""
    return f"{dataset.folder}: {dataset.environment['name']}, {dataset.environment['time'][:10]}"


def matching_datasets(folders: Sequence[Path]) -> list[list[Path]]:
    """Return the datasets to compare, a list with one of each folder for each comparison.

    They are the folders, their subfolders of the same name, or the only subfolder of each. Raises
    `InputError` if there are none.
    """
    inside = [
        {path.parent.name: path.parent for path in sorted(folder.glob("*/environment.json"))}
        for folder in folders
    ]
    for index, folder in enumerate(folders):
        if (folder / "environment.json").exists() or not inside[index]:
            inside[index] = {folder.name: folder}
    if all(len(datasets) == 1 for datasets in inside):
        return [[path for datasets in inside for path in datasets.values()]]
    everywhere = [
        [datasets[name] for datasets in inside]
        for name in inside[0]
        if all(name in datasets for datasets in inside)
    ]
    if not everywhere:
        raise InputError(
            f"{' and '.join(map(str, folders))}: have the datasets "
            f"{' and '.join(', '.join(datasets) for datasets in inside)}; expected "
            "one in each, or some of the same name"
        )
    return everywhere


def _check_distinct(sides: Sequence[Dataset]) -> None:
    """Raise `NothingMeasured` if two datasets hold the same measurements, whatever folders they lie
    in.
    """
    seen: dict[str, Path] = {}
    for side in sides:
        key = digest([hashlib.sha256(path.read_bytes()).hexdigest() for path in files(side.folder)])
        if key in seen:
            raise NothingMeasured(
                f"{seen[key]} and {side.folder}: hold the same measurements; expected two runs. A "
                "run in a folder that has all "
                "measurements already measures nothing: give each run a folder of its own"
            )
        seen[key] = side.folder


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """Return the leaves of nested mappings by their keys, joined with dots."""
    if not isinstance(value, Mapping):
        return {path: value}
    return {
        key: leaf
        for name, part in value.items()
        for key, leaf in flat(part, f"{path}.{name}".lstrip(".")).items()
    }


def differing(a: Dataset, b: Dataset) -> dict[str, tuple[Any, Any]]:
    """Return what differs between the environments of two datasets, by its key in
    `environment.json`; None if one has no such key.
    """
    first, second = (
        flat(
            {name: part for name, part in side.environment.items() if name not in MEASURED}
            | {"measuring code": side.sessions[-1]["code"]}
        )
        for side in (a, b)
    )
    return {
        key: (first.get(key), second.get(key))
        for key in {**first, **second}
        if first.get(key) != second.get(key)
    }


def _same_configuration(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return the two configurations to compare: the best ones, or, if those are tied with others,
    one that both datasets have.

    Chance decides which of several tied configurations is the best. A different choice would not be
    a change of the kernel.
    """
    bests = row["configuration"], row["configuration_other"]
    first, second = (
        [own, *filter(None, str(row[f"tied_with{end}"] or "").split("; "))]
        for own, end in zip(bests, ("", "_other"), strict=True)
    )
    shared = (label for label in [*bests, *first] if label in first and label in second)
    return next(((label, label) for label in shared), bests)


def changes(a: Dataset, b: Dataset, known: Mapping[LimitKey, Limit]) -> pd.DataFrame:
    """Return a row for every kernel, problem and state that both datasets have.

    Times are in microseconds, from the confirmations. `ratio` is the speedup of `b` over `a`; `low`
    and `high` are the ends of the 95 % interval between the processes of two runs. The verdict is
    `faster` or `slower` if two conditions hold: the interval leaves out 1 by more than a
    thousandth, and the ratio differs from 1 by more than runs of the same code do (`limit`, a
    factor, if it is known).

    The verdict is `AGAIN` if a busy machine has marked a row of one of the two. The mark
    `throttled` leaves a verdict: a device or a kernel that throttles where it did not before is
    slower.

    One row in twenty of unchanged code may still be called faster or slower. A row is `sure` if it
    has a limit and its verdict also holds at the confidence at which at most one comparison in
    twenty has any false verdict (Bonferroni's inequality). Without both confirmations every verdict
    is `UNCONFIRMED`.
    """
    left_out = a.finalists.left_out or b.finalists.left_out
    first, second = (side.best[side.best["tflops"].notna()] for side in (a, b))
    both = first.merge(second, on=WHAT, suffixes=("", "_other"))
    rows = []
    for row in both.to_dict("records"):
        names = _same_configuration(row)
        kernel, element_type = row["kernel"], row["element_type"]
        sha256 = [
            side.binaries.get((kernel, element_type, name))
            for side, name in zip((a, b), names, strict=True)
        ]
        change = {name: row[name] for name in ("kernel", "element_type", "problem", "state")}
        change |= {
            "configuration": names[0],
            "other_configuration": names[1],
            "verdict": UNCONFIRMED,
            "sure": False,
        }
        change |= {"marks": row["marks"], "other_marks": row["marks_other"]}
        change |= {
            "us": row["median_us"],
            "other_us": row["median_us_other"],
            "ratio": row["median_us"] / row["median_us_other"],
        }
        change["binary"] = (
            ("same" if sha256[0] == sha256[1] else "another") if all(sha256) else None
        )
        if not left_out:
            change |= _verdict(a, b, row, names, known, len(both))
            if verdicts.busy(row["marks"], row["marks_other"]):
                change |= {"verdict": AGAIN, "sure": False}
        rows.append(change)
    return pd.DataFrame(rows, columns=COLUMNS)


def _verdict(
    a: Dataset,
    b: Dataset,
    row: Mapping[str, Any],
    names: Sequence[str],
    known: Mapping[LimitKey, Limit],
    count: int,
) -> dict[str, Any]:
    """Return the columns of `changes` that come from the processes of two confirmations with
    `count` rows.
    """
    times = []
    for side, problem, name in zip(
        (a, b), (row["problem"], row["problem_other"]), names, strict=True
    ):
        group = side.finalists.groups[row["element_type"], problem, row["state"]]
        times.append([record["samples_us"] for record in group[row["kernel"], name].values()])
    limit = known.get(limit_key(row))

    def verdict(confidence: float) -> tuple[str, float, float, float]:
        ratio, low, high = between_runs(times[0], times[1], confidence)
        if limit and abs(math.log(ratio)) <= limit.at(confidence):
            return SAME, ratio, low, high
        return verdicts.of(low, high), ratio, low, high

    called, ratio, low, high = verdict(CONFIDENCE)
    return {
        "us": between_processes(times[0])[0],
        "other_us": between_processes(times[1])[0],
        "ratio": ratio,
        "low": low,
        "high": high,
        "limit": math.exp(limit.half) if limit else None,
        "verdict": called,
        "sure": limit is not None
        and called != SAME
        and verdict(1 - (1 - CONFIDENCE) / count)[0] == called,
    }


@dataclass(frozen=True)
class Comparison:
    """Two datasets and the rows of `changes` for them."""

    a: Dataset
    b: Dataset
    rows: pd.DataFrame
    nights: Sequence[Path] = ()
    """The runs of the same code that the limits come from, if they are not published ones."""

    def text(self) -> str:
        """Return lines for a terminal: what differs between the environments, then what is faster
        or slower.
        """
        lines = [f"A {title(self.a)}", f"B {title(self.b)}"]
        if self.nights:
            lines.append(
                f"How far runs of the same code differ: by {len(self.nights)} runs, "
                f"{', '.join(map(str, self.nights))}"
            )
        lines.append("What differs between A and B:")
        differs = differing(self.a, self.b)
        differing_lines = [
            f"  {key}: {_as_text(first)} -> {_as_text(second)}"
            for key, (first, second) in differs.items()
        ]
        lines += differing_lines or ["  nothing"]
        counts = self.rows["verdict"].value_counts()
        lines.append(
            f"Of {len(self.rows)} times, B against A: "
            f"{', '.join(f'{count} {verdict}' for verdict, count in counts.items())}."
        )
        if not self.rows["limit"].notna().any():
            lines.append(f"No verdict is sure: {NO_LIMITS}.")
        changed = self.rows[self.rows["verdict"].isin(["faster", "slower"])]
        for row in changed.sort_values("ratio").to_dict("records"):
            b = (
                ""
                if row["configuration"] == row["other_configuration"]
                else f" -> {row['other_configuration']}"
            )
            lines.append(
                f"  {row['verdict']}{'' if row['sure'] else '?'} {row['kernel']} {row['problem']} "
                f"{row['state']}: {row['us']:.5g} -> "
                f"{row['other_us']:.5g} us, x{row['ratio']:.4f} ({row['low']:.4f} to "
                f"{row['high']:.4f}), {row['configuration']}{b}" + _throttled(row)
            )
        if (changed["sure"] == 0).any():
            lines.append(
                "  ?: not sure: one in twenty of the same code is called faster or slower too, and "
                "more without a limit"
            )
        for name, column in (("A", "marks"), ("B", "other_marks")):
            counts = self.left_open[column].map(verdicts.busy).explode().value_counts()
            if len(counts):
                marked = ", ".join(f"{count} {mark}" for mark, count in counts.items())
                lines.append(
                    f"  Measure {name} again while nothing else runs: the marks of its rows leave "
                    f"them open ({marked})"
                )
        return "\n".join(lines)

    @property
    def left_open(self) -> pd.DataFrame:
        """The rows that a busy machine keeps open."""
        return self.rows[self.rows["verdict"] == AGAIN]

    def slower(self, by: float) -> pd.DataFrame:
        """Return the rows that are surely slower and whose estimated times are longer by the share
        `by` or more.

        Raises `InputError` if a dataset has no confirmation, or if no row has a limit.
        """
        rows = self.rows
        if (rows["verdict"] == UNCONFIRMED).any():
            raise InputError(
                f"{self.a.folder} and {self.b.folder}: not both have a confirmation; expected two "
                "that have"
            )
        if not rows["limit"].notna().any():
            raise InputError(f"{self.a.folder} and {self.b.folder}: {NO_LIMITS}")
        return rows[(rows["verdict"] == "slower") & rows["sure"] & (1 / rows["ratio"] >= 1 + by)]

    def data(self) -> dict[str, Any]:
        """Return the comparison as plain data, with a row for everything compared."""
        return {
            "datasets": [
                {"folder": str(side.folder)}
                | {name: side.environment[name] for name in ("device", "name", "time", "project")}
                for side in (self.a, self.b)
            ],
            "nights": list(map(str, self.nights)),
            "environment": {key: list(values) for key, values in differing(self.a, self.b).items()},
            "changes": json.loads(self.rows.to_json(orient="records", double_precision=10)),
        }


def _throttled(row: Mapping[str, Any]) -> str:
    """Return which of the two was throttled, if only one was; else ""."""
    throttled = ["throttled" in verdicts.marks(row[name]) for name in ("marks", "other_marks")]
    return f"; only {'AB'[throttled.index(True)]} was throttled" if sum(throttled) == 1 else ""


def _as_text(value: Any) -> str:
    return "unknown" if value is None else value if isinstance(value, str) else json.dumps(value)


def compare(folders: Sequence[Path], published: Path) -> list[Comparison]:
    """Compare all datasets of the last folder with those of the one before that belong to them.

    Further folders before these hold runs of the same code, which show how far such runs differ;
    without any, `published` shows it. Raises `InputError` for two such runs, if no datasets belong
    together, or if they have no kernel, problem and state in common. Raises `NothingMeasured` if
    two hold the same measurements.
    """
    if not (len(folders) == 2 or len(folders) > NIGHTS):
        raise InputError(
            f"got {len(folders)} folders; expected A and B, or {NIGHTS} or more runs of the same "
            "code and B"
        )
    comparisons = []
    for paths in matching_datasets(folders):
        *nights, b = sides = [Dataset.open(path) for path in paths]
        _check_distinct(sides)
        a, own = nights[-1], nights if len(nights) > 1 else []
        rows = changes(
            a,
            b,
            of_nights(own, b) if own else limits(published, a.environment, b.environment, "time_"),
        )
        if rows.empty:
            raise InputError(
                f"{a.folder} and {b.folder}: have no kernel, problem and state in common; expected "
                "some to compare"
            )
        comparisons.append(Comparison(a, b, rows, [night.folder for night in own]))
    return comparisons


def write_json(comparisons: Sequence[Comparison], path: Path) -> None:
    """Write the comparisons as a JSON list."""
    write_whole(
        path,
        (json.dumps([comparison.data() for comparison in comparisons], indent=1) + "\n").encode(),
    )
