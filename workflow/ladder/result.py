"""What a run ends with: the best of every kernel in a table of at most a screen, where all of it lies, and which kernels are not right."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ladder.campaign import Problem
from ladder.environment import ROOT
from ladder.study import PUBLISHED
from ladder.tables import read_csv, shown
from ladder.targets import REDRAWN, busy_share
from ladder.units import FAILED, rate_unit

NOT_RIGHT = 2
"""The exit code of a run that was done whole, and found a kernel of its campaign not right: `incorrect`, `compile_error`,
`launch_error` or `timeout`, in one configuration or in all."""
LEAST_LINES = 6
"""Of a dataset's table, however small the screen."""
AROUND = 12
"""Lines of a screen that are left to all but the tables."""
REASON = 240
"""Characters of a reason that are shown."""

Row = Mapping[str, Any]


def tell(made: Mapping[str, Sequence[Path]], lines: int) -> tuple[str, str]:
    """What to print of a run, and what of it is not right (""): `made` are the files of its jobs by rule, `lines` those of the screen."""
    of_rule = {rule: [path for path in paths if path.exists()] for rule, paths in made.items()}
    best = [path.parent for path in of_rule.get("aggregate", []) if path.name == "best.csv"]
    folders = [folder for folder in best if REDRAWN not in folder.parts]
    # of a run that only draws what is published that is the result, but for repeats, which are there for the page
    results = folders or [folder for folder in best if folder.parent.name == REDRAWN]
    compiled = [row for path in of_rule.get("compile", []) for row in _rows(path)]
    drawn = len(of_rule.get("check_drawn", []))
    told = [line for folder in results for line in ["", *table(folder, (lines - AROUND) // len(results))]]
    told += ["", *compiled_only(folders, compiled)]
    told += [line for path in of_rule.get("count", []) for line in counted(path)]
    told += [f"all of it on one page: {path}" for path in of_rule.get("index", []) if not folders or REDRAWN not in path.parts]
    told += [busy_share(folder / "costs.csv") for folder in folders]
    if drawn:
        told.append(
            f"{drawn} published dataset(s) drawn again, each byte as it was published; tables and figures in results/{REDRAWN}/"
        )
    return "\n".join(told).rstrip(), "\n".join(not_right(folders, compiled))


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _environment(folder: Path) -> Any:
    """What `environment.json` says; of what is drawn again it lies with the published samples."""
    own = folder / "environment.json"
    return json.loads((own if own.exists() else ROOT / PUBLISHED / folder.name / own.name).read_text())


def table(folder: Path, lines: int) -> list[str]:
    """The best configuration of every kernel of the dataset in a folder at the problem that its ladder is shown at, fastest first."""
    environment, best = _environment(folder), read_csv(folder / "best.csv").astype({"problem": str})
    if not best["tflops"].notna().any():
        return [f"{environment['name']}: no kernel has a rate on any problem"]
    unit, size = rate_unit(environment["kind"])
    problem, first = shown(best), best[best["tflops"].notna()].iloc[0]
    alike = (best["problem"] == problem) & (best["state"] == first["state"]) & (best["element_type"] == first["element_type"])
    rows = best[alike & best["tflops"].notna()].sort_values("tflops", ascending=False, kind="stable").to_dict("records")
    kept = rows[: max(lines, LEAST_LINES) - 3]
    cells = [["kernel", "configuration", unit, f"of {first['reference']}", "95 %", "marks"]]
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
    m, n, k = (int(rows[0][name]) for name in "mnk")
    title = f"{environment['name']}, M={m} N={n} K={k}, {first['element_type']}, {first['state']}; intervals {first['interval']}"
    found = [title]
    for line in cells:
        texts = [
            text.rjust(width) if 2 <= index <= 4 else text.ljust(width)
            for index, (text, width) in enumerate(zip(line, wide, strict=True))
        ]
        found.append(f"  {'  '.join(texts)}".rstrip())
    more = len(rows) - len(kept)
    problems = best["problem"].nunique() - 1
    others = [f"{more} slower ones"] * (more > 0) + [f"{problems} other problem(s)"] * (problems > 0)
    return [*found, f"  {' and '.join(others)}: {folder / 'best.csv'}"] if others else found


def compiled_only(folders: Sequence[Path], compiled: Sequence[Row]) -> list[str]:
    """Of the kernels that were compiled, those whose kind no dataset of the run is of."""
    kinds = {json.loads((folder / "environment.json").read_text())["kind"] for folder in folders}
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
    """A line for every kernel and status that is not right, with how many configurations it is and the reason of the first of them."""
    bad = [(_kind(row), row, f"for {row['arch']}") for row in compiled if row["status"] == "compile_error"]
    for folder in folders:
        kind = json.loads((folder / "environment.json").read_text())["kind"]
        bad += [(kind, row, f"on {_problem(row)}") for row in _rows(folder / "summary.csv") if row["status"] in FAILED]
    found: dict[tuple[str, str, str], list[tuple[Row, str]]] = {}
    for kind, row, where in bad:
        found.setdefault((kind, row["kernel"], row["status"]), []).append((row, where))
    return [
        f"{kind}/{kernel}: {status} in {len(ones)} row(s); {ones[0][0]['configuration']} {ones[0][1]}: {shortened(ones[0][0]['reason'])}"
        for (kind, kernel, status), ones in found.items()
    ]


def _kind(row: Row) -> str:
    return "cuda" if row["arch"].startswith("sm_") else "cpu"


def _problem(row: Row) -> str:
    m, n, k = (int(row[name]) for name in "mnk")
    return Problem(m, n, k).label


def shortened(reason: str) -> str:
    """A reason on one line: of what a compiler says, its first error."""
    lines = [line for line in reason.splitlines() if line.strip()]
    text = next((line for line in lines if "error" in line.lower()), lines[0] if lines else "no reason given")
    return text if len(text) <= REASON else text[: REASON - 1] + "…"
