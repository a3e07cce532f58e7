"""The confirmation: what the sweep found best, measured again, all kernels side by side in the same rounds, in several fresh processes."""

import hashlib
import resource
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ladder.compiling.provenance import project_state
from ladder.core import clock
from ladder.core.files import ROOT, digest
from ladder.core.stats import median_interval, paired_ratio
from ladder.core.types import FAILED
from ladder.devices.lock import exclusive
from ladder.measuring import protocol
from ladder.measuring.progress import Progress
from ladder.measuring.protocol import Candidate, Energy, Sampled
from ladder.measuring.supervisor import Child, Failure, Supervisor
from ladder.measuring.sweep import check_binary, outcome_of
from ladder.model.campaign import GAPS, Limits, is_baseline
from ladder.model.kernel import SUFFIX, Configuration
from ladder.model.problem import Problem
from ladder.storage.journal import Journal
from ladder.storage.samples import read, write

ENERGY_SECONDS = 0.4
"""How long launches follow each other to measure their energy."""
ENERGY_PROCESSES = 3
"""The processes in which energy is counted: enough to show how far it repeats."""
ENERGY_TRIES = 3
"""How often a process counts at the most: until launches followed each other, and the counter was seen to move."""
ENERGY_SLACK = 0.2
"""By what share a launch of that stretch may be faster than where it was timed: no result is looked at there, nor C poisoned."""
ROUNDS_BEFORE = 4
"""Rounds, at the most, that pass before the first answer of a request to time."""

T = TypeVar("T")
Name = tuple[str, str, str]
"""A kernel, an element type and the label of a configuration."""


@dataclass(frozen=True)
class Contestant:
    """What is measured again on a problem: a kernel in one configuration, or a baseline."""

    kernel: str
    configuration: str
    role: str
    """`best` of its kernel in the sweep, `finalist`, or `control`: another kernel's configuration with the binary of one of those."""
    us: float
    """The sweep's median time, in microseconds."""
    precision: str = ""
    apart: bool = False
    """Whether it has rounds of its own: what uses the tensor cores, or is a baseline for context only. They draw power, or leave threads
    spinning, at the cost of what is timed beside them."""

    @property
    def tensor_cores(self) -> bool:
        """Whether it may use them."""
        return self.apart or is_baseline(self.kernel)


@dataclass
class Job:
    """What the confirmation of a device is given. `plan` is `Campaign.confirmation`, `samples` are the files of the sweep."""

    device: str
    kind: str
    plan: Mapping[str, Any]
    samples: Sequence[Path]
    binaries: Mapping[Name, Mapping[str, Any]]
    """Rows of the files `resources.csv`, whose `binary` is a path."""
    support: Path
    fingerprint: Mapping[str, Any]
    code: str
    """Digest of the package's modules that measure."""
    swept: str
    """Digest of those that sweep."""
    environment: Mapping[str, Any]
    """What `environment.json` says."""
    refill_us: float = 0.0
    """What filling the caches once takes, in microseconds; 0 where it is not known."""


@dataclass(frozen=True)
class _Group:
    """What is timed side by side."""

    process: int
    problem: Problem
    state: str
    contestants: Sequence[Contestant]
    key: str


def finalists(
    rows: Iterable[Mapping[str, Any]], within: float, most: int, sha256: Mapping[Name, str]
) -> dict[Problem, list[Contestant]]:
    """Who is measured again on each problem, by the rows of the sweep.

    Of each kernel the configuration with the highest ratio to the reference, and those whose ratio is at most `within` below it, `most` in
    all; what lost the race is none of them. With them the controls: other kernels' configurations with the same binary (`sha256`), raced
    or not, which nothing but chance can tell apart.
    """
    found: dict[Problem, dict[str, list[tuple[float, Contestant]]]] = {}
    raced: dict[Problem, list[Contestant]] = {}
    for row in rows:
        if row["status"] != "correct" or row["state"] != "warm":
            continue
        problem = Problem(**{name: row[name] for name in Problem.__dataclass_fields__})
        context = is_baseline(row["kernel"]) and row["kernel"] != row["reference"]
        us, apart = median_interval(row["samples_us"])[0], context or bool(row["tensor_cores"])
        one = Contestant(row["kernel"], row["configuration"], "finalist", us, row["precision"] or "", apart)
        found.setdefault(problem, {})
        if row["stop"] == "race":
            raced.setdefault(problem, []).append(one)
        else:
            ratio = paired_ratio(row["reference_us"], row["samples_us"])[0]
            found[problem].setdefault(one.kernel, []).append((ratio, one))
    chosen: dict[Problem, list[Contestant]] = {}
    for problem in sorted(found, key=lambda problem: (problem.element_type, problem.flops, problem.label)):
        chosen[problem], others = [], raced.get(problem, [])
        for timed in found[problem].values():
            timed.sort(key=lambda item: -item[0])
            near = [one for ratio, one in timed if ratio >= timed[0][0] * (1 - within)][:most]
            chosen[problem] += [replace(near[0], role="best"), *near[1:]]
            others = others + [one for _, one in timed if one not in near]

        def binary(one: Contestant, element_type: str = problem.element_type) -> str:
            return sha256.get((one.kernel, element_type, one.configuration), "")

        taken = {binary(one): one.kernel for one in chosen[problem] if binary(one)}
        chosen[problem] += [replace(one, role="control") for one in others if taken.get(binary(one), one.kernel) != one.kernel]
    return chosen


class Confirmation:
    """One run of a job: measures what the journal does not have yet, a record a problem, state and process."""

    def __init__(self, job: Job, journal: Journal, contestants: Mapping[Problem, list[Contestant]], uuid: str, lock: int) -> None:
        self.job, self.journal, self.contestants, self.uuid = job, journal, contestants, uuid
        self.limits: Mapping[str, Any] = job.plan["limits"]
        self.worker = Supervisor(job.device, job.kind, uuid, job.support, lock, job.plan["reference"])
        self.groups = [
            self._group(process, problem, state, together)
            for process in range(1, job.plan["processes"] + 1)
            for problem in contestants
            for state in sorted(self.limits["states"], reverse=True)  # warm, then cold
            for apart in (False, True)
            if (together := [one for one in contestants[problem] if one.apart is apart])
        ]
        self.failed: dict[Name, Mapping[str, Any]] = {}
        for group in self.groups:
            self._learn(journal.records.get(group.key, {"rows": []})["rows"])
        todo = [group for group in self.groups if group.key not in journal.records]
        self.progress = Progress(f"{job.device} confirmation", {group.key: self._round_us(group.contestants) for group in todo})

    def _group(self, process: int, problem: Problem, state: str, contestants: Sequence[Contestant]) -> _Group:
        who = [[one.kernel, one.configuration, one.role, self._binary(problem, one).get("sha256")] for one in contestants]
        asked = [self.job.plan[name] for name in ("limits", "target", "energy", "seed", "reference")]
        given = [vars(problem), state, process, who, asked, self.job.fingerprint, self.job.code, self.uuid]
        return _Group(process, problem, state, contestants, digest(given))

    def _binary(self, problem: Problem, one: Contestant) -> Mapping[str, Any]:
        return self.job.binaries.get((one.kernel, problem.element_type, one.configuration), {})

    def _round_us(self, contestants: Sequence[Contestant]) -> float:
        """What a round takes, in microseconds, by what the sweep found."""
        return sum(max(one.us, float(self.limits["sample_us"])) for one in contestants)

    def _learn(self, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            if row["status"] in FAILED:
                self.failed[row["kernel"], row["element_type"], row["configuration"]] = row

    def measure_all(self) -> None:
        """Measure process after process; returns when the journal has every group.

        The smaller problems come first: after large ones the board may be at its power limit, and the clock held down.
        """
        try:
            for process in range(1, self.job.plan["processes"] + 1):
                self.worker.end()  # another process: another context and other addresses
                for group in self.groups:
                    if group.process == process and group.key not in self.journal.records:
                        self._measure(group)
        finally:
            self.worker.end()
            self.progress.bar.close()

    def rows(self) -> list[Mapping[str, Any]]:
        """A row for every contestant, problem, state and process."""
        return [row | {"key": group.key} for group in self.groups for row in self.journal.records[group.key]["rows"]]

    def _measure(self, group: _Group) -> None:
        rows: dict[Contestant, dict[str, Any]] = {}
        for one in group.contestants:
            if group.state == "cold" and 0 < self.job.refill_us < self.job.plan["target"] * one.us:
                why = f"as warm: filling the caches takes {self.job.refill_us:.1f} us, below measure.target of a launch's {one.us:.0f} us"
                rows[one] = {"status": "skipped", "reason": why}
            elif (one.kernel, group.problem.element_type, one.configuration) not in self.failed:
                rows[one] = {}
        left = [one for one in rows if not rows[one]]
        for one, outcome in self._time(group, left).items():
            rows[one] = outcome
        if group.state == "warm" and group.problem.label in self.job.plan["energy"] and group.process <= ENERGY_PROCESSES:
            for one in left:
                if one.role == "best" and rows[one]["status"] == "correct":
                    rows[one] |= self._energy(group.problem, one, rows[one])
        made = [
            {
                "device": self.job.device,
                "kernel": one.kernel,
                "configuration": one.configuration,
                "precision": one.precision or None,
                **vars(group.problem),
                "state": group.state,
                "process": group.process,
                "role": one.role,
                "reference": self.job.plan["reference"],
                "uuid": self.uuid,
                "time": datetime.now(UTC).isoformat(timespec="seconds"),
                **outcome,
            }
            for one, outcome in rows.items()
        ]
        self._learn(made)
        self.journal.append({"key": group.key, "rows": made})
        self.progress.done(group.key, f"{group.problem.label} {group.state}, process {group.process}")

    def _time(self, group: _Group, contestants: Sequence[Contestant]) -> dict[Contestant, dict[str, Any]]:
        """The outcome of each contestant, timed beside the others.

        When the child dies or hangs, each alone tells who did it, and the others are timed again without them. Where none does it alone,
        all are tried once more, and then they share the failure.
        """
        found: dict[Contestant, dict[str, Any]] = {}
        for one in contestants:
            failure = self._attempt(group.problem, [one], lambda child: None)
            if isinstance(failure, Failure):
                found[one] = {"status": failure.status, "reason": failure.reason}
        left, tries = [one for one in contestants if one not in found], 0
        while left:
            together = self._attempt(group.problem, left, partial(self._series, group, left))
            if not isinstance(together, Failure):
                return found | together
            tries += 1
            alone = {one: self._attempt(group.problem, [one], partial(self._series, group, [one])) for one in left}
            guilty = {one: failure for one, failure in alone.items() if isinstance(failure, Failure)}
            if not guilty and tries > 1:
                guilty = dict.fromkeys(left, together)
            found |= {one: {"status": it.status, "reason": f"while timed: {it.reason}"} for one, it in guilty.items()}
            left = [one for one in left if one not in guilty]
        return found

    def _series(self, group: _Group, contestants: Sequence[Contestant], child: Child) -> dict[Contestant, dict[str, Any]]:
        """Samples of the contestants, timed in the same rounds."""
        indices, seed = {self._index(group.problem, one): one for one in contestants}, int(group.key, 16) % 2**32
        timeout = self.limits["timeout_seconds"] + ROUNDS_BEFORE * self._round_us(contestants) / 1e6
        found, start = {}, datetime.now(UTC).isoformat(timespec="seconds")
        request = protocol.Time(list(indices), group.state, Limits(**self.limits), seed, 0.0)
        for answer in child.ask(request, timeout):
            if isinstance(answer, Sampled):
                one = indices[answer.index]
                found[one] = outcome_of(answer, False, start, self.job.environment, group.problem, one.tensor_cores)
        return found

    def _energy(self, problem: Problem, one: Contestant, row: Mapping[str, Any]) -> dict[str, Any]:
        """The energy of one GEMM of a contestant that has been timed, and its power: the energy over the time of the same launches."""
        request = protocol.CountEnergy(self._index(problem, one), row["repeats"], ENERGY_SECONDS)
        timed, why = median_interval(row["samples_us"])[0], ""
        for _ in range(ENERGY_TRIES):
            answers = self._attempt(problem, [one], lambda child: list(child.ask(request, self.limits["timeout_seconds"])))
            if isinstance(answers, Failure):
                return {"reason": f"no energy: {answers.reason}"}
            (answer,) = answers
            assert isinstance(answer, Energy)
            joules, us = answer.joules, answer.us
            if joules is None or us is None:
                why = "no counter of it was seen to move"
                continue
            if (1 - ENERGY_SLACK) * timed <= us <= GAPS * timed:
                return {"energy_j": joules, "power_w": joules / us * 1e6}
            why = f"a launch took {us:.3g} us there, and {timed:.3g} us where it was timed"
        return {"reason": f"no energy: {why}"}

    def _attempt(self, problem: Problem, contestants: Sequence[Contestant], do: Callable[[Child], T]) -> T | Failure:
        """What `do` gives of a child that has the contestants' launches, or why it could not.

        Raises `InputError` where the problem's operands or its reference cannot be had.
        """

        def attempt() -> T:
            child = self.worker.ready(problem)
            for one in contestants:
                if self._index(problem, one) not in child.loaded:
                    self._load(child, problem, one)
            return do(child)

        try:
            return self.worker.twice(attempt)
        except Failure as failure:
            return failure

    def _load(self, child: Child, problem: Problem, one: Contestant) -> None:
        """Have the child load a contestant. Raises `InputError` where its binary is not the one that was compiled."""
        candidate = Candidate(one.kernel, precision=one.precision)
        if not is_baseline(one.kernel):
            path = ROOT / "kernels" / self.job.kind / f"{one.kernel}{SUFFIX[self.job.kind]}"
            parameters = Configuration.of(problem.element_type, one.configuration).parameters
            binary = self._binary(problem, one)
            check_binary(Path(binary["binary"]), binary["sha256"])
            candidate = Candidate(one.kernel, str(path), parameters, str(Path(binary["binary"]).resolve()), one.precision)
        list(child.ask(protocol.Load(self._index(problem, one), candidate), self.limits["timeout_seconds"]))
        child.loaded.add(self._index(problem, one))

    def _index(self, problem: Problem, one: Contestant) -> int:
        """The number by which the child knows a contestant."""
        return self.contestants[problem].index(one)


def run(job: Job, journal_path: Path, output: Path, candidates: Sequence[str]) -> dict[str, Any]:
    """Measure what the journal lacks and write the Parquet file; returns the session, which also names the files of the sweep.

    What a journal has from one GPU is not gone on with on another.
    """
    start, rows = clock.now(), []
    for path in job.samples:
        rows += read(path)[0]
    sha256 = {name: str(row["sha256"]) for name, row in job.binaries.items()}
    contestants = finalists(rows, job.plan["within"], job.plan["finalists"], sha256)
    journal = Journal(journal_path)
    try:
        begun = {row["uuid"] for record in journal.records.values() for row in record["rows"]}
        with exclusive([uuid for uuid in candidates if uuid in begun] or candidates) as (uuid, lock):
            held = clock.now()
            current = Confirmation(job, journal, contestants, uuid, lock)
            before = set(journal.records)
            current.measure_all()
        session = {
            "job": output.stem,
            "jobs": {path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in job.samples},
            "within": job.plan["within"],
            "measured": sum(len(record["rows"]) for key, record in journal.records.items() if key not in before),
            "wall_seconds": round(clock.now() - held, 3),
            "waited_seconds": round(held - start, 3),
            "busy_seconds": round(current.worker.busy_us / 1e6, 3),
            "children": current.worker.children,
            "peak_memory_bytes": 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss,
            "fingerprint": dict(job.fingerprint),
            "code": job.code,
            "swept": job.swept,
            **project_state(),
        }
        write(output, current.rows(), session)
    finally:
        journal.close()
    return session
