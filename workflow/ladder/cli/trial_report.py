"""The texts of `ladder try`, from its verdict alone."""

import re
from collections.abc import Iterator
from dataclasses import astuple

from ladder.core import verdicts
from ladder.core.errors import few
from ladder.core.surroundings import remarks
from ladder.core.types import rate_unit
from ladder.measuring.verdict import Binary, Estimate, OnProblem, Outcome, Verdict
from ladder.model.problem import Problem

NAN_AT_ALPHA_0 = (
    "NaN at alpha 0: where alpha is 0 and A or B has NaN, so has C. BLAS leaves that open. To "
    "avoid it, write `alpha == 0 ? 0 : alpha * sum`"
)
ADVICE = {
    "incorrect": "only other sizes are wrong: check bounds",
    "launch_error": "load fewer elements at a time",
}
"""What to do about problems that a kernel cannot compute, besides adding its `needs`."""
OUTSIDE = re.compile("killed by signal 11|illegal (memory access|address)", re.IGNORECASE)
"""A reason that an access outside of the operands has."""
INDICES = (
    "row-major, with leading dimensions, element (i, j) of A is A[i * lda + j], of B B[i * "
    "ldb + j], of C C[i * ldc + j]"
)


def heading(verdict: Verdict, problem: Problem) -> str:
    """Return the line that begins what is said of one problem."""
    where = f" on {verdict.device['name']}" if verdict.device else ""
    extras = "".join(f" {name}={value}" for name, value in problem.varied.items())
    return (
        f"{verdict.kernel}, {problem.element_type}, {problem.m} x {problem.n} x "
        f"{problem.k}{extras}{where}"
    )


def refusals(verdict: Verdict, result: OnProblem) -> Iterator[str]:
    """Yield what the compiler refused. Configurations with the same message share one text."""
    alike: dict[tuple[str, str], list[str]] = {}
    for outcome in result.outcomes:
        if not outcome.binary and outcome.status != "skipped":
            what = alike.setdefault((outcome.status, outcome.reason), [])
            what.append(_label(verdict, outcome))
    for (status, reason), labels in alike.items():
        yield f"{status}: {few(labels, 3)}\n{reason}"


def results(verdict: Verdict, result: OnProblem) -> Iterator[str]:
    """Yield the lines on what was timed on one problem, and on what failed."""
    kind = verdict.kernel.partition("/")[0]
    timed = [outcome for outcome in result.outcomes if outcome.us]
    for outcome in timed:
        doubtful = "not a result: " if result.doubts else ""
        yield f"{doubtful}{_label(verdict, outcome)}: {_rates(outcome, result, kind)}"
        if kind == "cuda":
            yield f"  {_model(outcome)}"
        if changed := _gauntlet(outcome):
            yield f"  {changed}"
        if outcome.bits:
            yield f"  bits: {outcome.bits.text}"
            for each in outcome.bits.differences:
                yield (
                    f"    {each.question.replace('_', ' ')}: row {each.row}, column {each.column} "
                    f"is {each.got!r} on {each.problem}; on {each.other_problem}, row "
                    f"{each.other_row}, it is {each.other!r}"
                )
    if timed:
        yield f"  intervals: 95 %, {result.interval}"
        if result.rung and result.rung.configuration != "-":
            yield f"  {result.rung.kernel}: {result.rung.configuration}"
        if any(outcome.gauntlet and outcome.gauntlet.nan_at_alpha_0 for outcome in timed):
            yield f"  {NAN_AT_ALPHA_0}"
        if result.doubts:
            yield f"  measure again while nothing else runs: {'; '.join(result.doubts)}"
        for remark in remarks(verdict.environment["attributes"]):
            yield f"  {remark}"
        if since := result.since:
            words = since.verdict
            if since.ratio:
                words += f", {since.ratio} times as fast in the same rounds"
            yield f"  since the last correct try: {'; '.join([words, *since.changed])}"
    if result.counters:
        yield f"  {result.counters}"
    untried: dict[str, list[str]] = {}
    for outcome in result.outcomes:
        if not outcome.binary or outcome.status == "correct":
            continue
        label = _label(verdict, outcome)
        if outcome.status == "skipped":
            untried.setdefault(outcome.reason, []).append(label)
        elif outcome.status == "compiled":
            yield f"compiled for {outcome.binary.arch}: {label}: {_made(outcome.binary)}"
        else:
            yield f"{outcome.status}: {label}: {outcome.reason}"
            if outcome.guess:
                yield f"  it looks like this: {outcome.guess}"
            if outcome.needs:
                yield f"  {ADVICE[outcome.status]}, or add to the header `{outcome.needs}`"
            if OUTSIDE.search(outcome.reason):
                yield f"  {INDICES}"
    for why, labels in untried.items():
        yield f"not tried {why}: {few(labels, 3)}"


def ending(verdict: Verdict) -> Iterator[str]:
    """Yield the last lines, unless the kernel could not be tried."""
    if verdict.not_measured:
        yield f"not measured: {few([problem.label for problem in verdict.not_measured], 3)}"
    if verdict.status != "not_tried":
        yield f"{verdict.status}; {verdict.seconds:.1f} s"


def _label(verdict: Verdict, outcome: Outcome) -> str:
    """Return a configuration's label, or the kernel's name if it has no parameters."""
    label = outcome.configuration
    return verdict.kernel.partition("/")[2] if label == "-" else label


def _rates(outcome: Outcome, result: OnProblem, kind: str) -> str:
    """Return how fast a configuration is beside the reference, the best rung and the measured
    peak.
    """
    assert outcome.tflops and outcome.ratio
    unit, size = rate_unit(kind)
    words = [
        f"{Estimate(*(each / size for each in astuple(outcome.tflops)))} {unit}",
        f"{outcome.ratio} × {result.reference}",
    ]
    if outcome.of_rung and result.rung:
        words.append(f"{outcome.of_rung} × {result.rung.kernel}")
    if share := outcome.of_peak:
        words.append(
            f"{100 * share:.0f} % of the measured peak"
            if share <= 1
            else "above the measured peak, which other work has lowered"
        )
    return "; ".join(words)


def _gauntlet(outcome: Outcome) -> str:
    """Return how many problems of the gauntlet a configuration was asked, if it needs something;
    else "".
    """
    asked = outcome.gauntlet
    if not asked or (asked.asked == asked.problems and not asked.changed):
        return ""
    few = f"; fewer than {verdicts.FEW_PROBLEMS} say little about other problems"
    return (
        f"the gauntlet ran {asked.asked} of its {asked.problems} problems, {asked.changed} of "
        f"them changed to what it needs{few if asked.asked < verdicts.FEW_PROBLEMS else ''}"
    )


def _model(outcome: Outcome) -> str:
    """Return what a GPU's model says about a configuration, in words."""
    assert outcome.binary and outcome.model
    words, model = [_made(outcome.binary)], outcome.model
    if model.occupancy is not None:
        words.append(
            f"{model.shared_bytes} bytes of shared memory a block, {model.blocks_per_sm} blocks "
            f"an SM, occupancy {100 * model.occupancy:.0f} % (limited by {model.occupancy_limit})"
        )
    if model.bank_conflicts is not None:
        words.append(
            f"bank conflicts by the model {100 * model.bank_conflicts:.0f} % of wavefronts"
        )
    return "; ".join(words)


def _made(binary: Binary) -> str:
    """Return registers, spills and static shared memory of a binary, in words."""
    spills = (binary.spill_stores or 0) + (binary.spill_loads or 0)
    return (
        f"{binary.registers} registers, {spills} bytes of spills, {binary.static_shared} bytes "
        "of static shared memory"
    )
