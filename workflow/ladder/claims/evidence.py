"""Find the values of a dataset for each item of a claim."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from ladder.analysis.dataset import Dataset
from ladder.analysis.repeatability import FEWEST_MACHINES, Limit, LimitKey, limit_key
from ladder.claims.definitions import IDENTITY, Claim, Key
from ladder.core import verdicts
from ladder.core.expressions import evaluate, names_in
from ladder.core.stats import between_processes, geometric_mean, half_of_difference
from ladder.model.kernel import Configuration
from ladder.storage.csv_files import read_csv
from ladder.storage.dataset_layout import CLAIMED_OF, read_environment

DECISIVE = (*verdicts.BUSY, "throttled")
"""The marks of a row that can leave an item of a claim open."""


@dataclass(frozen=True)
class Finding:
    """The value of data for one item of a claim."""

    key: Key
    about: str
    """The item as text; empty if the claim has only one item."""
    value: float
    low: float
    high: float
    """The ends of the 95 % interval, or the value if there is none."""
    processes: int
    names: Mapping[str, Any]
    """Further names for the claim's expressions."""
    limit_of: LimitKey = ("", "", "", False, False)
    """The key of the limit between runs."""
    rows: Sequence[str] = ()
    """The rows that a claim about their number counts, as text."""
    machines: int = 0
    """The machines that the value is a mean over; 0 for the value of one dataset."""
    marks: Sequence[str] = ()
    """The marks of the rows, or of those that a claim about their number counts, without marks that
    decide nothing (`DECISIVE`).
    """

    @property
    def spread(self) -> tuple[float, int]:
        """Half the width of the interval, in logarithms, and its degrees of freedom; zeros for a
        value without an interval.
        """
        values = self.machines if self.machines > 1 else self.processes
        return (
            (math.log(self.high / self.low) / 2, max(values - 1, 1))
            if 0 < self.low < self.high
            else (0.0, 0)
        )

    @property
    def prediction(self) -> Limit | None:
        """How far the value of another machine may be from this mean over machines; None if it is
        over too few.

        The variance of the difference is that of one machine and that of the mean, s^2 (1 + 1/n).
        """
        half, degrees = self.spread
        return (
            Limit(half * math.sqrt(self.machines + 1), degrees)
            if self.machines >= FEWEST_MACHINES
            else None
        )

    def half(self, confidence: float) -> float:
        """Return half the width of the interval at another confidence, in logarithms."""
        return half_of_difference(self.spread, (0.0, 0), confidence)


@dataclass(frozen=True)
class Data:
    """The data that claims are compared with: the tables of a dataset."""

    name: str
    environment: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]

    @property
    def machine(self) -> str:
        """The UUID of the GPU, or the device model of a CPU, which has none."""
        return str(self.environment.get("attributes", {}).get("uuid") or self.environment["device"])

    @cached_property
    def rows(self) -> Mapping[str, list[Mapping[str, Any]]]:
        """The rows of each table: every claim asks for them, and converting them takes longer than
        choosing.
        """
        return {name: table.to_dict("records") for name, table in self.tables.items()}


def over_machines(findings: Sequence[tuple[Data, Finding]]) -> Finding:
    """Return the mean of an item over machines, with the interval between machines.

    The value of a machine is the mean of the logarithms of its runs. One machine has no such
    interval: it is that of its first run.
    """
    runs: dict[str, list[float]] = {}
    for data, finding in findings:
        runs.setdefault(data.machine, []).append(finding.value)
    first, values = findings[0][1], [geometric_mean(of_machine) for of_machine in runs.values()]
    value, low, high = between_processes([[value] for value in values])
    if len(runs) == 1:
        low, high = (value / first.value * end for end in (first.low, first.high))
    marks = list(dict.fromkeys(mark for _, finding in findings for mark in finding.marks))
    return replace(first, value=value, low=low, high=high, machines=len(runs), marks=marks)


def of_samples(folder: Path, name: str = "") -> Data:
    """Return the data of a published dataset, with tables made from its samples. A repeat has no
    tables of the sweep.
    """
    dataset = Dataset.open(folder)
    tables = CLAIMED_OF if dataset.has_sweep else ("best", "pairs")
    return Data(name or folder.name, dataset.environment, dataset.tables(tables))


def of_tables(tables: Mapping[str, Path], environment: Path, name: str) -> Data:
    """Return the data of a dataset from the tables of `CLAIMED_OF` and its `environment.json`."""
    return Data(
        name,
        read_environment(environment),
        {table: read_csv(tables[table]) for table in CLAIMED_OF},
    )


def _chosen(
    rows: Iterable[Mapping[str, Any]], filters: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """Return the rows whose columns have the values of the filters, one of several, or one that
    matches a pattern with `*`.
    """
    wanted = {
        name: {str(item) for item in (value if isinstance(value, list) else [value])}
        for name, value in filters.items()
    }
    patterns = {
        name: [value for value in values if "*" in value] for name, values in wanted.items()
    }

    def fits(name: str, value: str) -> bool:
        return value in wanted[name] or any(
            fnmatchcase(value, pattern) for pattern in patterns[name]
        )

    return [row for row in rows if all(fits(name, str(row.get(name))) for name in wanted)]


def find(claim: Claim, data: Data) -> list[Finding]:
    """Return the findings for all items of a claim; empty if the data lack them."""
    rows = _chosen(data.rows.get(claim.table, []), claim.rows)
    if claim.table == "pairs" and rows:
        rows = _with_marks(rows, data.tables["best"])
    if claim.whole and rows:
        picked = rows if claim.which is None else _chosen(rows, claim.which)
        alone = picked[0] if claim.which is None else {}
        marks = "; ".join(verdicts.marks(*(row.get("marks") for row in picked)))
        overall = _finding(
            claim, {**alone, "count": len(picked), "of": len(rows), "marks": marks}, ()
        )
        findings = [
            overall
            and replace(
                overall, rows=[] if claim.which is None else [_words(row) for row in picked]
            )
        ]
    else:
        findings = [
            _finding(claim, row, tuple(f"{row[name]}" for name in IDENTITY if name in row))
            for row in rows
            if as_usual(row)
        ]
    return [finding for finding in findings if finding]


def _with_marks(pairs: Iterable[Mapping[str, Any]], best: pd.DataFrame) -> list[Mapping[str, Any]]:
    """Return rows of `pairs` with the marks that both their kernels have in `best`: `pairs` has no
    such column.
    """
    where = ("element_type", "problem", "state")
    of = {
        (row["kernel"], *(str(row[name]) for name in where)): row["marks"]
        for row in best.to_dict("records")
    }
    kernels = ("kernel", "other")
    return [
        {
            **row,
            "marks": "; ".join(
                verdicts.marks(
                    *(of.get((row[it], *(str(row[name]) for name in where))) for it in kernels)
                )
            ),
        }
        for row in pairs
    ]


def _words(row: Mapping[str, Any]) -> str:
    """Return what identifies a row, and its reason if it has one."""
    names = (
        "kernel",
        "configuration",
        "other",
        "other_configuration",
        "problem",
        "element_type",
        "state",
    )
    text = " ".join(
        str(row[name])
        for name in names
        if row.get(name) == row.get(name) and row.get(name) not in (None, "-")
    )
    reason = row.get("reason")
    return f"{text}: {reason.partition(chr(10))[0]}" if isinstance(reason, str) and reason else text


def lacking(claim: Claim, data: Data, key: Key) -> dict[str, str]:
    """Return the parts of an item's key that no row of the data has, by column: its problem, for
    example, if that was not measured.

    If rows have all of them, a kernel has no rate there: it failed, or its cold time is as warm.
    """
    if claim.table not in data.tables:
        return {}
    table = data.tables[claim.table]
    of_key = dict(zip([name for name in IDENTITY if name in table], key, strict=False))
    lacks = {
        name: value for name, value in of_key.items() if value not in set(table[name].astype(str))
    }
    if lacks or not key:  # an item about the whole table has no key
        return lacks
    best = data.tables["best"].astype({"problem": str})
    alike = best[
        best["tflops"].notna()
        & (best["problem"] == of_key["problem"])
        & (best["state"] == of_key["state"])
    ]
    without = [
        of_key[name]
        for name in ("kernel", "other")
        if name in of_key and of_key[name] not in set(alike["kernel"])
    ]
    return {"rate": f"of {without[0]} at {of_key['problem']} {of_key['state']}"} if without else {}


def as_usual(row: Mapping[str, Any]) -> bool:
    """Return whether a row's configurations are compiled in the default way; other ways of
    compiling make other configurations.
    """
    labels = [str(row[name]) for name in ("configuration", "other_configuration") if name in row]
    return not any(Configuration.of("", label).build for label in labels)


def _finding(claim: Claim, row: Mapping[str, Any], key: Key) -> Finding | None:
    names = {name: value for name, value in row.items() if isinstance(value, int | float)}
    wanted = [claim.value, claim.low or claim.value, claim.high or claim.value]
    if any(
        not math.isfinite(names.get(name, math.nan)) for text in wanted for name in names_in(text)
    ):
        return None
    value, low, high = (float(evaluate(text, names)) for text in wanted)
    about = (
        ""
        if claim.whole or claim.single
        else " over ".join(str(row[name]) for name in ("kernel", "other") if name in row)
    )
    size = str(row.get("problem", ""))
    where = f"{size}, {row['state']}" if isinstance(claim.rows.get("state"), list) else size
    of = limit_key({"element_type": "float32", "problem": size, "state": "warm", **row})
    marks = [mark for mark in verdicts.marks(row.get("marks")) if mark in DECISIVE]
    about = f"{about} at {where}" if about else ""
    return Finding(
        key, about, value, low, high, int(row.get("processes") or 1), names, of, marks=marks
    )
