"""A measure job: verifies configurations of several kernels on every problem, times the correct
ones, and journals each when it is done.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from ladder.core import clock
from ladder.core.files import digest
from ladder.core.stats import paired_ratio
from ladder.core.surroundings import remarks
from ladder.measuring.job import Job, Run, carry_out
from ladder.measuring.progress import Progress
from ladder.measuring.protocol import Candidate, Judged
from ladder.measuring.supervisor import Failure
from ladder.model.baselines import SEARCH
from ladder.model.campaign import Limits, expected_us
from ladder.model.kernel import NO_BATCH, Configuration
from ladder.model.problem import Problem
from ladder.storage.journal import Journal

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

    share: Mapping[str, Any]
    """The share of the plan that it is in. It races with candidates of that share."""
    planned: Mapping[str, Any]
    """The candidate in the plan."""
    binary: Mapping[str, Any]
    """Its row of `resources.csv`; empty for a baseline."""
    candidate: Candidate
    problem: Problem
    key: str
    journal: str
    verified: dict[str, Any] = field(default_factory=dict)
    """The outcome of its verification: status, reason, and `VERIFIED` if the gauntlet was run."""


class Sweep(Run):
    """A run of a job: measures what the journals lack."""

    def __init__(self, job: Job, journals: Mapping[str, Journal], uuid: str, lock: int) -> None:
        super().__init__(job, journals, uuid, lock)
        self.warned = False
        self.gauntlet_seconds = 0.0
        """Wall time of this run's gauntlets."""
        self.limits = Limits(**job.plan["limits"])
        self.items: list[_Entry] = [
            entry
            for share in job.plan["shares"]
            for problem in job.plan["problems"]
            for entry in self._entries(Problem(**problem), share)
        ]
        self.best: defaultdict[str, float] = defaultdict(float)
        """The lower end of the best ratio to the reference on the present problem, by journal; 0
        for none.
        """
        self.progress = Progress(
            {
                entry.key: expected_us(job.kind, entry.problem)
                for entry in self.items
                if not self.has(entry)
            }
        )

    def _entries(self, problem: Problem, share: Mapping[str, Any]) -> Iterator[_Entry]:
        plan = self.job.plan
        everyone = digest(share["candidates"])  # the losers of the race depend on all candidates
        for planned in share["candidates"]:
            made_for = Configuration.of("", planned["label"])
            if problem.layout in share["layouts"] and made_for.layout != problem.layout:
                continue
            if share.get("batch") and made_for.batched != problem.batched:
                continue
            name = planned["name"], problem.element_type, planned["label"]
            binary = self.job.binary(*name)
            key = digest(
                [
                    binary.get("sha256"),
                    binary.get("status"),
                    share["geometry"],
                    planned,
                    everyone,
                    problem.fields,
                    plan["limits"],
                    plan["reference"],
                    self.job.described,
                    self.job.code,
                ]
            )
            candidate = self.job.candidate(*name, planned["precision"])
            yield _Entry(share, planned, binary, candidate, problem, key, share["name"])

    def about(self) -> dict[str, Any]:
        return {"gauntlet_seconds": round(self.gauntlet_seconds, 3)}

    def measure(self) -> None:
        """Measure problem after problem, all kernels on each: its operands are made once."""
        by_problem: dict[Problem, list[_Entry]] = {}
        for entry in self.items:
            by_problem.setdefault(entry.problem, []).append(entry)
        for problem, entries in by_problem.items():
            todo = [entry for entry in entries if not self.has(entry)]
            self.best.clear()
            for entry in entries if todo else ():
                if self.has(entry):
                    self._learn(entry)
            self._measure_problem(problem, todo)

    def _measure_problem(self, problem: Problem, entries: Sequence[_Entry]) -> None:
        for entry in entries:
            entry.verified = (
                self._refused_before(entry) or self._searched(entry) or self._run_gauntlet(entry)
            )
        for entry in sorted(entries, key=_is_tf32):  # TF32 last: its operands are others
            if entry.verified["status"] == "correct":
                entry.verified |= self._check_integers(entry)
        correct = []
        for entry in entries:
            if entry.verified["status"] == "correct":
                correct.append(entry)
            else:
                self._record(entry, entry.verified)
        for _, of_share in groupby(correct, key=lambda entry: entry.journal):
            together = list(of_share)
            for start in range(0, len(together), GROUP):
                self._time(problem, together[start : start + GROUP])

    def _learn(self, entry: _Entry) -> None:
        record = self.journals[entry.journal][entry.key]
        if record["status"] == "correct":
            low = paired_ratio(record["reference_us"], record["samples_us"])[1]
            self.best[entry.journal] = max(low, self.best[entry.journal])

    def _refused_before(self, entry: _Entry) -> dict[str, Any] | None:
        """Return the outcome of a candidate that the plan, the compiler or the device's arithmetic
        has already ruled out; None for others.
        """
        layouts = entry.share["layouts"]
        if layouts and entry.problem.layout not in layouts:
            reason = f"supports the layouts {', '.join(layouts)} only"
            return {"status": "not_supported", "reason": reason}
        if entry.share["kernel"] and entry.problem.batched and not entry.share.get("batch"):
            return {"status": "not_supported", "reason": NO_BATCH}
        if entry.planned["objection"]:
            return {"status": "skipped", "reason": entry.planned["objection"]}
        if entry.share["kernel"] and entry.binary.get("status") != "compiled":
            reason = entry.binary.get("reason", "no row in resources.csv")
            return {"status": entry.binary.get("status", "compile_error"), "reason": reason}
        if _is_tf32(entry) and entry.problem.distribution == "denormal":
            return {
                "status": "not_supported",
                "reason": "tensor cores take TF32 operands that are denormal for 0",
            }
        return None

    def _searched(self, entry: _Entry) -> dict[str, Any] | None:
        """Give a candidate that is to be searched for the configuration that is found. Return why
        there is none; None if there is one, or nothing to search for.

        A search finds another algorithm the next time if some are as fast. So a run that continues
        takes what the first one has found.
        """
        if entry.planned["label"] != SEARCH:
            return None
        journal, key = self.journals[entry.journal], digest(["search", entry.key])
        if key not in journal:
            try:
                found = {"found": self.session.search(entry.problem), "status": "not_supported"}
                found["reason"] = "no algorithm can be searched for on this device"
            except Failure as failure:
                # no kernel failed
                found = {"found": "", "status": "not_supported"}
                found["reason"] = f"the search ended: {failure.reason}"
            journal.append({"key": key, "kernel": entry.candidate.name, **found})
        record = journal[key]
        if not record["found"]:
            return {name: record[name] for name in ("status", "reason")}
        entry.candidate = replace(entry.candidate, configuration=record["found"])
        return None

    def _run_gauntlet(self, entry: _Entry) -> dict[str, Any]:
        """Return the outcome of the gauntlet for a candidate. It runs once per binary and device,
        whatever the problem, and of a baseline once per layout, and once more in batches.
        """
        layout, batched = entry.problem.form
        form = [*([layout] if layout != "nn" else []), *(["batched"] if batched else [])]
        key = digest(
            [
                "gauntlet",
                entry.binary.get("sha256"),
                entry.share["geometry"],
                entry.planned,
                entry.candidate.configuration,
                entry.problem.element_type,
                self.job.described,
                self.job.code,
                *form,
            ]
        )
        journal = self.journals[entry.journal]
        if key not in journal:
            self.session.worker()  # the start of a process does not count as the gauntlet's time
            start = clock.now()
            outcome = _outcome(partial(self.session.run_gauntlet, entry.candidate, entry.problem))
            self.gauntlet_seconds += clock.now() - start
            journal.append(
                {
                    "key": key,
                    "kernel": entry.candidate.name,
                    "configuration": entry.candidate.configuration,
                    **outcome,
                }
            )
        record = journal[key]
        return {name: record.get(name) for name in ("status", "reason", *VERIFIED)}

    def _check_integers(self, entry: _Entry) -> dict[str, Any]:
        """Return the outcome of a launch on whole numbers of the problem's size.

        cuBLAS may add parts of K in 16 bits, which frameworks let it do. Then it is not exact here,
        and is marked for that.
        """
        outcome = _outcome(partial(self.session.check_integers, entry.candidate, entry.problem))
        return {name: outcome[name] for name in ("status", "reason")} | _reduced(outcome)

    def _time(self, problem: Problem, group: Sequence[_Entry]) -> None:
        """Time candidates of a share in the same rounds, and record each as soon as it is done."""
        # baselines are not configurations of one kernel: they do not race
        race = self.limits.race and bool(group[0].share["kernel"])
        entries = {entry.candidate: entry for entry in group}

        def keep(candidate: Candidate, outcome: Mapping[str, Any]) -> None:
            verified = entries[candidate].verified
            self._record(
                entries[candidate],
                {**outcome, **{name: verified.get(name) for name in VERIFIED}, **_reduced(outcome)},
            )

        self.session.time_group(
            problem,
            # a baseline may use tensor cores; a kernel may if its binary has their instructions
            {
                entry.candidate: bool(entry.verified["tensor_cores"]) or not entry.share["kernel"]
                for entry in group
            },
            replace(self.limits, race=race),
            int(digest([entry.key for entry in group]), 16) % 2**32,
            keep,
            together=False,
            best=lambda: self.best[group[0].journal],
        )

    def _record(self, entry: _Entry, outcome: Mapping[str, Any]) -> None:
        # the vendor's library, or what was loaded into it
        if entry.candidate.path is None and outcome["status"] == "incorrect":
            outcome = {
                **outcome,
                "reason": "; ".join(
                    [outcome["reason"], *remarks(self.job.environment["attributes"])]
                ),
            }
        self.keep(entry, self.row(entry.candidate, entry.problem, "warm", outcome))
        self._learn(entry)
        if outcome.get("other_processes") and not self.warned:
            self.warned = True
            print(
                f"Warning: {self.uuid}: another process is using it; values timed meanwhile are "
                "flagged `disturbed`",
                file=sys.stderr,
            )
        self.progress.done(entry.key, f"{entry.problem.label} {entry.candidate.name}")


def _is_tf32(entry: _Entry) -> bool:
    return entry.candidate.precision == "tf32"


def _reduced(outcome: Mapping[str, Any]) -> dict[str, bool]:
    """Return the column `sums_16_bit` if an outcome has it: each check may show it."""
    return {"sums_16_bit": True} if outcome.get("sums_16_bit") else {}


def _outcome(judge: Callable[[], Judged]) -> dict[str, Any]:
    try:
        return dict(vars(judge()))
    except Failure as failure:
        return failure.outcome


def run(job: Job, folder: Path, output: Path, uuids: Sequence[str]) -> dict[str, Any]:
    """Sweep on one of the devices, as `carry_out` does, with journals in a folder."""
    names = [share["name"] for share in job.plan["shares"]]
    return carry_out(Sweep, job, (folder, names), output, uuids)
