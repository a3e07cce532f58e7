"""A session with a device: verifies and times candidates in a worker, and replaces the worker if it
cannot go on.

The sweep, the confirmation and `ladder try` measure through sessions. Each decides itself what to
do about a candidate that fails.
"""

import resource
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial, reduce
from operator import or_
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from ladder.compiling.provenance import check_alike
from ladder.core.errors import InputError
from ladder.core.stats import median_interval
from ladder.core.surroundings import remarks
from ladder.devices.operands import exactly
from ladder.measuring import protocol
from ladder.measuring.protocol import (
    Answer,
    Candidate,
    Compared,
    Diagnosed,
    Found,
    Judged,
    Request,
    Sampled,
    Trying,
)
from ladder.measuring.supervisor import NO_FAULT, START_SECONDS, Child, Failure
from ladder.measuring.verdict import DIFFER, SAME, Bits, Difference
from ladder.model.baselines import BASELINES
from ladder.model.campaign import Limits
from ladder.model.hardware_limits import least_us
from ladder.model.problem import Problem
from ladder.storage.dataset_layout import READINGS, contents

T = TypeVar("T")

SOFTWARE = ("library", "libraries", "preloaded", "from_ld_library_path")
"""The attributes of `environment.json` that are not a device's own."""
WORKER_BYTES = 3_000_000_000
"""Host memory that a worker needs beside the operands of a problem, at most."""


def now() -> str:
    """Return the time of day in UTC, as rows have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Session:
    """The worker of a job or of `ladder try`, its operands, and the candidates that it has loaded.

    Requests raise `Failure` if the worker ends, is killed at its time limit, or refuses. They raise
    `InputError` if the machine keeps the worker from its work.
    """

    def __init__(
        self,
        kind: str,
        uuid: str,
        support: Path,
        environment: Mapping[str, Any],
        timeout_seconds: float,
        lock: int | None,
        library: str = "",
    ) -> None:
        self.kind, self.uuid, self.support, self.library = kind, uuid, support, library
        self.environment = environment
        """`environment.json`, which shows the times that the device cannot reach."""
        self.timeout_seconds = timeout_seconds
        """Seconds of silence after which a worker is killed."""
        self.lock = lock
        """The descriptor of the device's lock, which the worker holds too."""
        self.reference = BASELINES[kind][0]
        self.children = 0
        """How many workers were started."""
        self._busy_us = 0.0
        self.ahead = False
        """Whether the next worker starts while one measures. On a CPU it would disturb that."""
        self._child: Child | None = None
        self._next: Child | None = None
        self._problem: Problem | None = None
        self._loaded: set[Candidate] = set()

    def worker(self) -> Child:
        """Return the worker, a fresh one if the last has ended. Raises `InputError` if the device
        cannot be opened.
        """
        if self._child and self._child.process.poll() is not None:
            self.renew()
        if self._child is None:
            self.start()
            self._child, self._next = self._next, None
            assert self._child
            self._child.open(self.support)
            self.children += 1
            if self.environment:
                self._check_alike(self._child.attributes)
            if self.ahead and self.kind == "cuda":
                self.start()
        return self._child

    def start(self, started: Child | None = None) -> None:
        """Start the next worker, which leaves the device alone, unless it was `started` before."""
        kept = self._next or started
        self._next = kept or Child(self.kind, self.uuid, self.lock, self.library)

    def _check_alike(self, attributes: Mapping[str, Any]) -> None:
        """Raise `InputError` if the worker has other libraries, or another device, than
        `environment.json` says.

        GPUs of one model count as one device, and differ in detail. But one GPU must be as it was:
        its power limit, for example.
        """
        recorded = self.environment["attributes"]
        where = f"{self.environment['device']}/environment.json: attributes"
        if attributes.get("uuid") != recorded.get("uuid"):
            attributes = {name: attributes.get(name) for name in SOFTWARE}
            recorded = {name: recorded.get(name) for name in SOFTWARE}
        check_alike(attributes, recorded, where)

    def kill(self) -> None:
        """Kill the worker, whatever it does."""
        if self._child:
            self._child.kill()

    def end(self) -> None:
        """Let the worker end, and one that waits for its turn."""
        self.renew()
        if self._next:
            self._next.kill()
            self._next.close()
        self._next = None

    def renew(self) -> None:
        """Let the worker end; another is a fresh process, with another context and addresses."""
        if self._child:
            self._busy_us += self._child.busy_us
            self._child.close()
        self._child = None
        self._forget_problem()

    def retry(self, attempt: Callable[[], T]) -> T:
        """Return what an attempt returns. If the worker was killed from outside, try once more: the
        first time no kernel is to blame.

        Raises the attempt's `Failure`. If the worker could not go on, there is a fresh one by then.
        Raises `InputError` if none can be opened, because the device is lost, or if the system ran
        out of memory twice, of which the worker used no more than it needs: then no kernel is to
        blame either.
        """
        for last in (False, True):
            try:
                return attempt()
            except Failure as failure:
                needed = WORKER_BYTES + (self._problem.host_bytes if self._problem else 0)
                if not failure.alive:
                    self.renew()
                if last or not failure.killed:
                    if failure.starved and peak_memory_bytes() < needed:
                        raise InputError(
                            f"{self.uuid}: the system ran out of memory and killed the worker; "
                            f"{NO_FAULT}"
                        ) from None
                    self.worker()
                    raise
        raise AssertionError("the second attempt returns or raises")

    def set_problem(self, problem: Problem) -> None:
        """Make the operands of a problem, in a fresh worker if the one in which kernels have run
        cannot make them.

        Raises `Failure` if the operands do not fit, and `InputError` if a fresh worker cannot make
        them either.
        """
        for last in (False, True):
            worker = self.worker()
            if self._problem == problem:
                return
            self._forget_problem()
            try:
                list(worker.ask(protocol.SetProblem(problem, self.reference), START_SECONDS))
                self._problem = problem
            except Failure as failure:
                if failure.status == "not_supported":
                    raise
                self.renew()
                if last:
                    why = "; ".join([failure.reason, *remarks(worker.attributes)])
                    raise InputError(
                        f"{self.uuid}: {problem.label}: the problem could not be set up: {why}; "
                        f"{NO_FAULT}"
                    ) from None

    def load(self, problem: Problem, candidates: Iterable[Candidate]) -> None:
        """Make launches of candidates on a problem, where the worker has none."""
        self.set_problem(problem)
        for candidate in candidates:
            if candidate not in self._loaded:
                check_binary(candidate)
                list(self._ask(protocol.Load(candidate)))
                self._loaded.add(candidate)

    def run_gauntlet(
        self,
        candidate: Candidate,
        problem: Problem,
        report: Callable[[str], None] = lambda problem: None,
    ) -> Judged:
        """Return the verdict of the gauntlet in a problem's element type and layout, in batches if it
        is one. `report` gets each of its problems, in words, before the launch on it.
        """
        request = protocol.RunGauntlet(problem.element_type, candidate, *problem.form)

        def attempt() -> Judged:
            small = ""
            check_binary(candidate)
            try:
                for answer in self._ask(request):
                    if isinstance(answer, Trying):
                        small = answer.problem
                        report(small)
            except Failure as failure:
                raise failure.during(f"on {small}") from None
            assert isinstance(answer, Judged)
            return answer

        return self.retry(attempt)

    def check_integers(self, candidate: Candidate, problem: Problem) -> Judged:
        """Return the verdict on one launch on whole numbers of the problem's size."""

        def attempt() -> Judged:
            self.load(exactly(problem, candidate.precision), [candidate])
            (verdict,) = self._ask(protocol.Check(candidate))
            assert isinstance(verdict, Judged)
            return verdict

        return self.retry(attempt)

    def search(self, problem: Problem) -> str:
        """Return the label of the vendor's fastest algorithm that a search finds on a problem; ""
        for none.
        """

        def attempt() -> str:
            self.set_problem(problem)
            limit = max(self.timeout_seconds, START_SECONDS)
            (answer,) = self.worker().ask(protocol.Search(), limit)
            assert isinstance(answer, Found)
            return answer.configuration

        return self.retry(attempt)

    def diagnose(self, candidate: Candidate, problem: Problem) -> Diagnosed:
        """Return the diagnosis of a candidate on a problem that it gets wrong."""

        def attempt() -> Diagnosed:
            (answer,) = self._ask(protocol.Diagnose(problem, candidate))
            assert isinstance(answer, Diagnosed)
            return answer

        return self.retry(attempt)

    def compare_bits(self, candidate: Candidate, problem: Problem) -> Bits:
        """Return whether a candidate's results on a problem and its like are the same bits; a
        failure, which no other verdict rests on, leaves that open.
        """

        def attempt() -> Bits:
            check_binary(candidate)
            *_, answer = self._ask(protocol.CompareBits(problem, candidate))
            assert isinstance(answer, Compared)
            words = {name: DIFFER if each else SAME for name, each in answer.found.items()}
            differences = [Difference(**each) for each in answer.found.values() if each]
            return Bits(**words, differences=differences)

        try:
            return self.retry(attempt)
        except (Failure, InputError):  # such as too little memory: what was timed must be kept
            return Bits()

    def time_group(
        self,
        problem: Problem,
        candidates: Mapping[Candidate, bool],
        limits: Limits,
        seed: int,
        keep: Callable[[Candidate, dict[str, Any]], None],
        *,
        together: bool,
        state: str = "warm",
        best: Callable[[], float] = lambda: 0.0,
        known: Mapping[Candidate, tuple[float, int]] = MappingProxyType({}),
        round_seconds: float = 0.0,
    ) -> None:
        """Time candidates in the same rounds. `keep` gets each with its columns once they are
        final: its samples, or why it has none.

        A candidate that cannot be loaded is left out. If the worker then dies, hangs or refuses,
        each candidate without a final outcome is timed alone, and one that fails alone is to blame;
        a group of one is alone already. What is kept of a group that failed:

        - Unless `together`, all of it. An outcome is final as soon as it is there, beside others or
          alone.
        - If `together`, nothing, since candidates are compared by what they took in the same
          rounds: those that do not fail alone are timed
          together again. If a second group fails and none of it alone, its candidates share the
          failure.

        `candidates` says of each whether it may use the tensor cores, which decides what is too
        fast to be true. `best` returns that of
        `protocol.Time`. `known` says how many microseconds a launch of each takes, and of the
        reference, and how often it is repeated, if all that is known. `round_seconds` extends the
        usual time limit.
        """
        left, failures = list(candidates), 0
        seconds = self.timeout_seconds + round_seconds

        def finish(candidate: Candidate, outcome: dict[str, Any]) -> None:
            left.remove(candidate)
            keep(candidate, outcome)

        def attempt(members: Sequence[Candidate], discard: bool = False) -> Failure | None:
            """Time members in the same rounds; return why that failed. With `discard`, their
            outcomes do not count.
            """
            outcomes: dict[Candidate, dict[str, Any]] = {}

            def time() -> None:
                outcomes.clear()
                present = [member for member in members if member in left]
                if not present:  # all were done before the worker was killed
                    return
                everyone = (Candidate(self.reference), *present) if known else ()
                us = [known[each][0] for each in everyone]
                repeats = [known[each][1] for each in everyone]
                request = protocol.Time(present, state, limits, seed, best(), us, repeats)
                for candidate, outcome in self._time(problem, request, candidates, seconds):
                    if together:
                        outcomes[candidate] = outcome
                    else:
                        finish(candidate, outcome)

            try:
                self.retry(time)
            except Failure as failure:
                return failure
            for candidate, outcome in outcomes.items() if not discard else ():
                finish(candidate, outcome)
            return None

        for candidate in candidates:
            try:
                self.retry(partial(self.load, problem, [candidate]))
            except Failure as unloaded:
                finish(candidate, unloaded.outcome)
        while left:
            suspects = list(left)
            failure = attempt(suspects)
            if failure is None:
                return
            failures += 1
            for suspect in list(left):
                own = failure if len(suspects) == 1 else attempt([suspect], discard=together)
                if own:
                    finish(suspect, own.during("while timed").outcome)
            if failures > 1 and len(left) == len(suspects):
                for suspect in suspects:
                    finish(suspect, failure.during("while timed").outcome)

    def _time(
        self,
        problem: Problem,
        request: protocol.Time,
        tensor_cores: Mapping[Candidate, bool],
        seconds: float,
    ) -> Iterator[tuple[Candidate, dict[str, Any]]]:
        """Time candidates in the same rounds. Yields each when it is done. Not retried: some
        candidates may be done.
        """
        self.load(problem, request.candidates)
        began = now()
        for answer in self.worker().ask(request, seconds):
            if not isinstance(answer, Sampled):
                continue
            candidate = request.candidates[answer.index]
            columns = self._columns(answer, problem, tensor_cores[candidate])
            if columns["status"] == "correct":
                columns |= {"time": began, "race": request.limits.race}
            yield candidate, columns

    def summary(self) -> dict[str, Any]:
        """Return the facts about a job's session that are kept beside its measurements."""
        return {
            "busy_seconds": round(self._busy_us / 1e6, 3),
            "children": self.children,
            "peak_memory_bytes": peak_memory_bytes(),
        }

    def _forget_problem(self) -> None:
        self._problem = None
        self._loaded.clear()

    def _ask(self, request: Request) -> Iterator[Answer]:
        return self.worker().ask(request, self.timeout_seconds)

    def _columns(self, answer: Sampled, problem: Problem, tensor_cores: bool) -> dict[str, Any]:
        """Return the outcome of a timed candidate."""
        verdict = answer.verdict
        if verdict["status"] != "correct":
            return {**verdict, "reason": f"while timed: {verdict['reason']}"}
        series = answer.series
        least = least_us(self.environment, problem, tensor_cores)
        median = median_interval(series["samples"])[0]
        if median < least:
            why = (
                f"faster than the device: {median:.3g} us, where {least:.3g} us is the least it "
                "takes"
            )
            return {"status": "incorrect", "reason": why}
        return {
            **verdict,
            "samples_us": [round(value, 4) for value in series["samples"]],
            "reference_us": [round(value, 4) for value in series["reference"]],
            "repeats": series["repeats"],
            "stop": series["stop"],
            **columns_of(series["readings"]),
            "other_processes": answer.other_processes,
        }


def peak_memory_bytes() -> int:
    """Return the most memory that a worker of this process has used."""
    return 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def check_binary(candidate: Candidate) -> None:
    """Raise `InputError` if a candidate's binary is not the one that was compiled."""
    if candidate.path is None:
        return
    path = Path(candidate.binary)
    if not path.is_file() or contents([path]) != candidate.sha256:
        raise InputError(
            f"{path}: its sha256 is not the one in resources.csv; expected what was compiled. "
            f"Remove {path.parent} and run again"
        )


def columns_of(readings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a device's readings as columns: the median of each, and clock and throttle reasons of
    every sample.
    """

    def known(name: str) -> list[Any]:
        return [reading[name] for reading in readings if reading.get(name) is not None]

    medians = {name: median_interval(known(name))[0] if known(name) else None for name in READINGS}
    throttled = known("throttle_reasons")
    return medians | {
        "throttle_reasons": reduce(or_, throttled) if throttled else None,
        "samples_sm_clock_mhz": [reading.get("sm_clock_mhz") for reading in readings],
        "samples_throttle_reasons": [reading.get("throttle_reasons") for reading in readings],
    }
