"""Find the values of a dataset for each item of a claim."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pandas as pd

from ladder.analysis.dataset import Dataset
from ladder.analysis.finalists import AS_WARM
from ladder.analysis.repeatability import FEWEST_MACHINES, Limit, LimitKey, limit_key
from ladder.claims.definitions import COUNT, IDENTITY, Claim, Columns, Key, columns
from ladder.core import verdicts
from ladder.core.stats import between_processes, geometric_mean
from ladder.model.kernel import Configuration
from ladder.storage.dataset_layout import CLAIMED_OF

NAMED = (
    "kernel",
    "configuration",
    "other",
    "other_configuration",
    "problem",
    "element_type",
    "state",
)
"""The columns that name a counted row to a reader."""
RATIO = {"best": ("ratio", "ratio_low", "ratio_high"), "pairs": ("ratio", "low", "high")}
"""The columns of each table that have the claimed ratio and its interval."""
DECISIVE = (*verdicts.BUSY, "throttled")
"""The marks of a row that can leave an item of a claim open."""


@dataclass(frozen=True)
class Finding:
    """The value of data for one item of a claim."""

    key: Key
    value: float
    low: float
    high: float
    """The ends of the 95 % interval, or the value if there is none."""
    processes: int = 1
    machines: int = 0
    """The machines that the value is a mean over; 0 for the value of one dataset."""
    limit_of: LimitKey = ("", "", "", False, False)
    """The key of the limit between runs."""
    marks: Sequence[str] = ()
    """The `DECISIVE` marks of the rows, or of those that were counted."""
    rows: Sequence[str] = ()
    """The rows that were counted, as text."""
    of: int = 0
    """The number of rows that they were counted among."""
    binary: str = ""
    """The SHA-256 of the kernel's binary, where that is known."""

    @property
    def spread(self) -> tuple[float, int]:
        """Half the width of the interval, in logarithms, and its degrees of freedom; zeros for a
        value without an interval.
        """
        if not 0 < self.low < self.high:
            return 0.0, 0
        values = self.machines if self.machines > 1 else self.processes
        return math.log(self.high / self.low) / 2, max(values - 1, 1)

    @property
    def prediction(self) -> Limit | None:
        """How far the value of another machine may be from this mean over machines; None if it is
        over too few.

        The variance of the difference is that of one machine and that of the mean, s^2 (1 + 1/n).
        """
        if self.machines < FEWEST_MACHINES:
            return None
        half, degrees = self.spread
        return Limit(half * math.sqrt(self.machines + 1), degrees)


Row = Mapping[str, Any]


@dataclass(frozen=True)
class Data:
    """The data that claims are compared with: the rows of the tables of a dataset."""

    name: str
    environment: Mapping[str, Any]
    rows: Mapping[str, Sequence[Row]]

    @property
    def machine(self) -> str:
        """The UUID of the GPU, or the device model of a CPU, which has none."""
        return str(self.environment.get("attributes", {}).get("uuid") or self.environment["device"])


def over_machines(findings: Sequence[tuple[Data, Finding]]) -> Finding:
    """Return the mean of an item over machines, with the interval between machines.

    The value of a machine is the mean of the logarithms of its runs. One machine has no such
    interval: it is that of its first run. The findings are of one binary.
    """
    runs: dict[str, list[float]] = {}
    for data, finding in findings:
        runs.setdefault(data.machine, []).append(finding.value)
    first = findings[0][1]
    value, low, high = between_processes([[geometric_mean(values)] for values in runs.values()])
    if len(runs) == 1:
        low, high = (value / first.value * end for end in (first.low, first.high))
    marks = list(dict.fromkeys(mark for _, finding in findings for mark in finding.marks))
    return replace(first, value=value, low=low, high=high, machines=len(runs), marks=marks)


def of_samples(folder: Path, name: str = "") -> Data:
    """Return the data of a published dataset, with tables made from its samples. A repeat has no
    tables of the sweep.
    """
    dataset = Dataset.open(folder)
    tables = dataset.tables(CLAIMED_OF if dataset.has_sweep else ("best", "pairs"))
    binaries = [dataset.binary(row) for row in tables["best"].to_dict("records")]
    tables["best"] = tables["best"].assign(binary=binaries)
    return of_tables(tables, dataset.environment, name or folder.name)


def of_tables(
    tables: Mapping[str, pd.DataFrame], environment: Mapping[str, Any], name: str
) -> Data:
    """Return the data of tables. Rows of `pairs` get the marks of both their kernels in `best`."""
    rows = {table: frame.to_dict("records") for table, frame in tables.items()}

    def place(row: Row, kernel: str) -> Key:
        return kernel, row["element_type"], str(row["problem"]), row["state"]

    marks = {place(row, row["kernel"]): row["marks"] for row in rows["best"]}
    for row in rows["pairs"]:
        both = verdicts.marks(*(marks.get(place(row, row[name])) for name in ("kernel", "other")))
        row["marks"] = "; ".join(both)
    return Data(name, environment, rows)


def chosen(rows: Iterable[Row], filters: Columns) -> list[Row]:
    """Return the rows whose columns have the values of the filters, of which some may be patterns
    with `*`.
    """

    def fits(value: str, wanted: Sequence[str]) -> bool:
        patterns = (pattern for pattern in wanted if "*" in pattern)
        return value in wanted or any(fnmatchcase(value, pattern) for pattern in patterns)

    return [row for row in rows if all(fits(str(row.get(name)), filters[name]) for name in filters)]


def find(claim: Claim, data: Data) -> list[Finding]:
    """Return the findings for all items of a claim; empty if the data lack them."""
    rows = chosen(data.rows.get(claim.table, []), claim.rows)
    if claim.test == COUNT:
        return [_counted(claim, rows)] if rows else []
    findings = []
    for row in filter(as_usual, rows):
        key = tuple(str(row[name]) for name in IDENTITY[claim.table])
        value, low, high = (float(row[name]) for name in RATIO[claim.table])
        if all(map(math.isfinite, (value, low, high))):
            finding = Finding(key, value, low, high, int(row.get("processes") or 1))
            finding = replace(finding, marks=_marks(row), binary=row.get("binary", ""))
            findings.append(replace(finding, limit_of=limit_key(row)))
    return findings


def _counted(claim: Claim, rows: Sequence[Row]) -> Finding:
    """Return how many of the rows, or what share of them, the claim is about."""
    counted = chosen(rows, claim.which)
    value = float(len(counted) / len(rows) if claim.share else len(counted))
    words = [_words(row) for row in counted]
    return Finding((), value, value, value, marks=_marks(*counted), rows=words, of=len(rows))


def _marks(*rows: Row) -> list[str]:
    marks = verdicts.marks(*(row.get("marks") for row in rows))
    return [mark for mark in marks if mark in DECISIVE]


def _words(row: Row) -> str:
    """Return what identifies a row, and its reason if it has one."""
    values = (row.get(name) for name in NAMED)
    text = " ".join(str(value) for value in values if not pd.isna(value) and value != "-")
    reason = row.get("reason")
    return f"{text}: {reason.partition(chr(10))[0]}" if isinstance(reason, str) and reason else text


def lacking(claim: Claim, data: Data, key: Key) -> list[str]:
    """Return the parts of an item's key that no row of the data has: its problem, for example, if
    that was not measured.

    If rows have all of them, a kernel has no rate there: it failed, or its cold time is `AS_WARM`,
    which the words then say.
    """
    item = claim.item(key)
    rows, best = data.rows.get(claim.table, ()), data.rows["best"]
    lacks = [f"{name} {item[name]}" for name in item if not chosen(rows, {name: [item[name]]})]
    for name in {"kernel", "other"} & set(item):
        place = {"kernel": item[name], "problem": item["problem"], "state": item["state"]}
        rated = chosen(best, columns(place))
        if not lacks and all(pd.isna(row["tflops"]) for row in rated):
            why = [AS_WARM for row in rated if AS_WARM in str(row["reason"])]
            lacks = [f"rate of {' '.join([*place.values(), *why])}"]
    return lacks


def as_usual(row: Row) -> bool:
    """Return whether a row's configurations are compiled in the default way; other ways of
    compiling make other configurations.
    """
    labels = [str(row[name]) for name in ("configuration", "other_configuration") if name in row]
    return not any(Configuration.of("", label).build for label in labels)
