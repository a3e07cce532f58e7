"""Judges and times what takes part in a try, in one worker that stays open from try to try."""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from ladder.core import clock
from ladder.core.errors import InputError
from ladder.devices.operands import exactly
from ladder.measuring import gauntlet, protocol
from ladder.measuring.contestants import Contestant
from ladder.measuring.diagnosis import Diagnosis
from ladder.measuring.protocol import Answer, Diagnosed, Judged, Request, Sampled, Trying
from ladder.measuring.supervisor import START_SECONDS, Child, Failure
from ladder.measuring.sweep import too_fast
from ladder.model.campaign import BASELINES, Limits
from ladder.model.problem import Problem

LIMITS = Limits(race=False, target=0.01, min_samples=6, max_samples=20, max_seconds=0.3, timeout_seconds=20)
"""Six samples are the fewest whose range is a 95 % interval of the median."""
BESIDE = 6
"""Configurations that are timed in the same rounds, beside the best rung and the last try."""

ONCE = "a race, or memory that nobody set: wrong once, and right when launched again"


class Bench:
    """A device of a kind, open in a worker. It outlives the lock on the device, and does nothing while this process does not hold one."""

    def __init__(self, kind: str, now: Callable[[str], None]) -> None:
        self.kind = kind
        self.now = now
        """Told what is being done."""
        self.uuid = ""
        """Of the GPU that is locked; to be set before `open`."""
        self.support: Path
        """What the pipeline itself runs there."""
        self.others = 0.0
        """Beside what was timed: the cores that other processes used, or how many computed on the GPU."""
        self._child: Child | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a worker, be it dead by now."""
        return self._child is not None

    def open(self, support: Path) -> None:
        """Start the worker, where it does not live. Raises `InputError` where its device or the support file cannot be used."""
        self.support = support
        self._alive()

    def kill(self) -> None:
        """End the worker, whatever it does."""
        if self._child:
            self._child.kill()

    def close(self) -> None:
        """Let the worker go."""
        if self._child:
            self._child.close()
            self._child = None

    def _alive(self) -> Child:
        if self._child and self._child.process.poll() is not None:
            self.close()
        if self._child is None:
            with Path(os.devnull).open() as nothing:
                self._child = Child(self.kind, self.uuid, self.support, nothing.fileno())
        return self._child

    def _failed(self, failure: Failure) -> None:
        if not failure.alive:
            self.close()

    def judge_and_time(
        self,
        mine: Sequence[Contestant],
        beside: Sequence[Contestant],
        problem: Problem,
        environment: Mapping[str, Any],
    ) -> None:
        """Set status and series of the contestants: the gauntlet, whole numbers of the problem's size, then timed rounds."""
        self.others = 0.0
        for number, one in enumerate(mine, 1):
            if any(other.status == "timeout" for other in mine[: number - 1]):
                one.status, one.reason = "skipped", "another did not end"  # each would be waited for as long
            else:
                self._judge(one, problem, f"checking {number} of {len(mine)}")
        right = [one for one in mine if one.status == "correct"]
        for start in range(0, len(right), BESIDE):
            group = right[start : start + BESIDE]
            if not self._time(group, beside, problem) and len(group) + len(beside) > 1:
                for one in group:  # one of them did it, or of what is beside: each alone tells which
                    one.status, one.reason, one.series = "correct", "", None
                    others = [replace(other, series=None) for other in one.beside]
                    self._time([one], (), problem)
                    one.beside = others
        for one in right:
            if one.series and (why := too_fast(environment, problem, one.series.samples, one.tensor_cores)):
                one.status, one.reason = "incorrect", why

    def _judge(self, one: Contestant, problem: Problem, doing: str) -> None:
        """The gauntlet, then a launch on whole numbers of the problem's size; what is wrong is looked at."""
        small = {gauntlet.describe(p): p for p in gauntlet.problems(problem.element_type, one.kernel.precision == "tf32")}
        whole, at = exactly(problem, one.kernel.precision == "tf32"), problem
        try:
            for answer in self._ask(protocol.RunGauntlet(problem.element_type, one.candidate())):
                if isinstance(answer, Trying):
                    at = small[answer.problem]
                    self.now(f"{doing}, {answer.problem}")
                elif isinstance(answer, Judged):
                    verdict = answer
            one.tensor_cores = verdict.tensor_cores
            if verdict.status == "correct":
                at = whole
                self.now(f"{doing}, {gauntlet.describe(at)}")
                self._present(whole, [one])
                (verdict,) = self._ask(protocol.Check(0))  # type: ignore[assignment]
            one.status, one.reason = verdict.status, verdict.reason
            if one.status == "incorrect":
                later = list(small.values())
                seen, guess = self._look(one, [at, *(later[later.index(at) + 1 :] if at in later else [])])
                if seen:
                    one.reason = (
                        f"on {gauntlet.describe(at)}: C[{seen.row}][{seen.column}] is {seen.got:.9g}; expected {seen.wanted:.9g} "
                        f"({seen.wrong} of {seen.elements} elements are wrong)"
                    )
                one.reason += f"\n  it looks like this: {guess}" if guess else f"\n  {verdict.reason}" if seen else ""
        except Failure as failure:
            self._failed(failure)
            one.status, one.reason = failure.status, f"on {gauntlet.describe(at)}: {failure.reason}"

    def _look(self, one: Contestant, problems: Sequence[Problem]) -> tuple[Diagnosis | None, str]:
        """What is seen on the first of several problems, and a guess at the mistake: what half of those that it gets wrong suggest.

        One alone suggests too much: a stride that is wrong meets the NaN between rows, whatever it was taken for.
        """
        seen: list[Diagnosis] = []
        for problem in problems:
            try:
                (answer,) = self._ask(protocol.Diagnose(problem, one.candidate()))
            except Failure as failure:
                self._failed(failure)
                if not failure.alive:
                    break
            else:
                assert isinstance(answer, Diagnosed)
                if not seen and not answer.diagnosis:
                    return None, ONCE if answer.right else ""
                seen += [Diagnosis(**answer.diagnosis)] if answer.diagnosis else []
        alike: dict[str, list[str]] = {}
        for guess in (guess for diagnosis in seen for guess in diagnosis.guesses):
            alike.setdefault(re.sub(r"\d+", "", guess), []).append(guess)
        most = max(alike.values(), key=len, default=[""])
        return (seen[0] if seen else None), (most[0] if 2 * len(most) >= len(seen) else "")

    def _ask(self, request: Request) -> Iterator[Answer]:
        return self._alive().ask(request, LIMITS.timeout_seconds)

    def _present(self, problem: Problem, contestants: Sequence[Contestant]) -> None:
        """Have the worker make the operands and the launches."""
        try:
            list(self._alive().ask(protocol.SetProblem(problem, BASELINES[self.kind][0]), START_SECONDS))
        except Failure as failure:
            if failure.status == "not_supported":  # the operands do not fit
                raise
            self._failed(failure)
            raise InputError(f"{problem.label}: the problem could not be set up: {failure.reason}") from None
        for index, one in enumerate(contestants):
            list(self._ask(protocol.Load(index, one.candidate())))

    def _time(self, group: Sequence[Contestant], beside: Sequence[Contestant], problem: Problem) -> bool:
        """Time configurations in the same rounds, beside others; False where the worker did not live through it."""
        others, where = [replace(one) for one in beside], f"on {gauntlet.describe(problem)}, while timed"
        contestants = [*group, *others]
        for one in group:
            one.beside = others
        self.now(f"timing {len(contestants)} beside {BASELINES[self.kind][0]}")
        try:
            self._present(problem, contestants)
            seed = time.time_ns() % 2**32
            start, used = clock.now(), self._used_by_others()
            for answer in self._ask(protocol.Time(list(range(len(contestants))), "warm", LIMITS, seed, 0.0)):
                if isinstance(answer, Sampled):
                    one, verdict = contestants[answer.index], answer.verdict
                    self.others = max(self.others, answer.other_processes or 0)
                    if verdict["status"] == "correct":
                        one.series = answer
                    else:
                        one.status, one.reason = verdict["status"], f"{where}: {verdict['reason']}"
            if self.kind == "cpu":
                self.others = max(self.others, (self._used_by_others() - used) / (clock.now() - start))
        except Failure as failure:
            self._failed(failure)
            for one in contestants:
                if one.series is None:
                    one.status, one.reason = failure.status, f"{where}: {failure.reason}"
            return False
        return True

    def _used_by_others(self) -> float:
        """Seconds of a core that all but the worker have used, other virtual machines too, since the system or the worker started."""
        assert self._child
        everyone, worker = psutil.cpu_times(), psutil.Process(self._child.process.pid).cpu_times()
        return (
            sum(everyone) - everyone.idle - everyone.iowait - everyone.guest - everyone.guest_nice - worker.user - worker.system
        )
