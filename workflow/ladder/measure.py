"""A measure job: every configuration of a kernel on every problem, each run in a supervised child and journaled as it is done."""

import contextlib
import errno
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from multiprocessing import Pipe
from operator import or_
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

from ladder.campaign import Problem, digest
from ladder.environment import ROOT, Device, project_state
from ladder.records import Journal, write
from ladder.statistics import median_interval, paired_ratio
from ladder.units import InputError, Status

GROUP = 8
"""Configurations timed side by side in the same rounds."""
START_SECONDS = 120.0
"""Time a child has to open its device and make the operands of a problem."""
LINE_SECONDS = 10.0
"""Between lines of progress where there is no terminal."""
READINGS = ("sm_clock_mhz", "memory_clock_mhz", "power_w", "temperature_c")
"""What a device reads of itself while rounds run; of a measurement's readings, the median is recorded."""


FROM_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
"""Signals by which a user, a batch system or a machine out of memory ends a process; a kernel's own faults have others."""

T = TypeVar("T")


class Failure(Exception):
    """The child ended, was killed at its time limit, or refused a request; `alive` where it can go on, `killed` if from outside."""

    def __init__(self, status: Status, reason: str, alive: bool, killed: bool = False) -> None:
        super().__init__(reason)
        self.status, self.reason, self.alive, self.killed = status, reason, alive, killed


class Child:
    """The worker process. A request is a tuple; its answers are yielded until it is done.

    It holds the job's lock too: the device is not free before the last process that uses it is gone.
    """

    def __init__(self, kind: str, uuid: str, support: Path, lock: int) -> None:
        self.connection, theirs = Pipe()
        self.errors = tempfile.TemporaryFile()
        # Snakemake sets the threads of every library to those of the job; here the measurement decides
        inherited = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
        path = os.pathsep.join([str(ROOT / "workflow"), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ladder.worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno(), lock],
            stderr=self.errors,
            env=inherited | {"PYTHONPATH": path} | ({"CUDA_VISIBLE_DEVICES": uuid} if kind == "cuda" else {}),
        )
        theirs.close()
        self.busy_us = 0.0
        self.loaded: set[int] = set()
        """Contestants of which it has the launch, on the operands that it has."""
        for _ in self.ask(("open", kind, uuid, str(support)), START_SECONDS):
            pass

    def ask(self, request: tuple[Any, ...], timeout: float) -> Iterator[tuple[Any, ...]]:
        """Send a request; yield its answers. Raises `Failure` when none comes for `timeout` seconds or the child ends."""
        try:
            self.connection.send(request)
            while True:
                if not self.connection.poll(timeout):
                    self.kill()
                    raise Failure("timeout", f"no answer within {timeout:g} s", alive=False)
                answer = self.connection.recv()
                if answer[0] == "done":
                    self.busy_us = answer[1]
                    return
                if answer[0] == "refused":
                    raise Failure(answer[1], answer[2], alive=not answer[3])
                yield answer
        except (EOFError, OSError):
            self.process.wait()
            killed = -self.process.returncode in FROM_OUTSIDE
            raise Failure("launch_error", self._epitaph(), alive=False, killed=killed) from None

    def _epitaph(self) -> str:
        code = self.process.returncode
        self.errors.seek(0)
        last = self.errors.read().decode(errors="replace").strip().splitlines()[-1:]
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return ": ".join([f"the child process {how}", *last])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Let the child end by itself; one that does not is killed."""
        with contextlib.suppress(OSError):
            self.connection.send(None)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.kill()
        self.connection.close()
        self.errors.close()


class Progress:
    """A bar on a terminal, a line now and then elsewhere; the time left is told from expected costs, not from counts."""

    def __init__(self, title: str, costs: Mapping[str, float]) -> None:
        self.title, self.costs = title, dict(costs)
        self.total, self.left, self.start, self.said = len(costs), sum(costs.values()), time.monotonic(), time.monotonic()
        self.all = self.left
        terminal = sys.__stderr__
        self.bar = tqdm(
            total=self.total,
            desc=title,
            file=terminal,
            disable=terminal is None or not terminal.isatty(),
            bar_format="{l_bar}{bar}| {n}/{total} {postfix}",
        )

    def done(self, key: str, what: str) -> None:
        """Count a measurement as done."""
        self.left -= self.costs.pop(key, 0.0)
        elapsed, spent = time.monotonic() - self.start, self.all - self.left
        remaining = f"{elapsed / spent * self.left:.0f} s left" if spent > 0 else ""
        self.bar.update()
        self.bar.set_postfix_str(f"{what}, {remaining}")
        if self.bar.disable and time.monotonic() - self.said > LINE_SECONDS:
            self.said = time.monotonic()
            print(
                f"{self.title}: {self.total - len(self.costs)}/{self.total} measured, now {what}, {remaining}",
                file=sys.stderr,
                flush=True,
            )


def uuids(device: Device) -> list[str]:
    """What can be locked: the GPUs of a model that this process may use, or the CPU's slug. Raises `InputError` for none."""
    if device.kind == "cpu":
        return [device.slug]
    from ladder.devices.cuda import visible

    found = visible(device.slug)
    if not found:
        raise InputError(f"device {device.slug}: CUDA_VISIBLE_DEVICES hides it; expected at least one to be visible")
    return found


@contextlib.contextmanager
def exclusive(candidates: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Hold one of several devices for timing, with a lock that every process of every user on this machine sees.

    Waits while all are held. Yields the device's UUID and the lock's file descriptor. The lock is a name in the abstract namespace of
    Unix sockets (unix(7)): no file whose folder, owner or permissions could be wrong, and gone with the last process that holds it.
    """
    waiting = False
    while True:
        for uuid in candidates:
            with socket.socket(socket.AF_UNIX) as lock:
                try:
                    lock.bind(f"\0gemm-ladder {uuid}")
                except OSError as error:
                    if error.errno != errno.EADDRINUSE:
                        raise
                    continue
                yield uuid, lock.fileno()
                return
        if not waiting:
            print(f"{', '.join(candidates)}: in use by another run; waiting until it is free", file=sys.stderr, flush=True)
        waiting = True
        time.sleep(0.5)


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
    refill_us: float = 0.0
    """What filling the caches once takes, in microseconds; 0 where it is not known."""


@dataclass
class _Entry:
    """One contestant on one problem in one state."""

    index: int
    contestant: Mapping[str, Any]
    problem: Problem
    state: str
    key: str
    binary: Mapping[str, Any]


class Run:
    """One run of a job: measures what the journal does not have yet."""

    def __init__(self, job: Job, journal: Journal, uuid: str, lock: int) -> None:
        self.job, self.journal, self.uuid, self.lock = job, journal, uuid, lock
        self.child: Child | None = None
        self.current: Problem | None = None
        self.busy_us, self.children, self.warned = 0.0, 0, False
        # the vendor's calls are no configurations of one kernel: they do not race, and each is measured in every state
        self.limits = dict(job.plan["limits"]) | ({} if job.plan["kernel"] else {"race": False, "cold_best": 0})
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
        # who is raced out, and followed in state cold, depends on who takes part
        everyone = digest(plan["contestants"])
        for problem in (Problem(**given) for given in plan["problems"]):
            for state in sorted(plan["limits"]["states"], reverse=True):  # warm, then cold, which follows it
                for index, contestant in enumerate(plan["contestants"]):
                    binary = self.job.binaries.get(contestant["slug"], {})
                    key = digest(
                        [binary.get("sha256"), binary.get("status"), plan["geometry"], contestant, everyone, vars(problem), state,
                         self.limits, plan["reference"], self.job.fingerprint, self.job.code]
                    )  # fmt: skip
                    entries.append(_Entry(index, contestant, problem, state, key, binary))
        return entries

    def measure_all(self) -> None:
        """Measure problem after problem; returns when the journal has every entry."""
        try:
            for problem, mine in self.entries_of.items():
                self._measure_problem(problem, [entry for entry in mine if entry.key not in self.journal.records])
                self._measure_energy(problem, [entry for entry in mine if entry.state == "warm"])
        finally:
            if self.child:
                self.busy_us += self.child.busy_us
                self.child.close()
            self.progress.bar.close()

    def _measure_problem(self, problem: Problem, entries: list[_Entry]) -> None:
        verified: dict[int, dict[str, Any]] = {}
        for entry in entries:
            if entry.index in verified:
                continue
            outcome = self._refused_before(entry) or self._verify(problem, entry)
            verified[entry.index] = outcome
            if outcome["status"] != "correct":
                for other in entries:
                    if other.index == entry.index:
                        self._record(other, outcome)
        for state in dict.fromkeys(entry.state for entry in entries):
            good = [e for e in entries if e.state == state and verified[e.index]["status"] == "correct"]
            if state == "cold":
                good = self._follow(problem, good)
            for start in range(0, len(good), GROUP):
                self._time(problem, good[start : start + GROUP], verified)

    def _timed(self, problem: Problem, state: str) -> dict[int, dict[str, Any]]:
        """The records of what has been timed on a problem in a state, by the contestant's index, the best first."""
        entries = [entry for entry in self.entries_of[problem] if entry.state == state and entry.key in self.journal.records]
        found = {entry.index: self.journal.records[entry.key] for entry in entries}
        timed = {index: record for index, record in found.items() if record["status"] == "correct"}
        return dict(sorted(timed.items(), key=lambda item: -self._ratio(item[1])[0]))

    def _ratio(self, record: Mapping[str, Any]) -> tuple[float, float, float]:
        """The record's ratio to the reference, with its interval; computed once."""
        if record["key"] not in self.ratios:
            self.ratios[record["key"]] = paired_ratio(record["reference_us"], record["samples_us"])
        return self.ratios[record["key"]]

    def _follow(self, problem: Problem, entries: list[_Entry]) -> list[_Entry]:
        """The entries to time in state cold, by what was found warm; the others are recorded as skipped.

        Those are left out that are not among the best, and those whose launches take so long that filling the caches, all that cold can
        add, is less than `target` of it.
        """
        warm, followed = self._timed(problem, "warm"), []
        best = list(warm)[: self.limits["cold_best"] or None]
        for entry in entries:
            us = median_interval(warm[entry.index]["samples_us"])[0] if entry.index in warm else 0.0
            if 0 < self.job.refill_us < self.limits["target"] * us:
                why = f"as warm: filling the caches takes {self.job.refill_us:.1f} us, below measure.target of a launch's {us:.0f} us"
            elif best and entry.index not in best:
                why = f"not among the {len(best)} best of state warm, which state cold follows (measure.cold_best)"
            else:
                followed.append(entry)
                continue
            self._record(entry, {"status": "skipped", "reason": why})
        return followed

    def _measure_energy(self, problem: Problem, entries: list[_Entry]) -> None:
        """Add the energy of one GEMM to the record of the best configuration, and of each of the vendor's calls."""
        finished = {index: record for index, record in self._timed(problem, "warm").items() if record["stop"] != "race"}
        for index in list(finished)[: 1 if self.job.plan["kernel"] else None]:
            record, entry = finished[index], next(entry for entry in entries if entry.index == index)
            if "energy_j" in record:
                continue
            sample_us = record["repeats"] * median_interval(record["samples_us"])[0]

            def joules(
                entry: _Entry = entry, request: tuple[Any, ...] = ("energy", index, record["repeats"], sample_us)
            ) -> float | None:
                child = self._ready(problem)
                self._load(child, [entry])
                found: float | None = next(a[1] for a in list(child.ask(request, self.limits["timeout_seconds"])))
                return found

            try:
                found: dict[str, Any] = {"energy_j": self._twice(joules)}
            except Failure as failure:
                self._lost(failure)
                found = {"energy_j": None, "reason": f"no energy: {failure.reason}"}
            self.journal.append(record | found)

    def _refused_before(self, entry: _Entry) -> dict[str, Any] | None:
        """The outcome of a contestant that the plan or the compiler has already ruled out."""
        if entry.contestant["objection"]:
            return {"status": "skipped", "reason": entry.contestant["objection"]}
        if self.job.plan["kernel"] and entry.binary.get("status") != "compiled":
            status = entry.binary.get("status", "compile_error")
            return {"status": status, "reason": entry.binary.get("reason", "no row in resources.csv")}
        return None

    def _ready(self, problem: Problem) -> Child:
        """A child that has the operands of the problem."""
        if self.child is None:
            self.child, self.current = Child(self.job.kind, self.uuid, self.job.support, self.lock), None
            self.children += 1
        if self.current != problem:
            for _ in self.child.ask(("problem", vars(problem), self.job.plan["reference"]), START_SECONDS):
                pass
            self.current = problem
            self.child.loaded.clear()
        return self.child

    def _lost(self, failure: Failure) -> None:
        """Bury a child that cannot go on."""
        if not failure.alive and self.child:
            self.busy_us += self.child.busy_us
            self.child.close()
            self.child = self.current = None

    def _twice(self, attempt: Callable[[], T]) -> T:
        """What an attempt gives; one more where the child was killed from outside: no kernel's fault, unless it happens again."""
        try:
            return attempt()
        except Failure as failure:
            if not failure.killed:
                raise
            self._lost(failure)
        return attempt()

    def _verify(self, problem: Problem, entry: _Entry) -> dict[str, Any]:
        def verdict() -> dict[str, Any]:
            child = self._ready(problem)
            found = next(dict(a[1]) for a in list(child.ask(self._request(entry), self.limits["timeout_seconds"])))
            child.loaded.add(entry.index)
            return found

        try:
            self._twice(lambda: self._ready(problem))
        except Failure as failure:
            if failure.status == "not_supported":  # the operands do not fit
                self._lost(failure)
                return {"status": failure.status, "reason": failure.reason}
            raise RuntimeError(f"{self.job.device}: {problem.label}: the problem could not be set up: {failure.reason}") from None
        try:
            return self._twice(verdict)
        except Failure as failure:
            self._lost(failure)
            return {"status": failure.status, "reason": failure.reason}

    def _request(self, entry: _Entry) -> tuple[Any, ...]:
        kernel = self.job.plan["kernel"]
        path = str(ROOT / "kernels" / f"{kernel}{'.cu' if self.job.kind == 'cuda' else '.c'}") if kernel else None
        binary = str(self.job.folder / entry.binary["binary"]) if kernel else ""
        return ("verify", entry.index, entry.contestant["name"], path, entry.contestant["parameters"], binary)

    def _time(self, problem: Problem, group: list[_Entry], verified: Mapping[int, Mapping[str, Any]]) -> None:
        left = {entry.index: entry for entry in group}
        limits, state, seed = self.limits, group[0].state, int(digest([entry.key for entry in group]), 16) % 2**32

        def sample() -> None:
            if not left:  # all were sent before the child was killed
                return
            child = self._ready(problem)
            self._load(child, list(left.values()))
            best = max([0.0, *(self._ratio(record)[1] for record in self._timed(problem, state).values())])
            start = datetime.now(UTC).isoformat(timespec="seconds")
            for answer in child.ask(("time", list(left), state, limits, seed, best), limits["timeout_seconds"]):
                if answer[0] == "series":
                    _, index, series, others, verdict = answer
                    timed = {
                        "samples_us": [round(value, 4) for value in series["samples"]],
                        "reference_us": [round(value, 4) for value in series["reference"]],
                        "repeats": series["repeats"],
                        "stop": series["stop"],
                        "race": limits["race"],
                        "time": start,
                    }
                    outcome = {**verified[index], **timed, **_read(series["readings"]), "other_processes": others}
                    if verdict["status"] != "correct":
                        outcome = verdict | {"reason": f"after it was timed: {verdict['reason']}"}
                    self._record(left.pop(index), outcome)

        try:
            self._twice(sample)
        except Failure as failure:
            self._lost(failure)
            if len(group) == 1:
                self._record(group[0], {"status": failure.status, "reason": f"while timed: {failure.reason}"})
            else:  # one of them did it: each alone tells which
                for entry in left.values():
                    self._time(problem, [entry], verified)

    def _load(self, child: Child, entries: list[_Entry]) -> None:
        """Make sure that the child has the launches of what another one verified."""
        for entry in entries:
            if entry.index not in child.loaded:
                list(child.ask(self._request(entry), self.limits["timeout_seconds"]))
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
                **vars(entry.problem),
                "state": entry.state,
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
        self.progress.done(entry.key, f"{entry.problem.label} {entry.contestant['label']} {entry.state}")


def _read(readings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
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
    start = time.monotonic()
    journal = Journal(journal_path)
    try:
        with exclusive(candidates) as (uuid, lock):
            held = time.monotonic()
            current = Run(job, journal, uuid, lock)
            before = len(journal.records)
            current.measure_all()
        session = {
            "measured": len(journal.records) - before,
            "wall_seconds": round(time.monotonic() - held, 3),
            "waited_seconds": round(held - start, 3),
            "busy_seconds": round(current.busy_us / 1e6, 3),
            "children": current.children,
            "peak_memory_bytes": 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss,
            "fingerprint": dict(job.fingerprint),
            "code": job.code,
            **project_state(),
        }
        write(output, (journal.records[entry.key] for entry in current.entries), session)
    finally:
        journal.close()
    return session
