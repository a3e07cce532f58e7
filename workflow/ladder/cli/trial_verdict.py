"""Make the verdict of `ladder try` from what a trial found."""

from collections.abc import Mapping, Sequence
from typing import Any

from ladder.analysis.kernel_model import model
from ladder.compiling.compile import Resource
from ladder.core import verdicts
from ladder.core.stats import median_interval, paired_ratio
from ladder.core.surroundings import cores
from ladder.core.types import FAILED, OF_CUDA
from ladder.measuring import gauntlet
from ladder.measuring.source_line import line_of
from ladder.measuring.trial import LAST, RUNG, Entry, Trial, interval_of
from ladder.measuring.verdict import (
    Binary,
    Estimate,
    Gauntlet,
    Model,
    OnProblem,
    Outcome,
    Rung,
    Since,
)
from ladder.model.baselines import BASELINES
from ladder.model.hardware_limits import measured_peak
from ladder.model.problem import Problem

FAILURES = (*FAILED, "compile_error")
"""Statuses with which a try fails, the gravest first."""


def gravest(statuses: Sequence[str]) -> str:
    """Return the status that stands for several."""
    return min(
        statuses, key=lambda status: [*FAILURES, "correct", status].index(status), default="skipped"
    )


def on_problem(
    problem: Problem,
    entries: Sequence[Entry],
    environment: Mapping[str, Any],
    trial: Trial | None = None,
    last: Entry | None = None,
    counters: str = "",
) -> OnProblem:
    """Return the outcomes of compiled and refused entries on a problem. Without a `trial` nothing
    was run. `last` is the last correct try, and `counters` what they say of the fastest entry.
    """
    kind = entries[0].kernel.kind
    timed = trial.timed if trial else []
    rung = timed[0].beside.get(RUNG) if timed else None
    marks = doubts(kind, trial.others, timed[0].samples["reference_us"]) if trial and timed else {}
    ordered = [*timed, *(entry for entry in entries if entry not in timed)]
    return OnProblem(
        problem,
        gravest([entry.status for entry in entries]),
        [_outcome(entry, problem, environment) for entry in ordered],
        BASELINES[kind][0],
        rung=Rung(rung.kernel.name, rung.configuration.label) if rung and rung.samples else None,
        marks=list(marks),
        doubts=list(marks.values()),
        since=_since(timed[0], last, bool(marks)) if timed and last else None,
        counters=counters,
    )


def _outcome(entry: Entry, problem: Problem, environment: Mapping[str, Any]) -> Outcome:
    reason, line, resource = entry.reason, None, entry.resource
    if entry.status in FAILURES:
        line = line_of(entry.kernel, reason, entry.guess)
    given: dict[str, Any] = {}
    if entry.samples:
        times, rung = entry.samples["samples_us"], entry.beside.get(RUNG)
        us = Estimate(*interval_of(times))
        rates = map(problem.tflops, (us.value, us.high, us.low))
        given = {
            "us": us,
            "tflops": Estimate(*rates),
            "ratio": Estimate(*entry.ratio()),
            "of_rung": Estimate(*entry.ratio(rung)) if rung and rung.samples else None,
            "of_peak": of_peak(entry, problem, environment) or None,
            "samples_us": times,
            "reference_us": entry.samples["reference_us"],
        }
        if entry.kernel.kind == "cuda":
            given["model"] = _model(entry, problem, environment)
    return Outcome(
        entry.configuration.label,
        entry.status,
        reason,
        entry.wrong,
        entry.guess,
        entry.needs,
        line,
        gauntlet=_gauntlet(entry),
        binary=binary(resource) if resource.sha256 else None,
        bits=entry.bits,
        **given,
    )


def _gauntlet(entry: Entry) -> Gauntlet | None:
    """Return what the gauntlet asked; None if it was not begun."""
    found = entry.gauntlet
    if not found.gauntlet_problems:
        return None
    return Gauntlet(
        len(gauntlet.of_kernel(entry.kernel, entry.configuration.element_type)),
        found.gauntlet_problems,
        found.gauntlet_changed,
        found.nan_at_alpha_0,
    )


def binary(resource: Resource) -> Binary:
    """Return what a verdict says of a compiled configuration."""
    names = Binary.__dataclass_fields__
    return Binary(**{name: getattr(resource, name) for name in names})


def _model(entry: Entry, problem: Problem, environment: Mapping[str, Any]) -> Model:
    row = model(entry.kernel, entry.configuration, problem, vars(entry.resource), environment)
    names = ("shared_bytes", "blocks_per_sm", "occupancy", "occupancy_limit")
    share = None
    if "bank_conflicts" in row:
        share = row["bank_conflicts"] / max(row["shared_wavefronts"], 1)
    return Model(**{name: row.get(name) for name in names}, bank_conflicts=share)


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
    return problem.tflops(us) / peak


def doubts(kind: str, others: float, reference_us: Sequence[float]) -> dict[str, str]:
    """Return why no time of a try is a result, in words, by the marks that a campaign would give:
    `verdicts.BUSY`.

    A try does not time the reference as a candidate. So its rounds with odd and with even numbers
    are compared with each other.
    """
    words = {}
    if disturbed := verdicts.disturbance(kind, others, f" of {cores()}"):
        words["disturbed"] = disturbed
    pairs = len(reference_us) // 2 * 2
    if pairs:
        itself = paired_ratio(reference_us[0:pairs:2], reference_us[1:pairs:2])
        if not verdicts.steady(*itself):
            words["unsteady"] = (
                f"{BASELINES[kind][0]} is {Estimate(*itself)} times as fast as itself in "
                "adjacent rounds"
            )
    return words


def _since(best: Entry, last: Entry, doubtful: bool) -> Since:
    """Return how the best entry compares with that of the last correct try. No verdict on a
    `doubtful` time is known.
    """
    before, now = vars(last.resource), vars(best.resource)
    changed = [
        f"{name.replace('_', ' ')} {before[name]} -> {now[name]}"
        for name in ("registers", "static_shared", "spill_stores", "spill_loads")
        if before[name] != now[name]
    ]
    again, ratio = best.beside.get(LAST), None
    if best.resource.sha256 == last.resource.sha256:
        verdict = "the same machine code"
    elif again is None:
        verdict = f"{best.label} is the best now, {last.label} was"
    elif not again.samples:
        verdict = f"it could not be timed again: {again.reason}"
    else:
        ratio = Estimate(*best.ratio(again))
        verdict = verdicts.AGAIN if doubtful else verdicts.of(ratio.low, ratio.high)
    return Since(verdict, ratio, changed)
