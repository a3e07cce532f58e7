"""Format cells, headings and legends of the tables in the pages."""

import re
from collections.abc import Sequence

from ladder.analysis.tables import BETWEEN
from ladder.claims.definitions import NOTHING
from ladder.core import verdicts
from ladder.core.verdicts import SAME, UNCONFIRMED
from ladder.figures.data import BASELINE_NAME, MARKS, View, lettered, span
from ladder.model.kernel import Configuration

from book.data import Row


def markdown_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    words: Sequence[int] = (0,),
    notes: Sequence[str] = (),
) -> str:
    """Return a Markdown table, with an explanation of its letters below, and more notes.

    The columns `words` hold text and are left-aligned; the others hold numbers and are
    right-aligned. A row may be shorter than the table.
    """
    if not rows:
        return NOTHING.capitalize() + "."
    places = [i % len(columns) for i in words]
    lines = [columns, ["---" if i in places else "---:" for i in range(len(columns))]]
    lines += [[*row, *["–"] * (len(columns) - len(row))] for row in rows]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    letters = set(" ".join(re.findall(r"[\d%]((?: [a-z])+)(?= \||<br>| \()", table)).split())
    explained = [
        f"{letter}: {mark}, {meaning}"
        for mark, (letter, _, meaning) in MARKS.items()
        if letter in letters
    ]
    explained += ["≈: not distinguishable"] if "≈ ×" in table else []
    explained += [f"~: {MARKS['raced'][2]}"] if "| ~" in table else []
    explained += notes
    return f"{table}\n\n{'; '.join(explained)}." if explained else table


def number(value: float | None, sign: str = "") -> str:
    """Return a number with three significant digits or no fraction, "–" for None."""
    if value is None:
        return "–"
    rounded = float(f"{value:.3g}")
    return (
        f"{sign}{value:,.0f}"
        if abs(rounded) >= 100 or isinstance(value, int)
        else f"{sign}{value:#.3g}"
    )


def gain_text(row: Row | None) -> str:
    """Return the speedup over another kernel, with ≈ if the two are not distinguishable."""
    return (
        "–"
        if row is None
        else number(float(row["ratio"]), "≈ ×" if row["verdict"] == SAME else "×")
    )


def rate_text(data: View, row: Row) -> str:
    """Return the rate in the device's unit, with the letters of its marks."""
    return lettered(number(data.rate(row["tflops"])), row)


def whence(data: View) -> str:
    """Return the device and the commit of a dataset."""
    return (
        f"On one {data.environment['name']}, commit `{data.environment['project']['commit'][:10]}`"
    )


def interval_notes(data: View) -> list[str]:
    """Return a note on the number of processes that the intervals are from."""
    if data.best.empty:
        return []
    count = span(data.best["processes"])
    return [f"n = {count} process{'' if count == '1' else 'es'}"]


def percent(value: float) -> str:
    """Return a share in percent."""
    return f"{number(100 * value)} %"


def share_text(data: View, row: Row) -> str:
    """Return the ratio to the reference, with ≈ if the two are not distinguishable."""
    verdict = (
        verdicts.of(row["ratio_low"], row["ratio_high"])
        if row["interval"] == BETWEEN
        else UNCONFIRMED
    )
    return f"{'≈ ' if verdict == SAME and row['kernel'] != data.reference else ''}{percent(row['ratio'])}"


def problem_text(problem: str) -> str:
    """Return a problem as text, such as `64 × 4096 × 4096`."""
    return problem.replace("x", " × ")


def kernel_text(kernel: str) -> str:
    """Return the name of a kernel or baseline."""
    return BASELINE_NAME.get(kernel, f"`{kernel}`")


def parameters_of(row: Row) -> dict[str, int]:
    """Return a configuration's parameters, such as `BM=64 BN=32`, as names and values."""
    return dict(Configuration.of(row["element_type"], row["configuration"]).parameters)
