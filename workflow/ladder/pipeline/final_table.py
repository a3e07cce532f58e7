"""What a run ends with: the best of every kernel in a table of at most a screen, where all of it lies, and which kernels are not right."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ladder.analysis.tables import shown
from ladder.core.files import ROOT
from ladder.core.types import FAILED, rate_unit
from ladder.model.campaign import is_baseline
from ladder.model.kernel import SUFFIX
from ladder.model.problem import Problem
from ladder.pipeline.messages import busy_share
from ladder.storage.csv_files import read_csv
from ladder.storage.dataset_layout import PUBLISHED, REDRAWN, SHOWN, read_environment

NOT_RIGHT = 2
"""The exit code of a run that was done whole, and found a kernel of its campaign not right: `incorrect`, `compile_error`,
`launch_error` or `timeout`, in one configuration or in all."""
LINES, WIDE = 24, 999
"""Of what is no terminal."""
LEAST_LINES = 6
"""Of a dataset's table, however small the screen."""
AROUND = 12
"""Lines of a screen that are left to all but the tables."""
REASON = 240
"""Characters of a reason that are shown."""
SHOWN_OF_BEST = ("kernel", "configuration", "tflops", "ratio", "ratio_low", "ratio_high", "marks", "reference", "interval")
"""Columns of `best.csv` that a table says something of."""

Row = Mapping[str, Any]


def tell(made: Mapping[str, Sequence[Path]], lines: int, columns: int) -> tuple[str, str]:
    """What to print of a run, and what of it is not right (""): `made` are the files of its jobs by rule, `lines` and `columns` those of
    the screen.

    Of several datasets one is a table, that of which pages show figures or the first, and each other one a line. Raises `InputError` for
    a file that is not what its job made.
    """
    of_rule = {rule: [path for path in paths if path.exists()] for rule, paths in made.items()}
    best = [path.parent for path in of_rule.get("aggregate", []) if path.name == "best.csv"]
    folders = [folder for folder in best if REDRAWN not in folder.parts]
    # of a run that only draws what is published that is the result, but for repeats, which are there for the page
    results = sorted(folders or [folder for folder in best if folder.parent.name == REDRAWN], key=lambda it: it.name != SHOWN)
    compiled = [row for path in of_rule.get("compile", []) if path.suffix == ".csv" for row in _rows(path)]
    drawn = len(of_rule.get("check_drawn", []))
    told: list[str] = []
    for folder in results[:1]:
        told += ["", *table(folder, lines - AROUND - len(results[1:]), columns)]
    told += [""] * (len(results) > 1) + [in_a_line(folder, columns) for folder in results[1:]]
    told += [line for folder in folders for line in unrated(folder)]
    told += ["", *compiled_only(folders, compiled)]
    told += [line for path in of_rule.get("count", []) for line in counted(path)]
    pages = [path for path in of_rule.get("index", []) if path.suffix == ".html"]
    told += [f"all of it on one page: {path}" for path in pages if not folders or REDRAWN not in path.parts]
    told += [busy_share(folder / "costs.csv") for folder in folders]
    if drawn:
        told.append(
            f"{drawn} published dataset(s) drawn again, each byte as it was published; tables and figures in results/{REDRAWN}/"
        )
    return "\n".join(told).rstrip(), "\n".join(not_right(folders, compiled))


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _environment(folder: Path) -> dict[str, Any]:
    """What `environment.json` says; of what is drawn again it lies with the published samples."""
    own = folder / "environment.json"
    return read_environment(own if own.exists() else ROOT / PUBLISHED / folder.name / own.name, ("name", "kind"))


def _rated(folder: Path) -> pd.DataFrame:
    """The rows of `best.csv` with a rate."""
    best = read_csv(folder / "best.csv", (*SHOWN_OF_BEST, "problem", "m", "n", "k", "element_type", "state", "precision"))
    return best[best["tflops"].notna()].astype({"problem": str})


def _at_one_problem(rated: pd.DataFrame) -> pd.DataFrame:
    """The rows at the problem that the ladder is shown at, in the first state, fastest first."""
    alike = (rated["problem"] == shown(rated)) & (rated["state"] == rated["state"].iloc[0])
    return rated[alike].sort_values("tflops", ascending=False, kind="stable")


def table(folder: Path, lines: int, columns: int) -> list[str]:
    """The best configuration of every kernel of the dataset in a folder, fastest first: an element type after another, each at the problem
    that its ladder is shown at. Kernels that were measured on other problems only are named below.
    """
    environment, rated = _environment(folder), _rated(folder)
    if rated.empty:
        return [f"{environment['name']}: no kernel has a rate on any problem"]
    types = list(rated.groupby("element_type", sort=False))
    return [line for _, of_type in types for line in _of_type(folder, environment, of_type, lines // len(types), columns)]


def _of_type(folder: Path, environment: Mapping[str, Any], rated: pd.DataFrame, lines: int, columns: int) -> list[str]:
    """The part of a table that is about one element type."""
    unit, size = rate_unit(environment["kind"])
    rows = _at_one_problem(rated).to_dict("records")
    named = {row["kernel"] for row in rows}
    elsewhere = rated[~rated["kernel"].isin(named)].groupby("kernel", sort=False)["problem"].unique()
    below = [f"  elsewhere: {', '.join(f'{kernel} ({_few(found)})' for kernel, found in elsewhere.items())}"] * (
        len(elsewhere) > 0
    )
    kept = rows[: max(lines - len(below), LEAST_LINES) - 3]
    cells = [["kernel", "configuration", unit, f"of {rows[0]['reference']}", "95 %", "marks"]]
    cells += [
        [
            row["kernel"],
            row["configuration"],
            f"{row['tflops'] / size:.4g}",
            f"{100 * row['ratio']:.1f} %",
            f"{100 * row['ratio_low']:.1f} .. {100 * row['ratio_high']:.1f}",
            str(row["marks"]) if row["marks"] == row["marks"] else "",
        ]
        for row in kept
    ]
    wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
    # configurations give way first, to no less than their heading
    wide[1] = max(len(cells[0][1]), min(wide[1], columns - 2 * len(wide) - sum(wide) + wide[1]))
    m, n, k = (int(rows[0][name]) for name in "mnk")
    where = f"M={m} N={n} K={k}, {rows[0]['element_type']}, {rows[0]['state']}"
    found = [f"{environment['name']}, {where}; intervals {rows[0]['interval']}"]
    for line in cells:
        texts = [
            text.rjust(width) if 2 <= index <= 4 else _cut(text, width).ljust(width)
            for index, (text, width) in enumerate(zip(line, wide, strict=True))
        ]
        found.append(f"  {'  '.join(texts)}".rstrip())
    found = [_cut(line, columns) for line in [*found, *below]]
    more = len(rows) - len(kept)
    problems = rated["problem"].nunique() - 1
    others = [f"{more} slower ones"] * (more > 0) + [f"{problems} other problem(s)"] * (problems > 0)
    return [*found, f"  {' and '.join(others)}: {folder / 'best.csv'}"] if others else found


def in_a_line(folder: Path, columns: int) -> str:
    """Where the dataset in a folder lies, and its fastest kernel in the arithmetic of the first element type, at one problem."""
    environment, rated = _environment(folder), _rated(folder)
    if rated.empty:
        return f"{folder}: no kernel has a rate on any problem"
    unit, size = rate_unit(environment["kind"])
    rows = _at_one_problem(rated[rated["element_type"] == rated["element_type"].iloc[0]]).to_dict("records")
    best = next((row for row in rows if not is_baseline(row["kernel"]) and row["precision"] != row["precision"]), rows[0])
    rate = f"{best['tflops'] / size:.4g} {unit}, {100 * best['ratio']:.1f} % of {best['reference']}"
    return _cut(f"{folder}: {best['kernel']} {rate} at {best['problem']}, {best['element_type']}, {best['state']}", columns)


def unrated(folder: Path) -> list[str]:
    """The kernels of a dataset that have no rate in an element type, and are none that is not right, with the reason of the first row."""
    rated = _rated(folder)
    measured = set(zip(rated["kernel"], rated["element_type"], strict=True))
    found: dict[str, list[str]] = {}
    for (kernel, element_type), rows in _summary(folder).groupby(["kernel", "element_type"], sort=False):
        if (kernel, element_type) not in measured and not rows["status"].isin([*FAILED, "compile_error"]).any():
            first = rows.iloc[0]
            why = f"{folder.name}, {element_type}: {first['status']}: {shortened(first['reason'])}"
            found.setdefault(why, []).append(kernel)
    return [f"no rate: {', '.join(kernels)} on {why}" for why, kernels in found.items()]


def _summary(folder: Path) -> pd.DataFrame:
    return read_csv(folder / "summary.csv", ("kernel", "configuration", "element_type", "m", "n", "k", "status", "reason"))


def _few(problems: Sequence[str], most: int = 3) -> str:
    return ", ".join([*problems[:most], *["..."] * (len(problems) > most)])


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def compiled_only(folders: Sequence[Path], compiled: Sequence[Row]) -> list[str]:
    """Of the kernels that were compiled, those whose kind no dataset of the run is of."""
    kinds = {_environment(folder)["kind"] for folder in folders}
    rows = [row for row in compiled if _kind(row) not in kinds]
    if not rows:
        return []
    archs = ", ".join(dict.fromkeys(row["arch"] for row in rows))
    return [
        f"compiled and not measured, without a device to run on: {len({row['kernel'] for row in rows})} kernel(s) for {archs}"
    ]


def counted(path: Path) -> list[str]:
    """What the table of counters has."""
    rows = _rows(path)
    reasons = ", ".join(dict.fromkeys(row["reason"] for row in rows if row.get("reason")))
    return [f"counters of {len(rows)} kernel(s) in {path}" + (f": {reasons}" if reasons else "")]


def not_right(folders: Sequence[Path], compiled: Sequence[Row]) -> list[str]:
    """A line for every kernel and status that is not right, with how many configurations it is and the reason of the first of them.

    Where the results of one are wrong, a line more says how to see what is.
    """
    bad = [(_kind(row), row, f"for {row['arch']}") for row in compiled if row["status"] == "compile_error"]
    for folder in folders:
        rows, kind = _summary(folder), _environment(folder)["kind"]
        bad += [(kind, row, f"on {_problem(row)}") for row in rows[rows["status"].isin(FAILED)].to_dict("records")]
    found: dict[tuple[str, str, str], list[tuple[Row, str]]] = {}
    for kind, row, where in bad:
        found.setdefault((kind, row["kernel"], row["status"]), []).append((row, where))
    return [
        f"{kind}/{kernel}: {status} in {len(ones)} row(s); {ones[0][0]['configuration']} {ones[0][1]}: {shortened(ones[0][0]['reason'])}"
        for (kind, kernel, status), ones in found.items()
    ] + [
        f"`.venv/bin/ladder try kernels/{kind}/{kernel}{SUFFIX[kind]}` shows the first wrong element"
        for kind, kernel, status in found
        if status == "incorrect" and not is_baseline(kernel)
    ][:1]


def _kind(row: Row) -> str:
    return "cuda" if row["arch"].startswith("sm_") else "cpu"


def _problem(row: Row) -> str:
    m, n, k = (int(row[name]) for name in "mnk")
    return Problem(m, n, k).label


def shortened(reason: Any) -> str:
    """A reason on one line: of what a compiler says, its first error. What is no text is none."""
    lines = [line for line in reason.splitlines() if line.strip()] if isinstance(reason, str) else []
    text = next((line for line in lines if "error" in line.lower()), lines[0] if lines else "no reason given")
    return _cut(text, REASON)
