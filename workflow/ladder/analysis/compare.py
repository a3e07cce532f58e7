"""Compare two datasets: of two commits, machines, drivers or days."""

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
from ladder.core.files import write_text
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
    "layout",
    "batch",
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
    "how far runs of the same code differ on this device is not known. "
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
    inside = []
    for folder in folders:
        found = sorted(path.parent for path in folder.glob("*/environment.json"))
        if (folder / "environment.json").exists() or not found:
            found = [folder]
        inside.append({path.name: path for path in found})
    if all(len(datasets) == 1 for datasets in inside):
        return [[path for datasets in inside for path in datasets.values()]]
    shared = [name for name in inside[0] if all(name in datasets for datasets in inside)]
    if not shared:
        raise InputError(
            f"{' and '.join(map(str, folders))}: have the datasets "
            f"{' and '.join(', '.join(datasets) for datasets in inside)}; expected "
            "one in each, or some of the same name"
        )
    return [[datasets[name] for datasets in inside] for name in shared]


def _check_distinct(sides: Sequence[Dataset]) -> None:
    """Raise `NothingMeasured` if two datasets hold the same measurements, whatever folders they lie
    in.
    """
    seen: dict[bytes, Path] = {}
    for side in sides:
        contents = b"".join(path.read_bytes() for path in files(side.folder))
        if contents in seen:
            raise NothingMeasured(
                f"{seen[contents]} and {side.folder}: hold the same measurements; expected two "
                "runs. A run in a folder that has all measurements already measures nothing: give "
                "each run a folder of its own"
            )
        seen[contents] = side.folder


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
        flat(side.environment) | {"measuring code": side.sessions[-1]["code"]} for side in (a, b)
    )
    return {
        key: (first.get(key), second.get(key))
        for key in {**first, **second}
        if first.get(key) != second.get(key) and key.split(".")[0] not in MEASURED
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
    first, second = (side.best[side.best["tflops"].notna()] for side in (a, b))
    both = first.merge(second, on=WHAT, suffixes=("", "_other"))
    rows = []
    for row in both.to_dict("records"):
        name, other = _same_configuration(row)
        sha256, another = (
            side.binaries.get((row["kernel"], row["element_type"], label))
            for side, label in ((a, name), (b, other))
        )
        change = {column: row[column] for column in COLUMNS if column in row} | {
            "configuration": name,
            "other_configuration": other,
            "us": row["median_us"],
            "other_us": row["median_us_other"],
            "ratio": row["median_us"] / row["median_us_other"],
            "verdict": UNCONFIRMED,
            "sure": False,
            "other_marks": row["marks_other"],
        }
        if sha256 and another:
            change["binary"] = "same" if sha256 == another else "another"
        if not (a.finalists.left_out or b.finalists.left_out):
            times = (
                _times(a, row, row["problem"], name),
                _times(b, row, row["problem_other"], other),
            )
            change |= _verdict(*times, known.get(limit_key(row)), len(both))
            if verdicts.busy(row["marks"], row["marks_other"]):
                change |= {"verdict": AGAIN, "sure": False}
        rows.append(change)
    return pd.DataFrame(rows, columns=COLUMNS)


def _times(
    side: Dataset, row: Mapping[str, Any], problem: str, configuration: str
) -> list[list[float]]:
    """Return the times of a finalist in each process of a confirmation."""
    group = side.finalists.groups[row["element_type"], problem, row["state"]]
    return [record["samples_us"] for record in group[row["kernel"], configuration].values()]


def _verdict(
    times: Sequence[Sequence[float]],
    other_times: Sequence[Sequence[float]],
    limit: Limit | None,
    count: int,
) -> dict[str, Any]:
    """Return the columns of `changes` that come from the times in the processes of two
    confirmations with `count` rows.
    """

    def interval(confidence: float) -> tuple[float, float, float, str]:
        ratio, low, high = between_runs(times, other_times, confidence)
        if limit and abs(math.log(ratio)) <= limit.at(confidence):
            return ratio, low, high, SAME
        return ratio, low, high, verdicts.of(low, high)

    ratio, low, high, verdict = interval(CONFIDENCE)
    return {
        "us": between_processes(times)[0],
        "other_us": between_processes(other_times)[0],
        "ratio": ratio,
        "low": low,
        "high": high,
        "limit": math.exp(limit.half) if limit else None,
        "verdict": verdict,
        "sure": limit is not None
        and verdict != SAME
        and verdict == interval(1 - (1 - CONFIDENCE) / count)[-1],
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
        for key, values in differs.items():
            lines.append(f"  {key}: {' -> '.join(map(_as_text, values))}")
        if not differs:
            lines.append("  nothing")
        counts = self.rows["verdict"].value_counts()
        counted = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        lines.append(f"Of {len(self.rows)} times, B against A: {counted}.")
        if not self.rows["limit"].notna().any():
            lines.append(f"No verdict is sure: {NO_LIMITS}.")
        changed = self.rows[self.rows["verdict"].isin(["faster", "slower"])]
        for row in changed.sort_values("ratio").to_dict("records"):
            configurations = dict.fromkeys((row["configuration"], row["other_configuration"]))
            lines.append(
                f"  {row['verdict']}{'' if row['sure'] else '?'} {row['kernel']} {row['problem']} "
                f"{row['state']}: {row['us']:.5g} -> {row['other_us']:.5g} us, "
                f"x{row['ratio']:.4f} ({row['low']:.4f} to {row['high']:.4f}), "
                f"{' -> '.join(configurations)}{_throttled(row)}"
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
        a = nights[-1]
        if len(nights) > 1:
            known = of_nights(nights, b)
        else:
            nights, known = [], limits(published, a.environment, b.environment, "time_")
        rows = changes(a, b, known)
        if rows.empty:
            raise InputError(
                f"{a.folder} and {b.folder}: have no kernel, problem and state in common; expected "
                "some to compare"
            )
        comparisons.append(Comparison(a, b, rows, [night.folder for night in nights]))
    return comparisons


def write_json(comparisons: Sequence[Comparison], path: Path) -> None:
    """Write the comparisons as a JSON list; print it for the path `-`."""
    write_text(path, json.dumps([comparison.data() for comparison in comparisons], indent=1))
