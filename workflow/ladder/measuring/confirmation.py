"""The confirmation: measures the finalists of all kernels again, side by side in the same rounds,
in several fresh processes.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ladder.compiling.provenance import project_state
from ladder.core import clock
from ladder.core.files import digest
from ladder.core.stats import median_interval, paired_ratio
from ladder.core.types import FAILED
from ladder.devices.lock import exclusive
from ladder.measuring.progress import Progress
from ladder.measuring.protocol import Candidate
from ladder.measuring.session import Job, Name, made_by
from ladder.model.baselines import is_baseline
from ladder.model.campaign import SUSTAINED, Limits
from ladder.model.problem import Problem
from ladder.storage.journal import Journal
from ladder.storage.samples import read, write

SUSTAINED_PROCESSES = 3
"""The processes that measure launches back to back: enough to show how far these repeat."""
SUSTAINED_US = 1e6
"""Roughly how long a finalist takes there, in microseconds."""
SUSTAINED_SLACK = 0.2
"""How much faster back to back than alone a launch may be, as a share: only the last launch there
is audited.
"""
ROUNDS_BEFORE = 4
"""The most rounds that pass before the first answer to a request to time."""


@dataclass(frozen=True)
class Finalist:
    """A candidate that is measured again on a problem: a kernel in one configuration, or a
    baseline.
    """

    kernel: str
    configuration: str
    role: str
    """`best` of its kernel in the sweep, `finalist`, or `control`: another kernel's configuration
    with the binary of a best or a finalist.
    """
    us: float
    """The sweep's median time, in microseconds."""
    precision: str = ""
    apart: bool = False
    """Whether it has separate rounds: a candidate that uses the tensor cores, or a baseline other
    than the reference. Such candidates draw power, or leave threads spinning, at the cost of those
    timed beside them.
    """

    @property
    def tensor_cores(self) -> bool:
        """Whether it may use the tensor cores."""
        return self.apart or is_baseline(self.kernel)


@dataclass
class ConfirmationJob(Job):
    """The job that confirms a device's finalists."""

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
    finalists: Mapping[Candidate, Finalist]
    key: str


def finalists(
    rows: Iterable[Mapping[str, Any]], within: float, most: int, sha256: Mapping[Name, str]
) -> dict[Problem, list[Finalist]]:
    """Return the finalists and controls of each problem, from the rows of the sweep.

    The finalists of a kernel are the configuration with the highest ratio to the reference and
    those whose ratio is at most `within` below it, `most` in all. A configuration that lost the
    race is no finalist. The controls are other kernels' configurations with the same binary
    (`sha256`), raced or not: nothing but chance can tell them apart.
    """
    swept: dict[Problem, dict[str, list[tuple[float, Finalist]]]] = {}
    raced: dict[Problem, list[Finalist]] = {}
    for row in rows:
        if row["status"] != "correct" or row["state"] != "warm":
            continue
        problem = Problem(**{name: row[name] for name in Problem.__dataclass_fields__})
        context = is_baseline(row["kernel"]) and row["kernel"] != row["reference"]
        us, apart = median_interval(row["samples_us"])[0], context or bool(row["tensor_cores"])
        finalist = Finalist(
            row["kernel"], row["configuration"], "finalist", us, row["precision"] or "", apart
        )
        swept.setdefault(problem, {})
        if row["stop"] == "race":
            raced.setdefault(problem, []).append(finalist)
        else:
            ratio = paired_ratio(row["reference_us"], row["samples_us"])[0]
            swept[problem].setdefault(finalist.kernel, []).append((ratio, finalist))
    chosen: dict[Problem, list[Finalist]] = {}
    for problem in sorted(
        swept, key=lambda problem: (problem.element_type, problem.flops, problem.label)
    ):
        chosen[problem], others = [], raced.get(problem, [])
        for timed in swept[problem].values():
            timed.sort(key=lambda item: -item[0])
            near = [finalist for ratio, finalist in timed if ratio >= timed[0][0] * (1 - within)][
                :most
            ]
            chosen[problem] += [replace(near[0], role="best"), *near[1:]]
            others = others + [finalist for _, finalist in timed if finalist not in near]

        def binary(finalist: Finalist, element_type: str = problem.element_type) -> str:
            return sha256.get((finalist.kernel, element_type, finalist.configuration), "")

        taken = {
            binary(finalist): finalist.kernel for finalist in chosen[problem] if binary(finalist)
        }
        controls = [
            finalist
            for finalist in others
            if taken.get(binary(finalist), finalist.kernel) != finalist.kernel
        ]
        chosen[problem] += [replace(finalist, role="control") for finalist in controls]
    return chosen


class Confirmation:
    """A run of the job: measures the groups that the journal lacks, one record each."""

    def __init__(
        self,
        job: ConfirmationJob,
        journal: Journal,
        finalists: Mapping[Problem, Sequence[Finalist]],
        uuid: str,
        lock: int,
    ) -> None:
        self.job, self.journal, self.uuid = job, journal, uuid
        self.limits = Limits(**job.plan["limits"])
        self.session = job.open(uuid, lock)
        self.project = project_state()
        self.groups = [
            self._group(process, problem, state, together)
            for process in range(1, job.plan["processes"] + 1)
            for problem in finalists
            for state in sorted(self.limits.states, reverse=True)  # warm, then cold
            for apart in (False, True)
            if (
                together := [finalist for finalist in finalists[problem] if finalist.apart is apart]
            )
        ]
        self.groups += [
            self._group(
                process,
                problem,
                SUSTAINED,
                [finalist for finalist in finalists[problem] if finalist.role == "best"],
            )
            for process in range(1, min(job.plan["processes"], SUSTAINED_PROCESSES) + 1)
            for problem in finalists
            if problem.label in job.plan["sustained"]
        ]
        self.failed: dict[Name, Mapping[str, Any]] = {}
        for group in self.groups:
            self._learn(journal.records.get(group.key, {"rows": []})["rows"])
        todo = [group for group in self.groups if group.key not in journal.records]
        self.progress = Progress(
            f"{job.device} confirmation",
            {group.key: self._round_us(group.state, group.finalists.values()) for group in todo},
        )

    def _group(
        self, process: int, problem: Problem, state: str, finalists: Sequence[Finalist]
    ) -> _Group:
        candidates = {
            self.job.candidate(
                finalist.kernel, problem.element_type, finalist.configuration, finalist.precision
            ): finalist
            for finalist in finalists
        }
        who = [
            [finalist.kernel, finalist.configuration, finalist.role, candidate.sha256]
            for candidate, finalist in candidates.items()
        ]
        asked = [self.job.plan[name] for name in ("limits", "target", "seed", "reference")]
        given = [
            vars(problem),
            state,
            process,
            who,
            asked,
            self.job.described,
            self.job.code,
            self.uuid,
        ]
        return _Group(process, problem, state, candidates, digest(given))

    def _round_us(self, state: str, finalists: Iterable[Finalist]) -> float:
        """Return the microseconds of a round, from the sweep's times."""
        least = SUSTAINED_US if state == SUSTAINED else self.limits.sample_us
        return sum(max(finalist.us, least) for finalist in finalists)

    def _learn(self, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            if row["status"] in FAILED:
                self.failed[row["kernel"], row["element_type"], row["configuration"]] = row

    def measure_all(self) -> None:
        """Measure process after process; return when the journal has every group.

        Smaller problems come first: after large ones the board may be at its power limit, with the
        clock held down. So launches back to back come last.
        """
        try:
            for process in range(1, self.job.plan["processes"] + 1):
                self.session.end()  # another process: another context and other addresses
                for group in self.groups:
                    if group.process == process and group.key not in self.journal.records:
                        self._measure(group)
        finally:
            self.session.end()
            self.progress.bar.close()

    def rows(self) -> list[Mapping[str, Any]]:
        """Return a row for every finalist, problem, state and process."""
        return [
            row | {"key": group.key}
            for group in self.groups
            for row in self.journal.records[group.key]["rows"]
        ]

    def _measure(self, group: _Group) -> None:
        outcomes: dict[Candidate, dict[str, Any]] = {}
        for candidate, finalist in group.finalists.items():
            if (
                group.state == "cold"
                and 0 < self.job.refill_us < self.job.plan["target"] * finalist.us
            ):
                why = (
                    f"as warm: filling the caches takes {self.job.refill_us:.1f} us, "
                    f"below measure.target of a launch's {finalist.us:.0f} us"
                )
                outcomes[candidate] = {"status": "skipped", "reason": why}
            elif (
                finalist.kernel,
                group.problem.element_type,
                finalist.configuration,
            ) not in self.failed:
                outcomes[candidate] = {}
        timed = {
            candidate: group.finalists[candidate]
            for candidate, outcome in outcomes.items()
            if not outcome
        }
        self.session.time_group(
            group.problem,
            {candidate: finalist.tensor_cores for candidate, finalist in timed.items()},
            self.limits,
            int(group.key, 16) % 2**32,
            outcomes.__setitem__,
            together=True,
            state=group.state,
            round_seconds=ROUNDS_BEFORE * self._round_us(group.state, timed.values()) / 1e6,
        )
        if group.state == SUSTAINED:
            outcomes = {
                candidate: _if_sustained(outcome, group.finalists[candidate].us)
                for candidate, outcome in outcomes.items()
            }
        rows = [
            self.job.row(self.uuid, candidate, group.problem, group.state, outcome)
            | {"process": group.process, "role": group.finalists[candidate].role}
            for candidate, outcome in outcomes.items()
        ]
        self._learn(rows)
        self.journal.append({"key": group.key, "project": self.project, "rows": rows})
        self.progress.done(
            group.key, f"{group.problem.label} {group.state}, process {group.process}"
        )


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


def run(
    job: ConfirmationJob, journal_path: Path, output: Path, uuids: Sequence[str]
) -> dict[str, Any]:
    """Measure what the journal lacks on one of the devices and write the Parquet file; return the
    session in its metadata.

    The session names the sweep's files. A journal begun on one GPU is not continued on another.
    """
    start, rows = clock.now(), [row for path in job.samples for row in read(path)[0]]
    sha256 = {name: str(row["sha256"]) for name, row in job.binaries.items()}
    chosen = finalists(rows, job.plan["within"], job.plan["finalists"], sha256)
    journal = Journal(journal_path)
    try:
        begun = {row["uuid"] for record in journal.records.values() for row in record["rows"]}
        with exclusive([uuid for uuid in uuids if uuid in begun] or uuids) as (uuid, lock):
            locked = clock.now()
            confirmation = Confirmation(job, journal, chosen, uuid, lock)
            before = set(journal.records)
            confirmation.measure_all()
        session = {
            "job": output.stem,
            "jobs": {
                path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in job.samples
            },
            "within": job.plan["within"],
            "measured": sum(
                len(record["rows"]) for key, record in journal.records.items() if key not in before
            ),
            "wall_seconds": round(clock.now() - locked, 3),
            "waited_seconds": round(locked - start, 3),
            "fingerprint": dict(job.fingerprint),
            "described": job.described,
            "code": job.code,
            "swept": job.swept,
            **confirmation.session.summary(),
        }
        write(
            output,
            confirmation.rows(),
            session | made_by(journal.records[group.key] for group in confirmation.groups),
        )
    finally:
        journal.close()
    return session
