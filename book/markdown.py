"""Format cells, headings and legends of the tables in the pages."""

import math
import re
from collections.abc import Sequence
from typing import Any

from ladder.analysis.tables import BETWEEN
from ladder.claims.definitions import NOTHING
from ladder.core import verdicts
from ladder.core.verdicts import SAME, UNCONFIRMED
from ladder.figures.data import BASELINE_NAME, MARKS, View, lettered, span
from ladder.model.kernel import Configuration, Kernel
from ladder.model.kernel_file import device_names
from ladder.model.problem import Problem

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


def interval_text(row: Row) -> str:
    """Return the interval of the ratio to the reference."""
    text = verdicts.interval(
        "#.4g", *(100 * row[name] for name in ("ratio", "ratio_low", "ratio_high"))
    )
    return text if text == verdicts.NOT_KNOWN else f"{text} %"


def interval_notes(data: View, means: Sequence[Row] = ()) -> tuple[str, list[str]]:
    """Return the heading of a column of intervals, and notes on the number of processes, and of
    machines if `means` are over these.
    """
    if data.best.empty:
        return "95 %", []
    # the rows may be of several datasets
    count = span([row["processes"] for row in means] or list(data.best["processes"]))
    machines = [row["machines"] for row in means if row["machines"] > 1]
    notes = [f"n = {count} process{'' if count == '1' else 'es'}"]
    if not machines:
        return f"95 %, {data.best['interval'].iloc[0]}", notes
    reference = BASELINE_NAME.get(data.reference, data.reference)
    notes += [
        f"of {reference}: the mean over {span(machines)} machines, with the interval between "
        "machines; all else is of one machine"
    ]
    return "95 %, between machines", notes


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


def times_text(ratio: float) -> str:
    """Return a speedup with three decimals, "–" for none."""
    return f"×{ratio:.3f}" if math.isfinite(ratio) else "–"


def problem_text(problem: str) -> str:
    """Return a problem as text, such as `64 × 4096 × 4096`."""
    return problem.replace("x", " × ")


def kernel_text(kernel: str) -> str:
    """Return the name of a kernel or baseline."""
    return BASELINE_NAME.get(kernel, f"`{kernel}`")


def parameters_of(row: Row) -> dict[str, int]:
    """Return a configuration's parameters, such as `BM=64 BN=32`, as names and values."""
    return dict(Configuration.of(row["element_type"], row["configuration"]).parameters)


def names_of(kernel: Kernel, row: Row, data: View) -> dict[str, Any]:
    """Return the names of the header's expressions for a configuration, its problem and the
    dataset's device.
    """
    given = Problem(row["m"], row["n"], row["k"], padding=row["padding"]).names() | device_names(
        data.environment
    )
    return kernel.names(Configuration.of(row["element_type"], row["configuration"]), given)


def blocks_text(kernel: Kernel, row: Row, data: View) -> str:
    """Return the number of blocks of every launch, such as `128 + 64`; a CPU kernel has none."""
    if kernel.kind != "cuda":
        return "–"
    launches = kernel.launches(
        Configuration.of(row["element_type"], row["configuration"]), names_of(kernel, row, data)
    )
    return " + ".join(number(math.prod(launch.grid)) for launch in launches)


def lacks(kernel: Kernel) -> str:
    """Return what holds the kernel back, from the comment in its source."""
    words = []
    for line in kernel.text.partition("What holds it back:")[2].splitlines():
        words.append(line.strip().removeprefix("//").removeprefix("*").removesuffix("*/").strip())
        if not words[-1] or line.rstrip().endswith("*/"):
            break
    return " ".join(filter(None, words)).replace("*", r"\*") or "–"
