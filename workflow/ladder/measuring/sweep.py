"""A measure job: verifies a kernel's configurations on every problem, times the correct ones, and
journals each when it is done.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ladder.compiling.provenance import project_state
from ladder.core import clock
from ladder.core.files import digest
from ladder.core.stats import paired_ratio
from ladder.core.surroundings import remarks
from ladder.core.types import OF_CUDA
from ladder.devices.lock import exclusive
from ladder.measuring.progress import Progress
from ladder.measuring.protocol import Candidate, Judged
from ladder.measuring.session import Job, made_by
from ladder.measuring.supervisor import Failure
from ladder.measuring.verify import INEXACT
from ladder.model.baselines import REDUCING
from ladder.model.campaign import Limits
from ladder.model.problem import Problem
from ladder.storage.journal import Journal
from ladder.storage.samples import write

GROUP = 8
"""Configurations that are timed in the same rounds."""

VERIFIED = (
    "tensor_cores",
    "gauntlet_problems",
    "gauntlet_changed",
    "sums_16_bit",
    "nan_at_alpha_0",
)
"""Columns that the verification fills. `sums_16_bit` is of `REDUCING` alone."""


@dataclass(eq=False)
class _Entry:
    """A candidate on a problem."""

    planned: Mapping[str, Any]
    """The candidate in the plan."""
    candidate: Candidate
    problem: Problem
    key: str


class Sweep:
    """A run of a job: measures what the journal lacks."""

    def __init__(self, job: Job, journal: Journal, uuid: str, lock: int) -> None:
        self.job, self.journal, self.uuid, self.warned = job, journal, uuid, False
        self.session = job.open(uuid, lock)
        self.project = project_state()
        self.gauntlet_seconds = 0.0
        """Wall time of this run's gauntlets."""
        # baselines are not configurations of one kernel: they do not race
        self.limits = Limits(
            **dict(job.plan["limits"]) | ({} if job.plan["kernel"] else {"race": False})
        )
        self.entries = self._entries()
        self.entries_of: dict[Problem, list[_Entry]] = {}
        for entry in self.entries:
            self.entries_of.setdefault(entry.problem, []).append(entry)
        self.ratios: dict[str, tuple[float, float, float]] = {}
        # FLOP per microsecond, a guess that is only used for the time left
        rate = 1e7 if job.kind == "cuda" else 1e4
        costs = {
            e.key: 5e4 + 12 * e.problem.flops / rate
            for e in self.entries
            if e.key not in journal.records
        }
        self.progress = Progress(
            f"{job.device} {Path(job.plan['kernel'] or 'baselines').name}", costs
        )

    def _entries(self) -> list[_Entry]:
        plan, entries = self.job.plan, []
        everyone = digest(plan["candidates"])  # the losers of the race depend on all candidates
        for problem in (Problem(**given) for given in plan["problems"]):
            for planned in plan["candidates"]:
                candidate = self.job.candidate(
                    planned["name"], problem.element_type, planned["label"], planned["precision"]
                )
                row = self._binary(problem, planned)
                key = digest(
                    [
                        row.get("sha256"),
                        row.get("status"),
                        plan["geometry"],
                        planned,
                        everyone,
                        vars(problem),
                        vars(self.limits),
                        plan["reference"],
                        self.job.described,
                        self.job.code,
                    ]
                )
                entries.append(_Entry(planned, candidate, problem, key))
        return entries

    def _binary(self, problem: Problem, planned: Mapping[str, Any]) -> Mapping[str, Any]:
        return self.job.binary(planned["name"], problem.element_type, planned["label"])

    def measure_all(self) -> None:
        """Measure problem after problem; return when the journal has every entry."""
        try:
            for problem, entries in self.entries_of.items():
                self._measure_problem(
                    problem, [entry for entry in entries if entry.key not in self.journal.records]
                )
        finally:
            self.session.end()
            self.progress.bar.close()

    def done(self) -> int:
        """Return how many of the measurements the journal has."""
        return sum(entry.key in self.journal.records for entry in self.entries)

    def _measure_problem(self, problem: Problem, entries: Sequence[_Entry]) -> None:
        outcomes = {
            entry.key: self._refused_before(entry) or self._run_gauntlet(entry) for entry in entries
        }
        for entry in sorted(entries, key=_is_tf32):  # TF32 last: its operands are others
            if outcomes[entry.key]["status"] == "correct":
                outcomes[entry.key] |= self._check_integers(entry)
        correct = [entry for entry in entries if outcomes[entry.key]["status"] == "correct"]
        for entry in entries:
            if entry not in correct:
                self._record(entry, outcomes[entry.key])
        for start in range(0, len(correct), GROUP):
            group = correct[start : start + GROUP]
            self._time(
                problem,
                {
                    entry: {name: outcomes[entry.key].get(name) for name in VERIFIED}
                    for entry in group
                },
            )

    def _best(self, problem: Problem) -> float:
        """Return the lower end of the best ratio to the reference measured on a problem; 0 for
        none.
        """
        records = [self.journal.records.get(entry.key) for entry in self.entries_of[problem]]
        return max(
            [
                0.0,
                *(
                    self._ratio(record)[1]
                    for record in records
                    if record and record["status"] == "correct"
                ),
            ]
        )

    def _ratio(self, record: Mapping[str, Any]) -> tuple[float, float, float]:
        """Return the record's ratio to the reference with its interval; computed once."""
        if record["key"] not in self.ratios:
            self.ratios[record["key"]] = paired_ratio(record["reference_us"], record["samples_us"])
        return self.ratios[record["key"]]

    def _refused_before(self, entry: _Entry) -> dict[str, Any] | None:
        """Return the outcome of a candidate that the plan, the compiler or the device's arithmetic
        has already ruled out; None for others.
        """
        if entry.planned["objection"]:
            return {"status": "skipped", "reason": entry.planned["objection"]}
        row = self._binary(entry.problem, entry.planned)
        if self.job.plan["kernel"] and row.get("status") != "compiled":
            reason = row.get("reason", "no row in resources.csv")
            return {"status": row.get("status", "compile_error"), "reason": reason}
        if _is_tf32(entry) and entry.problem.distribution == "denormal":
            return {
                "status": "not_supported",
                "reason": "tensor cores take TF32 operands that are denormal for 0",
            }
        return None

    def _run_gauntlet(self, entry: _Entry) -> dict[str, Any]:
        """Return the outcome of the gauntlet for a candidate. It runs once per binary and device,
        whatever the problem.
        """
        element_type, sha256 = (
            entry.problem.element_type,
            self._binary(entry.problem, entry.planned).get("sha256"),
        )
        key = digest(
            [
                "gauntlet",
                sha256,
                self.job.plan["geometry"],
                entry.planned,
                element_type,
                self.job.described,
                self.job.code,
            ]
        )
        if key not in self.journal.records:
            self.session.worker()  # the start of a process does not count as the gauntlet's time
            start = clock.now()
            outcome = _outcome(partial(self.session.run_gauntlet, entry.candidate, element_type))
            self.gauntlet_seconds += clock.now() - start
            self.journal.append(
                {
                    "key": key,
                    "kernel": entry.candidate.name,
                    "configuration": entry.planned["label"],
                    **outcome,
                }
            )
        record = self.journal.records[key]
        return {name: record.get(name) for name in ("status", "reason", *VERIFIED)}

    def _check_integers(self, entry: _Entry) -> dict[str, Any]:
        """Return the outcome of a launch on whole numbers of the problem's size.

        cuBLAS may add parts of K in 16 bits, which frameworks let it do. Then it is not exact here,
        and is marked for that.
        """
        outcome = _outcome(partial(self.session.check_integers, entry.candidate, entry.problem))
        if (
            entry.candidate.name in REDUCING
            and entry.problem.element_type in OF_CUDA
            and INEXACT in outcome["reason"]
        ):
            return {"status": "correct", "reason": "", "sums_16_bit": True}
        return {name: outcome[name] for name in ("status", "reason")}

    def _time(self, problem: Problem, group: Mapping[_Entry, Mapping[str, Any]]) -> None:
        """Time candidates in the same rounds, and record each as soon as it is done. The values are
        what the gauntlet found, `VERIFIED`.
        """
        entries = {entry.candidate: entry for entry in group}

        def keep(candidate: Candidate, outcome: Mapping[str, Any]) -> None:
            entry = entries[candidate]
            self._record(entry, {**outcome, **group[entry]})

        # a baseline may use tensor cores; a kernel may if its binary has their instructions
        flags = {
            candidate: bool(group[entry]["tensor_cores"]) or not self.job.plan["kernel"]
            for candidate, entry in entries.items()
        }
        seed = int(digest([entry.key for entry in group]), 16) % 2**32
        self.session.time_group(
            problem,
            flags,
            self.limits,
            seed,
            keep,
            together=False,
            best=partial(self._best, problem),
        )

    def _record(self, entry: _Entry, outcome: Mapping[str, Any]) -> None:
        if entry.key in self.journal.records:
            return
        # the vendor's library, or what was loaded into it
        if entry.candidate.path is None and outcome["status"] == "incorrect":
            outcome = {
                **outcome,
                "reason": "; ".join(
                    [outcome["reason"], *remarks(self.job.environment["attributes"])]
                ),
            }
        row = self.job.row(self.uuid, entry.candidate, entry.problem, "warm", outcome)
        self.journal.append(
            {
                "key": entry.key,
                "project": self.project,
                "binary_sha256": entry.candidate.sha256 or None,
            }
            | row
        )
        if outcome.get("other_processes") and not self.warned:
            self.warned = True
            print(
                f"{self.job.device}: another process computes on {self.uuid}; what is timed "
                "meanwhile is marked",
                file=sys.stderr,
            )
        self.progress.done(entry.key, f"{entry.problem.label} {entry.planned['label']}")


def _is_tf32(entry: _Entry) -> bool:
    return entry.candidate.precision == "tf32"


def _outcome(judge: Callable[[], Judged]) -> dict[str, Any]:
    try:
        return dict(vars(judge()))
    except Failure as failure:
        return failure.outcome


def run(job: Job, journal_path: Path, output: Path, uuids: Sequence[str]) -> dict[str, Any]:
    """Measure what the journal lacks on one of the devices and write the Parquet file; return the
    session in its metadata.
    """
    start = clock.now()
    journal = Journal(journal_path)
    try:
        with exclusive(uuids) as (uuid, lock):
            locked = clock.now()
            sweep = Sweep(job, journal, uuid, lock)
            before = sweep.done()
            sweep.measure_all()
        session = {
            "job": output.stem,
            "measured": sweep.done() - before,
            "wall_seconds": round(clock.now() - locked, 3),
            "waited_seconds": round(locked - start, 3),
            "gauntlet_seconds": round(sweep.gauntlet_seconds, 3),
            "fingerprint": dict(job.fingerprint),
            "described": job.described,
            "code": job.code,
            **sweep.session.summary(),
        }
        records = [journal.records[entry.key] for entry in sweep.entries]
        write(output, records, session | made_by(records))
    finally:
        journal.close()
    return session
