"""Whether results are the same bits: at every launch, and of the same row of A whatever else the
problem is.

Frameworks call a kernel *batch-invariant* if a row's result does not depend on the batch (He and
Thinking Machines Lab, Defeating Nondeterminism in LLM Inference, 2025). All orders of summation are
correct, so bits decide nothing about that.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import filterfalse
from typing import Any

from ladder.devices.operands import REPEATED_ROWS
from ladder.measuring.gauntlet import STEPS, describe
from ladder.model.problem import Problem

TIMES = 8
"""Launches on the same operands, every second one beside other work: chance seldom gives the same
order so often.
"""
ROWS = (1, 16, 65, 200)
"""Batches beside the largest: of one row, a vector; of one small tile; of whole tiles and a rest."""
WORK = {"cpu": 1e8, "cuda": 2e11}
"""The operations of the largest batch, by device kind: a launch takes milliseconds."""
FEWEST = 65
"""The rows of the largest batch, however many operations these are."""
ALIGNMENTS = (("16,32,48", 0), ("1,3,5", "1,3,5"))
"""Padding and offset: rows on boundaries of 32 bytes, and where no vector can begin."""


@dataclass(frozen=True)
class Asked:
    """A launch whose result must be the same bits as the first, for a question: a field of
    `verdict.Bits`.
    """

    question: str
    problem: Problem
    busy: bool = False
    """Whether other work keeps the device busy."""


def launches(problem: Problem, kind: str, unmet: Callable[[Problem], str]) -> Iterator[Asked]:
    """Yield what to launch for a problem on a device kind; `unmet` says what the kernel needs and
    another problem does not have.

    The first is the largest batch: the problem's own rows, or those that `WORK` allows. Sizes that
    the kernel does not take are rounded up.
    """
    most = max(FEWEST, int(WORK[kind] * problem.m / problem.flops))
    like, found = replace(problem, distribution="repeated"), set[Problem]()
    for rows in (*ROWS, problem.m):
        rounded = (replace(like, m=-(-min(rows, most) // step) * step) for step in STEPS)
        found |= {*list(filterfalse(unmet, rounded))[:1]}
    largest, *smaller = sorted(found, key=lambda batch: -batch.m) or [like]
    for turn in range(TIMES):
        yield Asked("every_launch", largest, busy=turn % 2 == 1)
    yield Asked("processors", largest)
    for batch in smaller:
        yield Asked("rows", batch)
    for padding, offset in ALIGNMENTS:
        other = replace(largest, padding=padding, offset=offset)
        if not unmet(other):
            yield Asked("alignment", other)


def compare(
    found: dict[str, Any],
    asked: Asked,
    of_first: Problem,
    differ: Callable[[int], tuple[int, int, float, float] | None],
    is_first: bool,
) -> None:
    """Add to what was `found`, by question, the first difference of a result from the first one, or
    None: the fields of a `verdict.Difference`. `differ` looks for it, as `Device.differ`, by the
    number of rows that differ. The first result differs from itself where the same row of A gave
    another row.
    """
    question, rows = asked.question, of_first.m
    if is_first:
        if rows <= REPEATED_ROWS:  # no row of A is there twice
            return
        question, rows = "rows", REPEATED_ROWS
    different = differ(rows)
    found.setdefault(question, None)
    if different and not found[question]:
        if question == "every_launch":
            found.clear()  # chance would answer all other questions
        row, column, got, other = different
        found[question] = {
            "question": question,
            "problem": describe(asked.problem),
            "row": row,
            "column": column,
            "got": got,
            "other_problem": describe(of_first),
            "other_row": row % rows,
            "other": other,
        }
