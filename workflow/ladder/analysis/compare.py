"""What changed between two datasets: of two commits, machines, drivers or days."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ladder.analysis.dataset import Dataset
from ladder.analysis.repeatability import Limit, Limited, limited, limits
from ladder.core import verdicts
from ladder.core.errors import InputError
from ladder.core.files import write_whole
from ladder.core.stats import CONFIDENCE, between_processes, between_runs
from ladder.core.verdicts import SAME, UNCONFIRMED

WHAT = ["kernel", "element_type", "m", "n", "k", "alpha", "beta", "padding", "distribution", "state"]
"""What is compared: a kernel on a problem in a state."""
COLUMNS = [
    "kernel", "configuration", "other_configuration", "binary", "element_type", "problem", "state", "us", "other_us",
    "ratio", "low", "high", "limit", "verdict", "sure",
]  # fmt: skip
MEASURED = ("peaks", "idle", "launch_us", "repeated_launch_us")
"""What `environment.json` says that was measured: no two are the same."""
SLOWER = 3
"""The exit code of `ladder compare --fail-if-slower` where something is."""


def title(dataset: Dataset) -> str:
    """Which dataset it is: its folder, its device's name and its date."""
    return f"{dataset.folder}: {dataset.environment['name']}, {dataset.environment['time'][:10]}"


def matched(a: Path, b: Path) -> list[tuple[Path, Path]]:
    """The datasets that are compared: the two folders, or those of the same name in them, or the only one in each.

    Raises `InputError` where there are none.
    """
    inside = [{path.parent.name: path.parent for path in sorted(folder.glob("*/environment.json"))} for folder in (a, b)]
    for index, folder in enumerate((a, b)):
        if (folder / "environment.json").exists() or not inside[index]:
            inside[index] = {folder.name: folder}
    first, second = inside
    if len(first) == len(second) == 1:
        return [(*first.values(), *second.values())]  # type: ignore[list-item]
    both = [(first[name], second[name]) for name in first if name in second]
    if not both:
        raise InputError(
            f"{a} and {b}: have the datasets {', '.join(first)} and {', '.join(second)}; expected one in each, or some of the same name"
        )
    return both


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    """The values of nested mappings, by their keys joined with dots."""
    if not isinstance(value, Mapping):
        return {path: value}
    return {key: leaf for name, part in value.items() for key, leaf in _flat(part, f"{path}.{name}".lstrip(".")).items()}


def differing(a: Dataset, b: Dataset) -> dict[str, tuple[Any, Any]]:
    """What was not the same when the two were measured, by its name in `environment.json`; None where one does not say it."""
    first, second = (
        _flat(
            {name: part for name, part in side.environment.items() if name not in MEASURED}
            | {"measuring code": side.sessions[-1]["code"]}
        )
        for side in (a, b)
    )
    return {key: (first.get(key), second.get(key)) for key in {**first, **second} if first.get(key) != second.get(key)}


def _same_configuration(row: Mapping[str, Any]) -> tuple[str, str]:
    """The configurations to compare: those that are best, or, where the bests are tied, one that both have.

    Which one of several that are tied is called the best is chance; its change would be no change of the kernel.
    """
    bests = row["configuration"], row["configuration_other"]
    first, second = (
        [own, *filter(None, str(row[f"tied_with{end}"] or "").split("; "))]
        for own, end in zip(bests, ("", "_other"), strict=True)
    )
    shared = (label for label in [*bests, *first] if label in first and label in second)
    return next(((label, label) for label in shared), bests)


def changes(a: Dataset, b: Dataset, known: Mapping[Limited, Limit]) -> pd.DataFrame:
    """A row a kernel, problem and state that both have: `ratio` is how many times as fast it is in `other`.

    By its times in the confirmations, in microseconds; `low` and `high` are the ends of the 95 % interval between processes of two runs.
    `faster` or `slower` is what that interval leaves 1 out of, and a thousandth to either side, and what differs by more than runs of the
    same code do (`limit`, a factor, where it is known). So one row in twenty of the same code may be called either; `sure` is what still is
    where that may happen in one comparison of twenty (Bonferroni's inequality). Without a confirmation nothing is called anything.
    """
    left_out = a.finalists.left_out or b.finalists.left_out
    first, second = (side.best[side.best["tflops"].notna()] for side in (a, b))
    both = first.merge(second, on=WHAT, suffixes=("", "_other"))
    rows = []
    for row in both.to_dict("records"):
        names = _same_configuration(row)
        sha256 = [side.binaries.get((row["kernel"], row["element_type"], it)) for side, it in zip((a, b), names, strict=True)]
        change = {name: row[name] for name in ("kernel", "element_type", "problem", "state")}
        change |= {"configuration": names[0], "other_configuration": names[1], "verdict": UNCONFIRMED, "sure": False}
        change |= {"us": row["median_us"], "other_us": row["median_us_other"], "ratio": row["median_us"] / row["median_us_other"]}
        change["binary"] = ("same" if sha256[0] == sha256[1] else "another") if all(sha256) else None
        if not left_out:
            change |= _judged(a, b, row, names, known, len(both))
        rows.append(change)
    return pd.DataFrame(rows, columns=COLUMNS)


def _judged(
    a: Dataset, b: Dataset, row: Mapping[str, Any], names: Sequence[str], known: Mapping[Limited, Limit], count: int
) -> dict[str, Any]:
    """The columns of `changes` that rest on the processes of two confirmations, of `count` rows."""
    times = []
    for side, problem, name in zip((a, b), (row["problem"], row["problem_other"]), names, strict=True):
        group = side.finalists.groups[row["element_type"], problem, row["state"]]
        times.append([record["samples_us"] for record in group[row["kernel"], name].values()])
    limit = known.get(limited(row))

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
        "sure": called != SAME and verdict(1 - (1 - CONFIDENCE) / count)[0] == called,
    }


@dataclass(frozen=True)
class Comparison:
    """Two datasets, and what is told of them."""

    a: Dataset
    b: Dataset
    rows: pd.DataFrame

    def text(self) -> str:
        """What differs between their environments, then what is faster or slower, in lines for a terminal."""
        lines = [f"A {title(self.a)}", f"B {title(self.b)}", "What differs between them:"]
        differs = differing(self.a, self.b)
        lines += [f"  {key}: {_shown(first)} -> {_shown(second)}" for key, (first, second) in differs.items()] or ["  nothing"]
        counts = self.rows["verdict"].value_counts()
        lines.append(f"Of {len(self.rows)} times, B against A: {', '.join(f'{counts[it]} {it}' for it in counts.index)}.")
        if not self.rows["limit"].notna().any():
            lines.append(
                "How far runs of the same code differ is not published for these devices: only processes were allowed for."
            )
        changed = self.rows[self.rows["verdict"].isin(["faster", "slower"])]
        for row in changed.sort_values("ratio").to_dict("records"):
            b = "" if row["configuration"] == row["other_configuration"] else f" -> {row['other_configuration']}"
            lines.append(
                f"  {row['verdict']}{'' if row['sure'] else '?'} {row['kernel']} {row['problem']} {row['state']}: {row['us']:.5g} -> "
                f"{row['other_us']:.5g} us, x{row['ratio']:.4f} ({row['low']:.4f} to {row['high']:.4f}), {row['configuration']}{b}"
            )
        if (changed["sure"] == 0).any():
            lines.append("  ?: in so many rows, one in twenty of the same code is called faster or slower too")
        return "\n".join(lines)

    def slower(self, by: float) -> pd.DataFrame:
        """The rows that are surely slower, and whose times are estimated to be longer by the share `by` or more.

        Raises `InputError` where a dataset has no confirmation, of which nothing can be said.
        """
        rows = self.rows
        if (rows["verdict"] == UNCONFIRMED).any():
            raise InputError(f"{self.a.folder} and {self.b.folder}: not both have a confirmation; expected two that have")
        return rows[(rows["verdict"] == "slower") & rows["sure"] & (1 / rows["ratio"] >= 1 + by)]

    def data(self) -> dict[str, Any]:
        """The same as plain data, with a row for everything compared."""
        return {
            "datasets": [
                {"folder": str(side.folder)} | {name: side.environment[name] for name in ("device", "name", "time", "project")}
                for side in (self.a, self.b)
            ],
            "environment": {key: list(values) for key, values in differing(self.a, self.b).items()},
            "changes": json.loads(self.rows.to_json(orient="records", double_precision=10)),
        }


def _shown(value: Any) -> str:
    return "unknown" if value is None else value if isinstance(value, str) else json.dumps(value)


def compare(a: Path, b: Path, published: Path) -> list[Comparison]:
    """Every two datasets of the two folders that belong together.

    Raises `InputError` where there are none, or where two have no kernel and problem in common.
    """
    comparisons = []
    for first, second in matched(a, b):
        sides = Dataset.open(first), Dataset.open(second)
        rows = changes(*sides, limits(published, sides[0].environment, sides[1].environment, "time_"))
        if rows.empty:
            raise InputError(f"{first} and {second}: have no kernel, problem and state in common; expected some to compare")
        comparisons.append(Comparison(*sides, rows))
    return comparisons


def write_json(comparisons: Sequence[Comparison], path: Path) -> None:
    """Write the comparisons as a list."""
    write_whole(path, (json.dumps([comparison.data() for comparison in comparisons], indent=1) + "\n").encode())
