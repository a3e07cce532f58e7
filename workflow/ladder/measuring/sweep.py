"""A measure job: every configuration of a kernel on every problem, each run in a supervised child and journaled as it is done."""

import hashlib
import resource
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

from ladder.compiling.provenance import project_state
from ladder.core import clock
from ladder.core.errors import InputError
from ladder.core.files import ROOT, digest
from ladder.core.stats import median_interval, paired_ratio
from ladder.devices.lock import exclusive
from ladder.devices.operands import exactly
from ladder.measuring import protocol
from ladder.measuring.progress import Progress
from ladder.measuring.protocol import Candidate, Judged, Sampled, Trying
from ladder.measuring.supervisor import Child, Failure, Supervisor
from ladder.model.campaign import Limits
from ladder.model.hardware_limits import least_us
from ladder.model.kernel import SUFFIX
from ladder.model.problem import Problem
from ladder.storage.journal import Journal
from ladder.storage.samples import READINGS, write

GROUP = 8
"""Configurations timed side by side in the same rounds."""


@dataclass
class Job:
    """What a measure job is given. `plan` is `Campaign.plan`; `binaries` maps a configuration's slug to its row of `resources.csv`."""

    device: str
    kind: str
    plan: Mapping[str, Any]
    binaries: Mapping[str, Mapping[str, Any]]
    folder: Path
    """Where the binaries are."""
    support: Path
    fingerprint: Mapping[str, Any]
    code: str
    """Digest of the package's modules that measure."""
    environment: Mapping[str, Any]
    """`environment.json`: what the device can do at most."""


@dataclass
class _Entry:
    """One contestant on one problem."""

    index: int
    contestant: Mapping[str, Any]
    problem: Problem
    key: str
    binary: Mapping[str, Any]


class Run:
    """One run of a job: measures what the journal does not have yet."""

    def __init__(self, job: Job, journal: Journal, uuid: str, lock: int) -> None:
        self.job, self.journal, self.uuid, self.warned = job, journal, uuid, False
        self.worker = Supervisor(job.device, job.kind, uuid, job.support, lock, job.plan["reference"])
        self.gauntlet_seconds = 0.0
        """Wall time of this run's gauntlets."""
        # the vendor's calls are no configurations of one kernel: they do not race
        self.limits = dict(job.plan["limits"]) | ({} if job.plan["kernel"] else {"race": False})
        self.entries = self._entries()
        self.entries_of: dict[Problem, list[_Entry]] = {}
        for entry in self.entries:
            self.entries_of.setdefault(entry.problem, []).append(entry)
        self.ratios: dict[str, tuple[float, float, float]] = {}
        rate = 1e7 if job.kind == "cuda" else 1e4  # FLOP per microsecond, a guess that only the time left is told from
        costs = {e.key: 5e4 + 12 * e.problem.flops / rate for e in self.entries if e.key not in journal.records}
        name = Path(job.plan["kernel"] or "baselines").name
        self.progress = Progress(f"{job.device} {name}", costs)

    def _entries(self) -> list[_Entry]:
        plan, entries = self.job.plan, []
        # who is raced out depends on who takes part
        everyone = digest(plan["contestants"])
        for problem in (Problem(**given) for given in plan["problems"]):
            for index, contestant in enumerate(plan["contestants"]):
                binary = self.job.binaries.get(contestant["slug"], {})
                key = digest(
                    [binary.get("sha256"), binary.get("status"), plan["geometry"], contestant, everyone, vars(problem), self.limits,
                     plan["reference"], self.job.fingerprint, self.job.code]
                )  # fmt: skip
                entries.append(_Entry(index, contestant, problem, key, binary))
        return entries

    def measure_all(self) -> None:
        """Measure problem after problem; returns when the journal has every entry."""
        try:
            for problem, mine in self.entries_of.items():
                self._measure_problem(problem, [entry for entry in mine if entry.key not in self.journal.records])
        finally:
            self.worker.end()
            self.progress.bar.close()

    def done(self) -> int:
        """How many of the measurements the journal has."""
        return sum(entry.key in self.journal.records for entry in self.entries)

    def _measure_problem(self, problem: Problem, entries: list[_Entry]) -> None:
        outcomes = {entry.index: self._refused_before(entry) or self._gauntlet(entry) for entry in entries}
        for entry in sorted(entries, key=_tf32):  # operands are made anew for those that round to TF32
            if outcomes[entry.index]["status"] == "correct":
                outcomes[entry.index] |= self._exact(problem, entry)
        good = []
        for entry in entries:
            if outcomes[entry.index]["status"] == "correct":
                good.append(entry)
            else:
                self._record(entry, outcomes[entry.index])
        for start in range(0, len(good), GROUP):
            self._time(problem, good[start : start + GROUP], outcomes)

    def _best(self, problem: Problem) -> float:
        """The lower end of the best ratio to the reference that has been measured on a problem; 0 for none."""
        records = [self.journal.records.get(entry.key) for entry in self.entries_of[problem]]
        return max([0.0, *(self._ratio(record)[1] for record in records if record and record["status"] == "correct")])

    def _ratio(self, record: Mapping[str, Any]) -> tuple[float, float, float]:
        """The record's ratio to the reference, with its interval; computed once."""
        if record["key"] not in self.ratios:
            self.ratios[record["key"]] = paired_ratio(record["reference_us"], record["samples_us"])
        return self.ratios[record["key"]]

    def _refused_before(self, entry: _Entry) -> dict[str, Any] | None:
        """The outcome of a contestant that the plan, the compiler or what the device computes has already ruled out."""
        if entry.contestant["objection"]:
            return {"status": "skipped", "reason": entry.contestant["objection"]}
        if self.job.plan["kernel"] and entry.binary.get("status") != "compiled":
            status = entry.binary.get("status", "compile_error")
            return {"status": status, "reason": entry.binary.get("reason", "no row in resources.csv")}
        if _tf32(entry) and entry.problem.distribution == "denormal":
            return {"status": "not_supported", "reason": "tensor cores take TF32 operands that are denormal for 0"}
        return None

    def _gauntlet(self, entry: _Entry) -> dict[str, Any]:
        """The outcome of the gauntlet for a contestant: once a binary and device, whatever the problem."""
        element_type = entry.problem.element_type
        key = digest(["gauntlet", entry.binary.get("sha256"), self.job.plan["geometry"], entry.contestant, element_type,
                      self.job.fingerprint, self.job.code])  # fmt: skip
        if key not in self.journal.records:
            trying = ""
            self.worker.alive()  # what a process takes to start is not the gauntlet's
            start = clock.now()

            def verdict() -> dict[str, Any]:
                nonlocal trying  # the problem that it is about to be run on
                outcome: dict[str, Any] = {}
                request = protocol.RunGauntlet(element_type, self._candidate(entry))
                for answer in self.worker.alive().ask(request, self.limits["timeout_seconds"]):
                    if isinstance(answer, Judged):
                        outcome = vars(answer)
                    elif isinstance(answer, Trying):
                        trying = answer.problem
                return outcome

            try:
                outcome = self.worker.twice(verdict)
            except Failure as failure:
                outcome = {"status": failure.status, "reason": f"on {trying}: {failure.reason}"}
            self.gauntlet_seconds += clock.now() - start
            self.journal.append(
                {"key": key, "kernel": entry.contestant["name"], "configuration": entry.contestant["label"], **outcome}
            )
        record = self.journal.records[key]
        return {name: record.get(name) for name in ("status", "reason", "tensor_cores")}

    def _exact(self, problem: Problem, entry: _Entry) -> dict[str, Any]:
        """The outcome of one launch on whole numbers of the problem's size."""
        whole = exactly(problem, _tf32(entry))

        def verdict() -> dict[str, Any]:
            child = self.worker.ready(whole)
            self._load(child, [entry])
            (answer,) = child.ask(protocol.Check(entry.index), self.limits["timeout_seconds"])
            assert isinstance(answer, Judged)
            return {"status": answer.status, "reason": answer.reason}

        try:
            return self.worker.twice(verdict)
        except Failure as failure:
            return {"status": failure.status, "reason": failure.reason}

    def _candidate(self, entry: _Entry) -> Candidate:
        """The entry's candidate, as the worker launches it. Raises `InputError` where the binary is not the one that was compiled."""
        kernel = self.job.plan["kernel"]
        if not kernel:
            return Candidate(entry.contestant["name"], precision=entry.contestant["precision"])
        path = ROOT / "kernels" / f"{kernel}{SUFFIX[self.job.kind]}"
        binary = (self.job.folder / entry.binary["binary"]).resolve()  # a kernel may change the working folder
        check_binary(binary, entry.binary["sha256"])
        parameters, precision = entry.contestant["parameters"], entry.contestant["precision"]
        return Candidate(entry.contestant["name"], str(path), parameters, str(binary), precision)

    def _time(self, problem: Problem, group: list[_Entry], outcomes: Mapping[int, Mapping[str, Any]]) -> None:
        left = {entry.index: entry for entry in group}
        limits, seed = self.limits, int(digest([entry.key for entry in group]), 16) % 2**32

        def tensor_cores(index: int) -> bool:  # a baseline may use them, a kernel where its binary has their instructions
            return bool(outcomes[index].get("tensor_cores")) or not self.job.plan["kernel"]

        def sample() -> None:
            if not left:  # all were sent before the child was killed
                return
            child = self.worker.ready(problem)
            self._load(child, list(left.values()))
            start = datetime.now(UTC).isoformat(timespec="seconds")
            request = protocol.Time(list(left), "warm", Limits(**limits), seed, self._best(problem))
            for answer in child.ask(request, limits["timeout_seconds"]):
                if isinstance(answer, Sampled):
                    index = answer.index
                    outcome = outcome_of(answer, limits["race"], start, self.job.environment, problem, tensor_cores(index))
                    self._record(left.pop(index), outcome | {"tensor_cores": outcomes[index].get("tensor_cores")})

        try:
            self.worker.twice(sample)
        except Failure as failure:
            if len(group) == 1:
                self._record(group[0], {"status": failure.status, "reason": f"while timed: {failure.reason}"})
            else:  # one of them did it: each alone tells which
                for entry in left.values():
                    self._time(problem, [entry], outcomes)

    def _load(self, child: Child, entries: list[_Entry]) -> None:
        """Make sure that the child has the launches of what another one verified."""
        for entry in entries:
            if entry.index not in child.loaded:
                list(child.ask(protocol.Load(entry.index, self._candidate(entry)), self.limits["timeout_seconds"]))
                child.loaded.add(entry.index)

    def _record(self, entry: _Entry, outcome: Mapping[str, Any]) -> None:
        if entry.key in self.journal.records:
            return
        self.journal.append(
            {
                "key": entry.key,
                "device": self.job.device,
                "kernel": entry.contestant["name"],
                "configuration": entry.contestant["label"],
                "precision": entry.contestant["precision"] or None,
                **vars(entry.problem),
                "state": "warm",
                "binary_sha256": entry.binary.get("sha256"),
                "reference": self.job.plan["reference"],
                "uuid": self.uuid,
                "time": datetime.now(UTC).isoformat(timespec="seconds"),
                **outcome,
            }
        )
        if outcome.get("other_processes") and not self.warned:
            self.warned = True
            print(
                f"{self.job.device}: another process computes on {self.uuid}; what is timed meanwhile is marked", file=sys.stderr
            )
        self.progress.done(entry.key, f"{entry.problem.label} {entry.contestant['label']}")


def _tf32(entry: _Entry) -> bool:
    return bool(entry.contestant["precision"] == "tf32")


def outcome_of(
    answer: Sampled, race: bool, start: str, environment: Mapping[str, Any], problem: Problem, tensor_cores: bool
) -> dict[str, Any]:
    """The outcome of a candidate that was timed, as columns, by the worker's answer: its samples, or why they do not count."""
    verdict = answer.verdict
    if verdict["status"] != "correct":
        return {**verdict, "reason": f"while timed: {verdict['reason']}"}
    if why := too_fast(environment, problem, answer.samples, tensor_cores):
        return {"status": "incorrect", "reason": why}
    return {
        **verdict,
        "samples_us": [round(value, 4) for value in answer.samples],
        "reference_us": [round(value, 4) for value in answer.reference],
        "repeats": answer.repeats,
        "stop": answer.stop,
        "race": race,
        "time": start,
        **read_readings(answer.readings),
        "other_processes": answer.other_processes,
    }


def too_fast(environment: Mapping[str, Any], problem: Problem, samples: Sequence[float], tensor_cores: bool) -> str:
    """Why times in microseconds cannot be, or ""."""
    least, median = least_us(environment, problem, tensor_cores), median_interval(samples)[0]
    return f"faster than the device: {median:.3g} us, where {least:.3g} us is the least it takes" if median < least else ""


def check_binary(path: Path, sha256: str) -> None:
    """Raise `InputError` where a binary is not the one that was compiled."""
    if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        raise InputError(
            f"{path}: its sha256 is not the one in resources.csv; expected what was compiled. Remove {path.parent} and run again"
        )


def read_readings(readings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a device read of itself, as columns: the median of each, and clock and throttling of every sample."""
    known = {name: [reading[name] for reading in readings if reading.get(name) is not None] for name in READINGS}
    throttle = [reading.get("throttle_reasons") for reading in readings]
    return {name: median_interval(values)[0] if values else None for name, values in known.items()} | {
        "throttle_reasons": reduce(or_, (bits or 0 for bits in throttle)) if any(bits is not None for bits in throttle) else None,
        "samples_sm_clock_mhz": [reading.get("sm_clock_mhz") for reading in readings],
        "samples_throttle_reasons": throttle,
    }


def run(job: Job, journal_path: Path, output: Path, candidates: Sequence[str]) -> dict[str, Any]:
    """Measure what the journal lacks and write the Parquet file; returns the session: wall and busy seconds, measurements, commit."""
    start = clock.now()
    journal = Journal(journal_path)
    try:
        with exclusive(candidates) as (uuid, lock):
            held = clock.now()
            current = Run(job, journal, uuid, lock)
            before = current.done()
            current.measure_all()
        session = {
            "job": output.stem,
            "measured": current.done() - before,
            "wall_seconds": round(clock.now() - held, 3),
            "waited_seconds": round(held - start, 3),
            "busy_seconds": round(current.worker.busy_us / 1e6, 3),
            "gauntlet_seconds": round(current.gauntlet_seconds, 3),
            "children": current.worker.children,
            "peak_memory_bytes": 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss,
            "fingerprint": dict(job.fingerprint),
            "code": job.code,
            **project_state(),
        }
        write(output, (journal.records[entry.key] for entry in current.entries), session)
    finally:
        journal.close()
    return session
