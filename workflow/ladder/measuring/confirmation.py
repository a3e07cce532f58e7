"""The confirmation: measures the finalists of all kernels again, side by side in the same rounds,
in several fresh processes.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ladder.core.files import digest
from ladder.core.stats import median_interval, paired_ratio
from ladder.core.types import FAILED, OF_CUDA
from ladder.measuring.job import Job, Name, Run, carry_out, rows_of
from ladder.measuring.progress import Progress
from ladder.measuring.protocol import Candidate
from ladder.model.baselines import is_baseline
from ladder.model.campaign import SUSTAINED, Limits
from ladder.model.problem import Problem
from ladder.storage.dataset_layout import CONFIRMED, contents
from ladder.storage.journal import Journal
from ladder.storage.samples import read

SUSTAINED_PROCESSES = 5
"""The processes that measure launches back to back: enough to show how far these repeat."""
SUSTAINED_US = 1e6
"""Roughly how long a finalist takes there, in microseconds."""
SUSTAINED_RATIO, SUSTAINED_WITHIN = 0.5, 0.05
"""The least ratio to the reference of a kernel that is measured so, and how far it may be below the
fastest kernel of its precision, as a share: each takes about a second.
"""
SUSTAINED_SLACK = 0.2
"""How much faster back to back than alone a launch may be, as a share: only the last launch there
is audited.
"""
ROUNDS_BEFORE = 4
"""The most rounds that pass before the first answer to a request to time."""


@dataclass(frozen=True)
class Finalist:
    """A candidate that is measured again on a problem."""

    candidate: Candidate
    role: str
    """`best` of its kernel in the sweep, `finalist`, or `control`: another kernel's configuration
    with the binary of a best or a finalist.
    """
    us: float
    """The sweep's median time, in microseconds."""
    reference_us: float
    """That of the reference beside it."""
    repeats: int
    """Its launches in one of the sweep's samples. A sample has as many here: the more there are, the
    more of a cache their results take from others.
    """
    tensor_cores: bool
    """Whether its binary uses the tensor cores."""
    apart: bool
    """Whether it has separate rounds: a candidate that uses the tensor cores where the reference
    does not, or a baseline other than the reference. Such candidates draw power, or leave threads
    spinning, at the cost of those timed beside them.
    """


@dataclass
class ConfirmationJob(Job):
    """The job that confirms a device's finalists on some problems, its plan's."""

    samples: Sequence[Path] = ()
    """The sweep's files of samples."""
    swept: str = ""
    """Digest of the package's modules that sweep."""
    refill_us: float = 0.0
    """Microseconds to fill the caches once; 0 if unknown."""


@dataclass(frozen=True)
class _Group:
    """Finalists that are timed side by side."""

    process: int
    problem: Problem
    state: str
    finalists: Sequence[Finalist]
    journal: str
    """The name of the problem's journal, whatever part of the confirmation the problem is in."""
    key: str


def finalists(
    rows: Iterable[Mapping[str, Any]],
    within: float,
    most: int,
    candidate: Callable[[str, str, str, str], Candidate],
) -> dict[Problem, list[Finalist]]:
    """Return the finalists and controls of each problem, from the rows of the sweep. `candidate` is
    `Job.candidate`.

    The finalists of a kernel are the configuration with the highest ratio to the reference and
    those whose ratio is at most `within` below it, `most` in all. A configuration that lost the
    race is no finalist. The controls are other kernels' configurations with the same binary, raced
    or not: nothing but chance can tell them apart.
    """
    swept: dict[Problem, dict[str, list[tuple[float, Finalist]]]] = {}
    for row in rows:
        if row["status"] != "correct" or row["state"] != "warm":
            continue
        problem, kernel = _problem_of(row), row["kernel"]
        context = is_baseline(kernel) and kernel != row["reference"]
        tensor_cores = bool(row["tensor_cores"])
        finalist = Finalist(
            candidate(kernel, problem.element_type, row["configuration"], row["precision"] or ""),
            "finalist",
            median_interval(row["samples_us"])[0],
            median_interval(row["reference_us"])[0],
            int(row["repeats"]),
            tensor_cores,
            problem.element_type not in OF_CUDA and (context or tensor_cores),
        )
        raced = row["stop"] == "race"
        ratio = 0.0 if raced else paired_ratio(row["reference_us"], row["samples_us"])[0]
        swept.setdefault(problem, {}).setdefault(kernel, []).append((ratio, finalist))
    chosen: dict[Problem, list[Finalist]] = {}
    for problem in sorted(
        swept, key=lambda problem: (problem.element_type, problem.flops, problem.label)
    ):
        chosen[problem], others = [], []
        for timed in swept[problem].values():
            timed.sort(key=lambda item: -item[0])
            least = timed[0][0] * (1 - within)
            near = [finalist for ratio, finalist in timed if ratio and ratio >= least][:most]
            if near:
                chosen[problem] += [replace(near[0], role="best"), *near[1:]]
            others += [finalist for _, finalist in timed[len(near) :]]
        kernels = {
            finalist.candidate.sha256: finalist.candidate.name for finalist in chosen[problem]
        }
        chosen[problem] += [
            replace(other, role="control")
            for other in others
            if other.candidate.sha256
            and kernels.get(other.candidate.sha256, other.candidate.name) != other.candidate.name
        ]
    return chosen


class Confirmation(Run):
    """A run of the job: measures the groups that the journals lack, one record each."""

    job: ConfirmationJob

    def __init__(
        self,
        finalists: Mapping[Problem, Sequence[Finalist]],
        job: ConfirmationJob,
        journals: Mapping[str, Journal],
        uuid: str,
        lock: int,
    ) -> None:
        super().__init__(job, journals, uuid, lock)
        self.limits, self.finalists = Limits(**job.plan["limits"]), finalists
        processes = range(1, job.plan["processes"] + 1)
        self.items: list[_Group] = [
            self._group(process, problem, state, together)
            for process in processes
            for problem in finalists
            for state in sorted(self.limits.states, reverse=True)  # warm, then cold
            for apart in (False, True)
            if (
                together := [finalist for finalist in finalists[problem] if finalist.apart is apart]
            )
        ]
        self.items += [
            self._group(process, problem, SUSTAINED, _sustained(finalists[problem]))
            for process in processes[:SUSTAINED_PROCESSES]
            for problem in finalists
            if problem.label in job.plan["sustained"]
        ]
        self.failed: set[Name] = set()
        """What has failed once, and is left out after."""
        self._learn(rows_of(self.records()))
        self.progress = Progress(
            {
                group.key: self._round_us(group.state, group.finalists)
                for group in self.items
                if not self.has(group)
            }
        )

    def _group(
        self, process: int, problem: Problem, state: str, finalists: Sequence[Finalist]
    ) -> _Group:
        who = [
            [each.candidate.name, each.candidate.configuration, each.role, each.candidate.sha256]
            for each in finalists
        ]
        given = [
            problem.fields,
            state,
            process,
            who,
            [self.job.plan[name] for name in ("limits", "target", "reference")],
            self.job.described,
            self.job.code,
            self.uuid,
        ]
        return _Group(process, problem, state, finalists, journal_of(problem), digest(given))

    def _round_us(self, state: str, finalists: Iterable[Finalist]) -> float:
        """Return the microseconds of a round, from the sweep's times."""
        least = SUSTAINED_US if state == SUSTAINED else self.limits.sample_us
        return sum(max(finalist.us, least) for finalist in finalists)

    def _known(
        self, problem: Problem, timed: Iterable[Finalist]
    ) -> dict[Candidate, tuple[float, int]]:
        """Return what the sweep knows of finalists and of the reference, as `time_group` takes it."""
        reference = Candidate(self.session.reference)
        repeats = {each.candidate: each.repeats for each in self.finalists[problem]}
        known = {}
        for each in timed:
            usual = max(1, math.ceil(self.limits.sample_us / each.reference_us))
            known[reference] = each.reference_us, repeats.get(reference, usual)
        return known | {each.candidate: (each.us, each.repeats) for each in timed}

    def _learn(self, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            if row["status"] in FAILED:
                self.failed.add((row["kernel"], row["element_type"], row["configuration"]))

    def about(self) -> dict[str, Any]:
        return {
            "jobs": {path.stem: contents([path]) for path in self.job.samples},
            "within": self.job.plan["within"],
            "swept": self.job.swept,
        }

    def measure(self) -> None:
        """Measure process after process.

        Smaller problems come first: after large ones the board may be at its power limit, with the
        clock held down. So launches back to back come last.
        """
        for process in range(1, self.job.plan["processes"] + 1):
            self.session.renew()
            self.session.ahead = process < self.job.plan["processes"]
            for group in self.items:
                if group.process == process and not self.has(group):
                    self._measure(group)

    def _measure(self, group: _Group) -> None:
        outcomes: dict[Candidate, dict[str, Any]] = {}
        timed = []
        for finalist in group.finalists:
            candidate = finalist.candidate
            name = candidate.name, group.problem.element_type, candidate.configuration
            if (
                group.state == "cold"
                and 0 < self.job.refill_us < self.job.plan["target"] * finalist.us
            ):
                why = (
                    f"as warm: filling the caches takes {self.job.refill_us:.1f} us, "
                    f"below measure.target of a launch's {finalist.us:.0f} us"
                )
                outcomes[candidate] = {"status": "skipped", "reason": why}
            elif name not in self.failed:
                timed.append(finalist)
        self.session.time_group(
            group.problem,
            # a baseline may use the tensor cores too
            {
                each.candidate: each.tensor_cores or is_baseline(each.candidate.name)
                for each in timed
            },
            self.limits,
            int(group.key, 16) % 2**32,
            outcomes.__setitem__,
            together=True,
            state=group.state,
            known=self._known(group.problem, timed),
            round_seconds=ROUNDS_BEFORE * self._round_us(group.state, timed) / 1e6,
        )
        if group.process == 1 and group.state == "warm":
            for each in timed:
                measured = outcomes[each.candidate]
                if measured["status"] == "correct" and each.role != "control":
                    measured["bits"] = self.session.compare_bits(each.candidate, group.problem).text
        rows = []
        for finalist in group.finalists:
            outcome = outcomes.get(finalist.candidate)
            if outcome is None:
                continue
            if group.state == SUSTAINED:
                outcome = _if_sustained(outcome, finalist.us)
            row = self.row(finalist.candidate, group.problem, group.state, outcome)
            more = {"process": group.process, "role": finalist.role}
            rows.append(row | more | {"tensor_cores": finalist.tensor_cores or None})
        self._learn(rows)
        self.keep(group, {"rows": rows})
        self.progress.done(
            group.key, f"{group.problem.label} {group.state}, process {group.process}"
        )


def _sustained(finalists: Iterable[Finalist]) -> list[Finalist]:
    """Return those that are measured back to back: baselines, and the fastest kernels of each
    precision.
    """
    fastest: dict[str, float] = {}
    best = [finalist for finalist in finalists if finalist.role == "best"]
    for each in best:
        if not is_baseline(each.candidate.name):
            precision, ratio = each.candidate.precision, each.reference_us / each.us
            fastest[precision] = max(ratio, fastest.get(precision, SUSTAINED_RATIO))
    return [
        each
        for each in best
        if is_baseline(each.candidate.name)
        or each.reference_us / each.us
        >= max(SUSTAINED_RATIO, (1 - SUSTAINED_WITHIN) * fastest[each.candidate.precision])
    ]


def _if_sustained(outcome: dict[str, Any], us: float) -> dict[str, Any]:
    """Return the outcome of launches back to back; without a result if a launch took much less time
    there than alone, `us`.
    """
    took = median_interval(outcome["samples_us"])[0] if outcome.get("samples_us") else us
    if took >= (1 - SUSTAINED_SLACK) * us:
        return outcome
    why = f"a launch took {took:.3g} us back to back, and {us:.3g} us alone"
    return {
        "status": "skipped",
        "reason": f"not sustained: {why}; expected at most {SUSTAINED_SLACK:.0%} less",
    }


def _problem_of(row: Mapping[str, Any]) -> Problem:
    return Problem(**{name: row[name] for name in Problem.__dataclass_fields__})


def journal_of(problem: Problem) -> str:
    """Return the name of the journal of a problem's confirmation."""
    return f"{CONFIRMED}.{digest(problem.fields)}"


def begun(journals: Iterable[Journal]) -> set[str]:
    """Return the devices that journals have measurements of."""
    records = (journal[key] for journal in journals for key in journal)
    return {row["uuid"] for row in rows_of(records)}


def run(job: ConfirmationJob, folder: Path, output: Path, uuids: Sequence[str]) -> dict[str, Any]:
    """Confirm on one of the devices, as `carry_out` does, with journals in a folder. The session
    names the sweep's files.

    A confirmation is not continued on another GPU than it was begun on.
    """
    problems = {Problem(**given) for given in job.plan["problems"]}
    swept = (row for path in job.samples for row in read(path)[0])
    rows = (row for row in swept if _problem_of(row) in problems)
    chosen = finalists(rows, job.plan["within"], job.plan["finalists"], job.candidate)
    journals = folder, map(journal_of, problems)
    return carry_out(partial(Confirmation, chosen), job, journals, output, uuids, begun)
