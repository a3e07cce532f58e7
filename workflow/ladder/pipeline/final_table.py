"""Print the end of a run: a table of the best configurations, the places of all results, and
failed kernels.
"""

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ladder.core import places, surroundings, verdicts
from ladder.core.clock import minutes
from ladder.core.types import FAILED, rate_unit
from ladder.model.baselines import is_baseline
from ladder.model.kernel import Configuration
from ladder.model.kernel_file import path_of
from ladder.storage.dataset_layout import COUNTERS, REDRAWN, read_environment
from ladder.storage.published_index import HEADLINE
from ladder.storage.rows import headline, read_rows
from ladder.storage.samples import last_time, session

KERNELS_FAILED = 2
"""The exit code of a run that made everything, but in which a kernel failed.

A kernel fails if one of its configurations is `incorrect`, `compile_error`, `launch_error` or
`timeout`.
"""
COLUMNS = 999
"""The width of the screen if the output is not a terminal."""
REASON = 240
"""The most characters of a reason."""
NAMED = 3
"""The most problems that a line names."""

SHOWN = (
    "kernel",
    "configuration",
    "precision",
    "element_type",
    *"mnk",
    "problem",
    "state",
    "reference",
    "tflops",
    "tflops_low",
    "tflops_high",
    "ratio",
    "ratio_low",
    "ratio_high",
    "interval",
    "marks",
    "reason",
)
"""The columns of `best.csv` that the end of a run needs."""

Row = Mapping[str, str]


@dataclass(frozen=True)
class Result:
    """A dataset of the run, measured or redrawn."""

    folder: Path
    environment: Mapping[str, Any]
    rated: Sequence[Row]
    """The rows of `best.csv` that have a rate, with the columns `SHOWN`."""
    swept: Mapping[str, tuple[Collection[str], Collection[str]]]
    """The kernels and the problems of each element type, in the order of `summary.csv`."""
    failed: Sequence[Row]
    """The rows of `summary.csv` that failed."""

    @classmethod
    def read(cls, folder: Path) -> "Result":
        """Read the tables in a folder. Raises `InputError` for one that its job did not make in
        this form.
        """
        rated = [
            {name: row[name] for name in SHOWN}
            for row in read_rows(folder / "best.csv", SHOWN)
            if row["tflops"]
        ]
        swept: dict[str, tuple[dict[str, None], set[str]]] = {}
        failed = []
        # row by row: a sweep may have millions
        for row in read_rows(folder / "summary.csv", ["status", "reason"]):
            kernels, problems = swept.setdefault(row["element_type"], ({}, set()))
            kernels[row["kernel"]] = None
            problems.add(row["problem"])
            if row["status"] in FAILED:
                failed.append(row)
        environment = read_environment(folder / "environment.json", ("name", "kind"))
        return cls(folder, environment, rated, swept, failed)

    def heading(self) -> str:
        """Return what was measured where, and with which library."""
        name, attributes = self.environment["name"], self.environment.get("attributes", {})
        folder = self.folder.name if REDRAWN in self.folder.parts else self.folder.parent.name
        words = ["Gemm Ladder", f"campaign {folder}", name, attributes.get("library", "")]
        return " · ".join(filter(None, words))

    def at_one_problem(self, element_type: str) -> list[Row]:
        """Return the rows with a rate of an element type, at the problem of the ladder's figure and
        in the first state.

        The rungs are in the order of the ladder, then the reference, then what is not ranked.
        """
        rated = [row for row in self.rated if row["element_type"] == element_type]
        if not rated:
            return []
        at = headline(rated), rated[0]["state"]
        return sorted((row for row in rated if (row["problem"], row["state"]) == at), key=_context)


def summary(
    files: Collection[Path], columns: int, seconds: float = 0.0, remarks: Iterable[str] = ()
) -> tuple[str, str]:
    """Return two texts to print: the result of a run, and its failed kernels ("" if none).

    `files` are those of the run's jobs; `columns` is the width of the screen, `seconds` what the
    run took, `remarks` what else to say of it. Each dataset of a campaign gets a table; of published
    ones, the headline dataset, else the first. Raises `InputError` for a file that its job did not
    make in this form.
    """

    def named(name: str) -> list[Path]:
        return [path for path in files if path.name == name]

    folders = [path.parent for path in named("best.csv")]
    own, redrawn = (
        [folder for folder in folders if (REDRAWN in folder.parts) == drawn]
        for drawn in (False, True)
    )
    redrawn.sort(key=lambda folder: not folder.as_posix().endswith(HEADLINE))
    results = [Result.read(folder) for folder in own]
    compiled = [
        row
        for path in named("resources.csv")
        if path.parts[-4] == "build"
        for row in read_rows(path)
    ]
    failed = "\n".join(failures(results, compiled))
    text: list[str] = []
    # a run that only draws published data has them as its result
    for result in results or map(Result.read, redrawn[:1]):
        text += ["", f"{result.heading()} · {minutes(seconds)}", *table(result, columns)]
    text += ["", *map(correct, results), *compiled_only(results, compiled), *remarks]
    for path in named(COUNTERS):
        reasons = [row["reason"] for row in read_rows(path, ["reason"])]
        why = ", ".join(dict.fromkeys(filter(None, reasons)))
        text.append(f"Counters of {_count(reasons, 'kernel')}: {path}{why and f' ({why})'}")
    if redrawn:
        text.append(
            f"{_count(redrawn, 'published dataset')} redrawn in results/{REDRAWN}/: identical."
        )
    text += [line for result in results for line in doubtful(result)]
    pages = [path for path in named("index.html") if not own or REDRAWN not in path.parts]
    text += ["", *(f"Explore   {path}" for path in pages)]
    if own and not failed:
        text.append(f"Next      {_ladder()} new mine --cpu   write a kernel and compare it")
    return "\n".join(text).rstrip(), failed


def nothing_measured(files: Collection[Path], written: Collection[Path]) -> str:
    """Return a message if a run has measurements, and all of them are from earlier runs; else "".

    `files` are those of the run's jobs, `written` those that they have written. A job may have
    measured nothing: if it was forced, the journal had everything.
    """
    measured = [path for path in files if path.suffix == ".parquet"]
    if not measured or any(session(path)["measured"] for path in measured if path in written):
        return ""
    last = max(map(last_time, measured)).astimezone()
    parts = measured[0].parts  # in a module, a prefix is before `results`
    folder = Path(*parts[: (parts.index("results") if "results" in parts else 0) + 2])
    return (
        f"Nothing to {'measure' if written else 'do'}: measured {last:%Y-%m-%d %H:%M}. To measure "
        f"again, remove {folder} or run in another folder"
    )


def table(result: Result, columns: int) -> list[str]:
    """Return lines with the best configuration of every kernel of a dataset, one element type after
    another, each at one problem. Kernels without a rate there are named below.
    """
    text = []
    for element_type, (kernels, problems) in result.swept.items():
        rows = result.at_one_problem(element_type)
        text.append("")
        if rows:
            text += _cells(rows, result.environment["kind"], columns)
            text += ["", f"  ±: half the 95 % interval, {rows[0]['interval']}.{_fastest(rows)}"]
        named = {row["kernel"] for row in rows}
        if others := [kernel for kernel in kernels if kernel not in named]:
            text.append(f"  Without a rate in {element_type} here: {', '.join(others)}")
        if more := len(problems) - 1:
            text.append(f"  {_count(range(more), 'other problem')}: {result.folder / 'best.csv'}")
    return text


def _cells(rows: Sequence[Row], kind: str, columns: int) -> list[str]:
    """Return the lines of a table. A narrow screen cuts their ends, then the names of kernels."""
    unit, size = rate_unit(kind)
    first = rows[0]
    reference, problem = first["reference"], " × ".join(first[name] for name in "mnk")
    title = f"{problem}, {first['element_type']}, {first['state']}"
    cells = [[title, unit, f"× {reference}", "configuration", ""]]
    for row in rows:
        rate = verdicts.plus_minus(*_numbers(row, "tflops", size))
        ratio = "1" if row["kernel"] == reference else _ratio(row)
        ratio = ratio.replace("(interval not known)", "± ?")
        cells.append([row["kernel"], rate.split()[0], ratio, row["configuration"], row["marks"]])
    wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
    wide[0] = max(1, min(wide[0], columns - sum(wide[1:3]) - 6))
    lines = []
    for line in cells:
        words = [cell.ljust(width) for cell, width in zip(line, wide, strict=True)]
        words[:2] = _cut(words[0], wide[0]), line[1].rjust(wide[1])
        lines.append(_cut("  " + "  ".join(words).rstrip(), columns))
    return lines


def _fastest(rows: Sequence[Row]) -> str:
    """Return a sentence on the rung with the highest ratio, unless a busy machine or an interval
    that is not known leaves it open.
    """
    rungs = [row for row in rows if not _context(row) and row["ratio"]]
    if not rungs or verdicts.busy(*(row["marks"] for row in rows)):
        return ""
    best = max(rungs, key=lambda row: _number(row["ratio"]))
    if not verdicts.known(*_numbers(best, "ratio")):
        return ""
    return f" {best['kernel']} ran {_ratio(best)} times as fast as {best['reference']}."


def _context(row: Row) -> int:
    """Return 0 for a rung, 1 for the reference, 2 for what is not ranked: other baselines, and what
    rounds its operands.
    """
    if row["kernel"] == row["reference"]:
        return 1
    return 2 if is_baseline(row["kernel"]) or row["precision"] else 0


def _ratio(row: Row) -> str:
    """Return the ratio to the reference with half the width of its interval."""
    return verdicts.plus_minus(*_numbers(row, "ratio"))


def _numbers(row: Row, name: str, unit: float = 1.0) -> tuple[float, float, float]:
    """Return a value and the ends of its interval, in a unit."""
    value, low, high = (_number(row[name + end]) / unit for end in ("", "_low", "_high"))
    return value, low, high


def _number(cell: str) -> float:
    return float(cell or "nan")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def doubtful(result: Result) -> list[str]:
    """Return lines on what could change times: surroundings, other processes, and problems where
    the reference differs from itself.
    """
    rated, lines = result.rated, surroundings.remarks(result.environment.get("attributes", {}))
    disturbed, unsteady = ([row for row in rated if mark in row["marks"]] for mark in verdicts.BUSY)
    if disturbed:
        reason = disturbed[0]["reason"].partition("; ")[0]
        lines.append(
            f"{len(disturbed)} of {len(rated)} values are flagged `disturbed`: "
            f"{reason or 'timed while other processes computed'}"
        )
    itself = [row for row in unsteady if row["kernel"] == row["reference"]]
    if itself:
        row = itself[0]
        places = [f"{each['problem']} {each['state']}" for each in itself]
        more = ", ..." if len(places) > NAMED else ""
        lines.append(
            f"ratios at {', '.join(places[:NAMED])}{more} are unreliable: {row['kernel']} is "
            f"{_ratio(row)} times as fast as itself at the first. Measure again on an idle machine"
        )
    return [f"Warning: {result.folder.name}: {line}" for line in lines]


def correct(result: Result) -> str:
    """Return a sentence on how many kernels of a dataset are correct wherever they were run."""
    swept = {kernel for kernels, _ in result.swept.values() for kernel in kernels}
    kernels = {kernel for kernel in swept if not is_baseline(kernel)}
    failed = {row["kernel"] for row in result.failed}
    right = kernels.intersection(row["kernel"] for row in result.rated) - failed
    return f"Kernels correct on {result.folder.name}: {len(right)} of {len(kernels)}."


def compiled_only(own: Sequence[Result], compiled: Sequence[Row]) -> list[str]:
    """Return a line on the number of kernels compiled for a kind of device that the run did not
    measure.
    """
    kinds = {result.environment["kind"] for result in own}
    rows = [row for row in compiled if _kind(row["arch"]) not in kinds]
    if not rows:
        return []
    archs = ", ".join(dict.fromkeys(row["arch"] for row in rows))
    return [
        f"{_count({row['kernel'] for row in rows}, 'kernel')} compiled for {archs}, not measured."
    ]


def failures(own: Sequence[Result], compiled: Sequence[Row]) -> list[str]:
    """Return a line for every kernel and kind of failure, with the number of rows and the reason of
    the first row.

    If a kernel is incorrect, the last line says how to see its first incorrect element.
    """
    failed = [
        (_kind(row["arch"]), row, f"for {row['arch']}")
        for row in compiled
        if row["status"] == "compile_error"
    ]
    for result in own:
        kind = result.environment["kind"]
        failed += [(kind, row, f"on {row['problem']}") for row in result.failed]
    groups: dict[str, list[str]] = {}
    hints = []
    for kind, row, place in failed:
        reason = f"{row['configuration']} {place}: {shortened(row['reason'])}"
        groups.setdefault(f"{kind}/{row['kernel']}: {row['status']}", []).append(reason)
        if row["status"] == "incorrect" and path_of(kind, row["kernel"]).exists():
            hints.append(f"`{_to_try(kind, row)}` shows the first incorrect element")
    lines = [
        f"{failure} in {len(reasons)} row(s); {reasons[0]}" for failure, reasons in groups.items()
    ]
    return lines + hints[:1]


def _to_try(kind: str, row: Row) -> str:
    """Return the command that tries the configuration of a row of `summary.csv` on its problem."""
    path = places.named(path_of(kind, row["kernel"]))
    words = [_ladder(), "try", path, "--problem", f"{row['m']}x{row['n']}x{row['k']}"]
    if row["element_type"] != "float32":
        words += ["--type", row["element_type"]]
    # the label says what is unusual; with a space, a value such as -1 would be an option
    words += [f"--{pair}" for pair in row["problem"].split()[1:]]
    for pair in Configuration.of("", row["configuration"]).assignments:
        words += ["--set", pair]
    return shlex.join(words)


def _ladder() -> str:
    return ".venv/bin/ladder" if places.project() == places.HOME else "ladder"


def _count(things: Collection[Any], noun: str) -> str:
    return f"{len(things)} {noun}{'s' * (len(things) != 1)}"


def _kind(arch: str) -> str:
    return "cuda" if arch.startswith("sm_") else "cpu"


def shortened(reason: str) -> str:
    """Return a reason as one line: the first error that a compiler reports, else the first line."""
    lines = list(filter(str.strip, reason.splitlines())) or ["no reason given"]
    return _cut(next((line for line in lines if "error" in line.lower()), lines[0]), REASON)
