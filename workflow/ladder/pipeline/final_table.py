"""Print the end of a run: a table of the best configurations that fits the screen, the places of
all results, and failed kernels.
"""

import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ladder.analysis.tables import headline_problem
from ladder.core import verdicts, yaml_schema
from ladder.core.files import ROOT
from ladder.core.surroundings import remarks
from ladder.core.types import FAILED, rate_unit
from ladder.model.baselines import is_baseline
from ladder.model.kernel_file import path_of
from ladder.model.problem import VARIED, Problem
from ladder.pipeline.messages import busy_share
from ladder.storage.csv_files import read_csv
from ladder.storage.dataset_layout import PUBLISHED, REDRAWN, read_environment
from ladder.storage.published_index import HEADLINE, INDEX, featured, read
from ladder.storage.samples import last_time, session

KERNELS_FAILED = 2
"""The exit code of a run that made everything, but in which a kernel failed.

A kernel fails if one of its configurations is `incorrect`, `compile_error`, `launch_error` or
`timeout`.
"""
MEASURING = ("measure", "confirm")
"""The rules whose jobs measure."""
LEFT = ("kernel", "configuration", "marks")
"""The columns of the table that are aligned left."""
LINES, COLUMNS = 24, 999
"""The size of the screen if the output is not a terminal."""
LEAST_LINES = 6
"""The fewest lines of a dataset's table, however small the screen."""
AROUND = 12
"""Lines of the screen for everything except the table."""
REASON = 240
"""The most characters of a reason."""
COLUMNS_OF_BEST = (
    "kernel",
    "configuration",
    "tflops",
    "ratio",
    "ratio_low",
    "ratio_high",
    "marks",
    "reason",
    "reference",
    "interval",
)
"""The columns of `best.csv` that a table shows."""

Row = Mapping[str, Any]


def summary(made: Mapping[str, Sequence[Path]], lines: int, columns: int) -> tuple[str, str]:
    """Return two texts to print: the result of a run, and its failed kernels ("" if none).

    `made` are the files of the run's jobs by rule; `lines` and `columns` are the size of the
    screen. The headline dataset, else the first, gets a table; each other dataset gets a line.
    Raises `InputError` for a file that its job did not make in this form.
    """
    of_rule = {rule: [path for path in paths if path.exists()] for rule, paths in made.items()}
    best = [
        path.parent
        for rule in ("aggregate", "redraw")
        for path in of_rule.get(rule, [])
        if path.name == "best.csv"
    ]
    folders = [folder for folder in best if REDRAWN not in folder.parts]
    # a run that only draws published data has the redrawn folders as its result
    results = sorted(folders or best, key=lambda folder: _published_name(folder) != HEADLINE)
    compiled = [
        row
        for path in of_rule.get("compile", [])
        if path.suffix == ".csv"
        for row in read_csv(path, text=True).to_dict("records")
    ]
    drawn = len(of_rule.get("check_drawn", []))
    text: list[str] = []
    if results:
        text += ["", *table(results[0], lines - AROUND - len(results[1:]), columns)]
    if results[1:]:
        text += ["", *(in_a_line(folder, columns) for folder in results[1:])]
    text += [line for folder in folders for line in (*unrated(folder), *doubtful(folder))]
    text += ["", *compiled_only(folders, compiled)]
    text += [line for path in of_rule.get("count", []) for line in counted(path)]
    pages = [path for path in of_rule.get("index", []) if path.suffix == ".html"]
    text += [
        f"Explore the results: {path}" for path in pages if not folders or REDRAWN not in path.parts
    ]
    text += [busy_share(folder / "costs.csv") for folder in folders]
    if drawn:
        text.append(
            f"{drawn} published dataset(s) drawn again, each byte as it was published; tables and "
            f"figures in results/{REDRAWN}/"
        )
        text += not_from_lock()
    return "\n".join(text).rstrip(), "\n".join(failures(folders, compiled))


def nothing_measured(made: Mapping[str, Sequence[Path]], written: Collection[Path]) -> str:
    """Return a message if a run has measurements, and all of them are from earlier runs; else "".

    `made` are the files of all jobs by rule, `written` those of the jobs that this run has done. A
    job may have measured nothing: if it was forced, the journal had everything.
    """
    measured = [path for rule in MEASURING for path in made.get(rule, []) if path.exists()]
    if not measured or any(session(path)["measured"] for path in measured if path in written):
        return ""
    last = max(map(last_time, measured)).astimezone()
    return (
        "Nothing was measured: all measurements are from earlier runs, the last of "
        f"{last:%Y-%m-%d %H:%M}. To measure again, run in "
        f"another folder, or remove {measured[0].parts[0]}/{measured[0].parts[1]} first"
    )


def not_from_lock() -> list[str]:
    """Return a line that names the published datasets with runs that were not measured with the
    packages of the lock, or none.
    """
    index = read(ROOT / PUBLISHED)
    counts = {group: len(entry.get("not_from_lock", {})) for group, entry in index.items()}
    names = [
        f"{group} ({count} of {len(index[group]['runs'])} runs)"
        for group, count in counts.items()
        if count
    ]
    return (
        [
            f"not measured with the packages of the lock: {', '.join(names)}; {PUBLISHED / INDEX} "
            "says which"
        ]
        if names
        else []
    )


def _environment(folder: Path) -> dict[str, Any]:
    """Return the data of `environment.json`. For redrawn published data, the file is beside the
    published samples.
    """
    own = folder / "environment.json"
    there = folder if own.exists() else featured(ROOT / PUBLISHED)[_published_name(folder)]
    return read_environment(there / own.name, ("name", "kind"))


def _published_name(folder: Path) -> str:
    """Return the device and campaign of the published data that were redrawn into a folder."""
    return "/".join(folder.parts[-2:])


def _rated(folder: Path) -> pd.DataFrame:
    """Return the rows of `best.csv` with a rate."""
    best = read_csv(
        folder / "best.csv",
        (*COLUMNS_OF_BEST, "problem", "m", "n", "k", "element_type", "state", "precision"),
    )
    return best[best["tflops"].notna()].astype({"problem": str})


def _at_one_problem(rated: pd.DataFrame) -> pd.DataFrame:
    """Return the rows at the problem of the ladder's figure, in the first state, fastest first."""
    alike = (rated["problem"] == headline_problem(rated)) & (
        rated["state"] == rated["state"].iloc[0]
    )
    return rated[alike].sort_values("tflops", ascending=False, kind="stable")


def table(folder: Path, lines: int, columns: int) -> list[str]:
    """Return lines with the best configuration of every kernel of a dataset, one element type after
    another.

    The rungs are in the order of the ladder, then the baselines and what rounds its operands, which
    are not ranked.

    Each element type is shown at one problem, that of the ladder's figure. Kernels without a rate
    there are named below.
    """
    environment, rated = _environment(folder), _rated(folder)
    if rated.empty:
        return [f"{environment['name']}: no kernel has a rate on any problem"]
    types = list(rated.groupby("element_type", sort=False))
    return [
        line
        for _, of_type in types
        for line in _of_type(folder, environment, of_type, lines // len(types), columns)
    ]


def _of_type(
    folder: Path, environment: Mapping[str, Any], rated: pd.DataFrame, lines: int, columns: int
) -> list[str]:
    """Return the part of a table for one element type."""
    unit, size = rate_unit(environment["kind"])
    rows = _at_one_problem(rated).to_dict("records")
    named = {row["kernel"] for row in rows}
    elsewhere = (
        rated[~rated["kernel"].isin(named)].groupby("kernel", sort=False)["problem"].unique()
    )
    others = ", ".join(f"{kernel} ({_few(labels)})" for kernel, labels in elsewhere.items())
    below = [f"  elsewhere: {others}"] if others else []
    most = max(lines - len(below), LEAST_LINES) - 3
    # if the screen is short, it lacks what is not ranked, then the slowest rungs
    ranked = sorted(rows, key=_context)
    ladder = list(rated["kernel"].drop_duplicates())
    kept = sorted(ranked[:most], key=lambda row: (_context(row), ladder.index(row["kernel"])))
    cells = [
        ["kernel", "configuration", unit, f"vs. {rows[0]['reference']}", "95 % interval", "marks"]
    ]
    for row in kept:
        ratio = [f"{100 * row['ratio']:.1f} %", _interval(row)]
        if row["kernel"] == row["reference"]:
            ratio = ["baseline", ""]
        marks = "; ".join(verdicts.marks(row["marks"]))
        cells.append(
            [row["kernel"], row["configuration"], f"{row['tflops'] / size:.4g}", *ratio, marks]
        )
    cells, wide = _fitting(cells, columns)
    m, n, k = (int(rows[0][name]) for name in "mnk")
    at = f"M={m} N={n} K={k}, {rows[0]['element_type']}, {rows[0]['state']}"
    library = environment.get("attributes", {}).get("library", rows[0]["reference"])
    text = [f"{environment['name']}, {at}; {library}; intervals {rows[0]['interval']}"]
    for line in cells:
        padded = [
            _cut(cell, width).ljust(width) if heading in LEFT else cell.rjust(width)
            for heading, cell, width in zip(cells[0], line, wide, strict=True)
        ]
        text.append(f"  {'  '.join(padded)}".rstrip())
    text = [_cut(line, columns) for line in [*text, *below]]
    counts = {
        "more kernel(s)": len(rows) - len(kept),
        "other problem(s)": rated["problem"].nunique() - 1,
    }
    left_out = " and ".join(f"{count} {name}" for name, count in counts.items() if count > 0)
    return [*text, f"  {left_out}: {folder / 'best.csv'}"] if left_out else text


def _fitting(cells: list[list[str]], columns: int) -> tuple[list[list[str]], list[int]]:
    """Return a table that fits the screen, and the widths of its columns: configurations are cut,
    then columns left out, then names cut.
    """
    for left_out in ("", "marks", "95 % interval", "configuration"):
        kept = [index for index, heading in enumerate(cells[0]) if heading != left_out]
        cells = [[line[index] for index in kept] for line in cells]
        wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
        if cells[0][1] == "configuration":
            wide[1] = max(
                len(cells[0][1]), min(wide[1], columns - 2 * len(wide) - sum(wide) + wide[1])
            )
        if sum(wide) + 2 * len(wide) <= columns:
            return cells, wide
    wide[0] = max(len("kernel"), wide[0] + columns - sum(wide) - 2 * len(wide))
    return cells, wide


def _context(row: Row) -> int:
    """Return 0 for a rung, 1 for the reference, 2 for what is not ranked: other baselines, and what
    rounds its operands.
    """
    if row["kernel"] == row["reference"]:
        return 1
    return 2 if is_baseline(row["kernel"]) or row["precision"] == row["precision"] else 0


def _interval(row: Row) -> str:
    """Return the interval of the ratio to the reference, in percent."""
    return verdicts.interval(
        ".1f", *(100 * row[name] for name in ("ratio", "ratio_low", "ratio_high"))
    )


def in_a_line(folder: Path, columns: int) -> str:
    """Return a line with a dataset's folder and its fastest kernel without rounded operands, in the
    first element type, at one problem.
    """
    environment, rated = _environment(folder), _rated(folder)
    if rated.empty:
        return f"{folder}: no kernel has a rate on any problem"
    unit, size = rate_unit(environment["kind"])
    rows = _at_one_problem(rated[rated["element_type"] == rated["element_type"].iloc[0]]).to_dict(
        "records"
    )
    best = next(
        (
            row
            for row in rows
            if not is_baseline(row["kernel"]) and row["precision"] != row["precision"]
        ),
        rows[0],
    )
    rate = f"{best['tflops'] / size:.4g} {unit}, {100 * best['ratio']:.1f} % of {best['reference']}"
    words = [
        f"{folder}: {best['kernel']} {rate} at {best['problem']}, {best['element_type']}, "
        f"{best['state']}"
    ]
    return _cut("; ".join([*words, *verdicts.busy(best["marks"])]), columns)


def unrated(folder: Path) -> list[str]:
    """Return lines on the kernels that have no rate in an element type although they did not fail,
    with the reason of the first row.
    """
    rated = _rated(folder)
    measured = set(zip(rated["kernel"], rated["element_type"], strict=True))
    by_reason: dict[str, list[str]] = {}
    for (kernel, element_type), rows in _summary(folder).groupby(
        ["kernel", "element_type"], sort=False
    ):
        if (kernel, element_type) not in measured and not rows["status"].isin(
            [*FAILED, "compile_error"]
        ).any():
            first = rows.iloc[0]
            reason = (
                f"{folder.name}, {element_type}: {first['status']}: {shortened(first['reason'])}"
            )
            by_reason.setdefault(reason, []).append(kernel)
    return [f"no rate: {', '.join(kernels)} on {reason}" for reason, kernels in by_reason.items()]


def doubtful(folder: Path) -> list[str]:
    """Return lines on what could change times: surroundings, other processes, and problems where
    the reference differs from itself.
    """
    rated = _rated(folder)
    marks = rated["marks"].map(verdicts.busy)
    disturbed, unsteady = (
        rated[marks.map(lambda of_row, mark=mark: mark in of_row)] for mark in verdicts.BUSY
    )
    lines = [
        f"Warning: {folder.name}: {remark}"
        for remark in remarks(_environment(folder).get("attributes", {}))
    ]
    if len(disturbed):
        reason = next(
            iter(disturbed["reason"].dropna()), "other processes computed meanwhile"
        ).split("; ")[0]
        lines.append(
            f"Warning: {folder.name}: {reason} ({len(disturbed)} of {len(rated)} rows, marked "
            "disturbed)"
        )
    itself = unsteady[unsteady["kernel"] == unsteady["reference"]]
    if len(itself):
        row = itself.iloc[0]
        beside = f"{100 * row['ratio']:.1f} % (95 % interval {_interval(row)})"
        lines.append(
            f"Warning: {folder.name}: no ratio is a result at "
            f"{_few([*(itself['problem'] + ' ' + itself['state'])])}: {row['kernel']} "
            f"timed beside itself has {beside} at the first. Measure again while nothing else runs"
        )
    return lines


def _summary(folder: Path) -> pd.DataFrame:
    return read_csv(
        folder / "summary.csv",
        ("kernel", "configuration", "element_type", "m", "n", "k", *VARIED, "status", "reason"),
    )


def _few(problems: Sequence[str], most: int = 3) -> str:
    return ", ".join(problems[:most]) + (", ..." if len(problems) > most else "")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def compiled_only(folders: Sequence[Path], compiled: Sequence[Row]) -> list[str]:
    """Return a line on the number of kernels compiled for a kind of device that the run did not
    measure.
    """
    kinds = {_environment(folder)["kind"] for folder in folders}
    rows = [row for row in compiled if _kind(row) not in kinds]
    if not rows:
        return []
    archs = ", ".join(dict.fromkeys(row["arch"] for row in rows))
    return [
        f"compiled but not measured, for want of a device: {len({row['kernel'] for row in rows})} "
        f"kernel(s) for {archs}"
    ]


def counted(path: Path) -> list[str]:
    """Return a line on the number of kernels in a table of counters, and why Nsight Compute
    refused.
    """
    rows = read_csv(path, ("reason",), text=True)
    reasons = ", ".join(filter(None, rows["reason"].unique()))
    return [f"counters of {len(rows)} kernel(s) in {path}" + (f": {reasons}" if reasons else "")]


def failures(folders: Sequence[Path], compiled: Sequence[Row]) -> list[str]:
    """Return a line for every kernel and kind of failure, with the number of rows and the reason of
    the first row.

    If a kernel is incorrect, the last line says how to see its first incorrect element.
    """
    failed = [
        (_kind(row), row, f"for {row['arch']}")
        for row in compiled
        if row["status"] == "compile_error"
    ]
    for folder in folders:
        rows, kind = _summary(folder), _environment(folder)["kind"]
        failed += [
            (kind, row, f"on {_of(row).label}")
            for row in rows[rows["status"].isin(FAILED)].to_dict("records")
        ]
    groups: dict[str, list[str]] = {}
    for kind, row, place in failed:
        reason = f"{row['configuration']} {place}: {shortened(row['reason'])}"
        groups.setdefault(f"{kind}/{row['kernel']}: {row['status']}", []).append(reason)
    lines = [
        f"{failure} in {len(reasons)} row(s); {reasons[0]}" for failure, reasons in groups.items()
    ]
    for kind, row, _ in failed:
        if row["status"] == "incorrect" and not is_baseline(row["kernel"]):
            return [*lines, f"`{_to_try(kind, row)}` shows the first incorrect element"]
    return lines


def _to_try(kind: str, row: Row) -> str:
    """Return the command that tries the configuration of a row of `summary.csv` on its problem."""
    problem = _of(row, *VARIED)
    words = [".venv/bin/ladder", "try", str(path_of(ROOT, kind, row["kernel"]).relative_to(ROOT))]
    words += ["--problem", f"{problem.m}x{problem.n}x{problem.k}"]
    words += ["--type", row["element_type"]] if row["element_type"] != problem.element_type else []
    # with a space, a value such as -1 would be an option
    words += [f"--{name}={value}" for name, value in problem.varied.items()]
    words += [
        word for pair in row["configuration"].split() if "=" in pair for word in ("--set", pair)
    ]
    return shlex.join(words)


def _kind(row: Row) -> str:
    return "cuda" if row["arch"].startswith("sm_") else "cpu"


def _of(row: Row, *varied: str) -> Problem:
    """Return the problem of a row, with some of the other properties of its operands."""
    own = {
        name: row[name] if name == "distribution" else yaml_schema.typed(row[name])
        for name in varied
    }
    m, n, k = (int(row[name]) for name in "mnk")
    return Problem(m, n, k, **own)


def shortened(reason: Any) -> str:
    """Return a reason as one line: the first error that a compiler reports, else the first line."""
    lines = (
        [line for line in reason.splitlines() if line.strip()] if isinstance(reason, str) else []
    )
    text = next(
        (line for line in lines if "error" in line.lower()),
        lines[0] if lines else "no reason given",
    )
    return _cut(text, REASON)
