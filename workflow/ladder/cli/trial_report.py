"""The texts of `ladder try`: what was refused, the speed beside the others, and the changes since
the last try.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ladder.analysis.kernel_model import model
from ladder.analysis.measurements import FEW_PROBLEMS, disturbance
from ladder.compiling.compile import Resource
from ladder.core import verdicts
from ladder.core.errors import few
from ladder.core.stats import median_interval, paired_ratio
from ladder.core.surroundings import cores, remarks
from ladder.core.types import OF_CUDA, rate_unit, tflops
from ladder.measuring.gauntlet import problems
from ladder.measuring.trial import LAST, RUNG, Entry, Trial
from ladder.model.baselines import BASELINES
from ladder.model.hardware_limits import measured_peak
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


def refusals(entries: Sequence[Entry]) -> list[str]:
    """Return what the compiler refused. Configurations with the same message share one text."""
    alike: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        if entry.status not in ("compiled", "skipped"):
            alike.setdefault((entry.status, entry.reason), []).append(entry.label)
    return [f"{status}: {few(labels, 3)}\n{reason}" for (status, reason), labels in alike.items()]


def results(
    trial: Trial, doubtful: Mapping[str, str], last: Entry | None, stalls: str
) -> Iterator[str]:
    """Yield the lines on what was timed and on what failed. `doubtful` are `doubts`, `last` is the
    last correct try, and `stalls` what the counters say of the fastest entry.
    """
    environment, timed = trial.session.environment, trial.timed
    for entry in timed:
        yield ("not a result: " if doubtful else "") + _rates(entry, trial.problem, environment)
        if entry.kernel.kind == "cuda":
            yield f"  {_model(entry, trial.problem, environment)}"
        if changed := _gauntlet(entry):
            yield f"  {changed}"
    if timed:
        yield "  intervals: 95 %, within-run"
        rung = timed[0].beside.get(RUNG)
        if rung and rung.samples and rung.configuration.label != "-":
            yield f"  {rung.kernel.name}: {rung.configuration.label}"
        if any(entry.gauntlet.nan_at_alpha_0 for entry in timed):
            yield f"  {NAN_AT_ALPHA_0}"
        if doubtful:
            yield f"  measure again while nothing else runs: {'; '.join(doubtful.values())}"
        for remark in remarks(environment["attributes"]):
            yield f"  {remark}"
        if last:
            yield f"  since the last correct try: {_changes(timed[0], last, bool(doubtful))}"
    if stalls:
        yield f"  {stalls}"
    for entry in trial.entries:
        if entry.status not in ("correct", "skipped"):
            yield from _failure(entry)
    if untried := [entry.label for entry in trial.entries if entry.status == "skipped"]:
        yield f"not tried after the timeout: {few(untried, 3)}"


def _rates(entry: Entry, problem: Problem, environment: Mapping[str, Any]) -> str:
    """Return how fast an entry is beside the reference, the best rung and the measured peak, with
    within-run intervals.
    """
    unit, size = rate_unit(entry.kernel.kind)
    us, low, high = median_interval(entry.samples["samples_us"])
    rate, least, most = (
        tflops(problem.m, problem.n, problem.k, value) / size for value in (us, high, low)
    )
    words = [
        f"{entry.label}: {_interval(rate, least, most)} {unit}",
        f"of {BASELINES[entry.kernel.kind][0]} {_interval(*entry.ratio())}",
    ]
    rung = entry.beside.get(RUNG)
    if rung and rung.samples:
        words.append(f"of {rung.kernel.name} {_interval(*entry.ratio(rung))}")
    if share := of_peak(entry, problem, environment):
        words.append(
            f"of the measured peak {share:.0%}"
            if share <= 1
            else "above the measured peak, which other work has lowered"
        )
    return "; ".join(words)


def of_peak(entry: Entry, problem: Problem, environment: Mapping[str, Any]) -> float:
    """Return an entry's rate as a share of the measured peak of the units that it uses; 0 where
    that is not measured.
    """
    peak = measured_peak(environment, problem.element_type)
    # that peak is of the FP32 or FP64 lanes
    other_units = entry.gauntlet.tensor_cores and problem.element_type not in OF_CUDA
    if not peak or other_units:
        return 0.0
    us = median_interval(entry.samples["samples_us"])[0]
    return tflops(problem.m, problem.n, problem.k, us) / peak


def _gauntlet(entry: Entry) -> str:
    """Return how many problems of the gauntlet an entry was asked, if it needs something; else
    "".
    """
    whole = len(problems(entry.configuration.element_type))
    asked, changed = entry.gauntlet.gauntlet_problems, entry.gauntlet.gauntlet_changed
    if asked == whole and not changed:
        return ""
    few = f"; fewer than {FEW_PROBLEMS} say little about other problems"
    return (
        f"the gauntlet asked {asked} of its {whole} problems, {changed} of them changed to what "
        f"it needs{few if asked < FEW_PROBLEMS else ''}"
    )


def _model(entry: Entry, problem: Problem, environment: Mapping[str, Any]) -> str:
    """Return what a GPU's model says about a configuration, in words."""
    row = model(entry.kernel, entry.configuration, problem, vars(entry.resource), environment)
    words = [resources(entry.resource)]
    if "occupancy" in row:
        words.append(
            f"{row['shared_bytes']} bytes of shared memory a block, {row['blocks_per_sm']} blocks "
            f"an SM, occupancy {row['occupancy']:.0%} (limited by {row['occupancy_limit']})"
        )
    if "bank_conflicts" in row:
        share = row["bank_conflicts"] / max(row["shared_wavefronts"], 1)
        words.append(f"bank conflicts by the model {share:.0%} of wavefronts")
    return "; ".join(words)


def resources(resource: Resource) -> str:
    """Return registers, spills and static shared memory of a binary, in words."""
    spills = (resource.spill_stores or 0) + (resource.spill_loads or 0)
    return (
        f"{resource.registers} registers, {spills} bytes of spills, {resource.static_shared} bytes "
        "of static shared memory"
    )


def doubts(kind: str, others: float, reference_us: Sequence[float]) -> dict[str, str]:
    """Return why no time of a try is a result, in words, by the marks that a campaign would give:
    `verdicts.BUSY`.

    A try does not time the reference as a candidate. So its rounds with odd and with even numbers
    are compared with each other.
    """
    words = {}
    if disturbed := disturbance(kind, others, f" of {cores()}"):
        words["disturbed"] = disturbed
    pairs = len(reference_us) // 2 * 2
    if pairs:
        itself = paired_ratio(reference_us[0:pairs:2], reference_us[1:pairs:2])
        if not verdicts.steady(*itself):
            words["unsteady"] = (
                f"{BASELINES[kind][0]} is {_interval(*itself)} times as fast as itself in "
                "neighboring rounds"
            )
    return words


def _changes(best: Entry, last: Entry, doubtful: bool) -> str:
    """Return how the best entry compares with that of the last correct try, in words. No verdict on
    a `doubtful` time is known.
    """
    before, now = vars(last.resource), vars(best.resource)
    changed = [
        f"{name.replace('_', ' ')} {before[name]} -> {now[name]}"
        for name in ("registers", "static_shared", "spill_stores", "spill_loads")
        if before[name] != now[name]
    ]
    again = best.beside.get(LAST)
    if best.resource.sha256 == last.resource.sha256:
        verdict = "the same machine code"
    elif again is None:
        verdict = f"{best.label} is the best now, {last.label} was"
    elif not again.samples:
        verdict = f"it could not be timed again: {again.reason}"
    else:
        ratio, low, high = best.ratio(again)
        words = verdicts.AGAIN if doubtful else verdicts.of(low, high)
        verdict = f"{words}, {_interval(ratio, low, high)} times as fast in the same rounds"
    return "; ".join([verdict, *changed])


def _failure(entry: Entry) -> Iterator[str]:
    """Yield why an entry failed, and what to do about it."""
    yield f"{entry.status}: {entry.label}: {entry.reason}"
    if entry.guess:
        yield f"  it looks like this: {entry.guess}"
    if entry.needs:
        yield f"  {ADVICE[entry.status]}, or add to the header `{entry.needs}`"
    if OUTSIDE.search(entry.reason):
        yield f"  {INDICES}"


def _interval(value: float, low: float, high: float) -> str:
    return f"{value:.3g} (interval {verdicts.interval('.3g', value, low, high)})"
