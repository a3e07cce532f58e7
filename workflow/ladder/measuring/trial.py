"""One try of a kernel: each configuration runs the gauntlet and whole numbers and is timed;
incorrect results are diagnosed.
"""

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ladder.compiling.compile import Resource
from ladder.core import clock
from ladder.core.stats import median_interval
from ladder.core.types import ELEMENT_TYPES
from ladder.devices.operands import exactly
from ladder.measuring import gauntlet
from ladder.measuring.diagnosis import Diagnosis, dividing, likeliest
from ladder.measuring.protocol import Candidate, Judged
from ladder.measuring.session import Session
from ladder.measuring.supervisor import Failure
from ladder.measuring.verdict import Bits, Wrong
from ladder.model.campaign import Limits
from ladder.model.kernel import Configuration, Kernel
from ladder.model.kernel_file import device_names
from ladder.model.problem import Problem

LIMITS = Limits(
    race=False, target=0.01, min_samples=6, max_samples=20, max_seconds=0.3, timeout_seconds=20
)
"""Six samples are the fewest whose range is a 95 % interval of the median."""
ANY = 1e9
"""How far the interval of fewer samples reaches, as a factor: it says nothing."""
GROUP = 8
"""Configurations that are timed in the same rounds, beside the best rung and the last try."""
SIZE = {"cuda": 4096, "cpu": 256}
"""The size of the square that a kernel is tried on by default."""
RUNG, LAST = "rung", "last"
"""What is timed beside the tried kernel: the best rung, and the last correct try."""
AFTER_TIMEOUT, WITHIN_BUDGET = "after the timeout", "within the budget"
"""Why a configuration was not tried."""
ONCE = "a race, or memory that nobody set: wrong once, and right when launched again"
VERIFIED = Judged("correct", "", tensor_cores=True)
"""Of what is timed beside the tried kernel: it was verified when it was measured."""


@dataclass(eq=False)
class Entry:
    """A configuration of the tried kernel, of the best rung or of the last try, and its outcome."""

    kernel: Kernel
    configuration: Configuration
    resource: Resource
    """Its row of `resources.csv`."""
    binary: Path
    status: str
    """That of `resource` until it has run."""
    reason: str = ""
    wrong: Wrong | None = None
    """The first incorrect element."""
    guess: str = ""
    """The mistake that an incorrect result looks like."""
    needs: str = ""
    """The `needs` that would exclude what it does not compute."""
    gauntlet: Judged = VERIFIED
    """What the gauntlet found."""
    samples: Mapping[str, Any] = field(default_factory=dict)
    """Columns of its samples, once they are taken."""
    bits: Bits | None = None
    """Of the fastest: whether its results are the same bits."""
    beside: Mapping[str, "Entry"] = field(default_factory=dict)
    """The `RUNG` and the `LAST` try, if they were timed in the same rounds."""

    @property
    def label(self) -> str:
        """The configuration's label, or the kernel's name if it has no parameters."""
        label = self.configuration.label
        return self.kernel.name if label == "-" else label

    @property
    def candidate(self) -> Candidate:
        """The candidate that the worker launches."""
        return Candidate(
            self.kernel.name,
            self.configuration.label,
            str(self.kernel.path),
            str(self.binary),
            self.resource.sha256,
            self.kernel.precision,
        )

    def ratio(self, other: "Entry | None" = None) -> tuple[float, float, float]:
        """Return the speedup over the reference, or over another entry of the same rounds, with the
        ends of its within-run interval.
        """
        times = self.samples["samples_us"]
        others = other.samples["samples_us"] if other else self.samples["reference_us"]
        rounds = min(len(times), len(others))
        return interval_of(np.divide(others[:rounds], times[:rounds]))


def interval_of(samples: ArrayLike) -> tuple[float, float, float]:
    """Return the median of samples and the ends of its within-run interval. A launch that is much
    slower than the reference has one sample, which leaves the interval open: see `ANY`.
    """
    value, low, high = map(float, median_interval(samples))
    few = np.size(samples) < LIMITS.min_samples
    return (value, value / ANY, value * ANY) if few else (value, low, high)


def draw_seed() -> int:
    """Return the seed of a try's order of launches and operands: another one each time, so that no
    launch always has the better place.
    """
    return time.time_ns() % 2**32


@dataclass
class Trial:
    """A try of configurations on a problem, beside others that are known to be correct."""

    session: Session
    problem: Problem
    entries: Sequence[Entry]
    beside: Callable[[], Mapping[str, Entry | None]]
    """Returns the `RUNG` and the `LAST` try, as far as there are such. Asked before times are
    taken.
    """
    report: Callable[[str], None]
    """Called with the current step."""
    judged: dict[Candidate, Judged]
    """What the gauntlet found of candidates that it found correct: it is asked once, whatever the
    problems.
    """
    deadline: float = math.inf
    """The time of `clock.now` from which on no other configuration is begun."""
    others: float = 0.0
    """While timed: the cores that other processes used, or how many of them computed on the GPU."""

    @property
    def timed(self) -> list[Entry]:
        """The correct entries, the fastest first."""
        correct = [entry for entry in self.entries if entry.status == "correct"]
        return sorted(correct, key=lambda entry: -entry.ratio()[0])

    def run(self) -> None:
        """Set the outcome of the entries: the gauntlet, whole numbers of the problem's size, then
        timed rounds; then the bits of the fastest.
        """
        for number, entry in enumerate(self.entries, 1):
            if any(other.status == "timeout" for other in self.entries):
                # each could take the whole time limit
                entry.status, entry.reason = "skipped", AFTER_TIMEOUT
            elif clock.now() >= self.deadline:
                entry.status, entry.reason = "skipped", WITHIN_BUDGET
            else:
                self._judge(entry, f"checking {number} of {len(self.entries)}")
        correct = [entry for entry in self.entries if entry.status == "correct"]
        for start in range(0, len(correct), GROUP):
            self._time(correct[start : start + GROUP])
        for entry in correct:
            if entry.status == "incorrect":
                diagnosis, guess, _ = self._diagnose(entry, [self.problem], [])
                if diagnosis:
                    entry.reason += f"\n  {diagnosis}"
                    entry.guess = guess
        if (timed := self.timed) and clock.now() < self.deadline:
            self.report("comparing bits")
            timed[0].bits = self.session.compare_bits(timed[0].candidate, self.problem)

    def _judge(self, entry: Entry, doing: str) -> None:
        """Run the gauntlet, then launch on whole numbers of the problem's size. Diagnose an
        incorrect result.
        """
        small = gauntlet.problems_for(
            entry.kernel, entry.configuration, device_names(self.session.environment)
        )
        described = {gauntlet.describe(problem): problem for problem in small}
        at = self.problem

        def report(problem: str) -> None:
            nonlocal at
            at = described[problem]
            self.report(f"{doing}, {problem}")

        where = ""  # the gauntlet's failures name their problem
        try:
            verdict = entry.gauntlet = self.judged.get(
                entry.candidate
            ) or self.session.run_gauntlet(entry.candidate, self.problem, report)
            if verdict.status == "correct":
                self.judged[entry.candidate] = verdict
                at = exactly(self.problem, entry.kernel.precision)
                where = f"on {gauntlet.describe(at)}: "
                self.report(f"{doing}, {gauntlet.describe(at)}")
                verdict = self.session.check_integers(entry.candidate, self.problem)
        except Failure as failure:
            entry.status, entry.reason = failure.status, where + failure.reason
            if re.search("misaligned.address", entry.reason, re.IGNORECASE):
                few = 16 // ELEMENT_TYPES[self.problem.element_type].size
                rows = ", ".join(f"{name} % {few} == 0" for name in ("lda", "ldb", "ldc"))
                entry.needs = f"needs: [alignment >= 16, {rows}]"
            return
        entry.status, entry.reason = verdict.status, verdict.reason
        if entry.status == "incorrect":
            turn = small.index(at) if at in small else len(small)
            diagnosis, entry.guess, entry.needs = self._diagnose(
                entry, [at, *small[turn + 1 :]], small[:turn]
            )
            if diagnosis:
                entry.reason = f"on {gauntlet.describe(at)}: {diagnosis}"
            if diagnosis and not entry.guess:
                entry.reason += f"\n  {verdict.reason}"

    def _diagnose(
        self, entry: Entry, problems: Sequence[Problem], before: Sequence[Problem]
    ) -> tuple[Diagnosis | None, str, str]:
        """Return what is found on the first of several problems, the likeliest mistakes, and
        `needs`.

        The `needs` allow the problems that are correct, as those `before` are, and no other.
        """
        found: dict[Problem, Diagnosis] = {}
        wrong, right = [problems[0]], list(before)
        for problem in problems:
            try:
                answer = self.session.diagnose(entry.candidate, problem)
            except Failure as failure:
                if not failure.alive:
                    break
                continue
            if answer.diagnosis:
                found[problem] = Diagnosis(**answer.diagnosis)
            elif answer.right and problem is problems[0]:
                return None, ONCE, ""
            (right if answer.right else wrong).append(problem)
        first = found.pop(problems[0], None)
        if first:
            which = f", matrix {first.matrix}" if problems[0].batched else ""
            entry.wrong = Wrong(
                gauntlet.describe(problems[0]) + which,
                first.row,
                first.column,
                first.got,
                first.wanted,
                first.wrong,
                first.elements,
            )
        return first, likeliest(first, list(found.values())), dividing(wrong, right)

    def _time(self, group: Sequence[Entry]) -> None:
        """Time configurations in the same rounds, beside others."""
        beside = {role: replace(entry) for role, entry in self.beside().items() if entry}
        for entry in group:
            entry.beside = beside
        entries = {entry.candidate: entry for entry in [*group, *beside.values()]}

        def keep(candidate: Candidate, outcome: Mapping[str, Any]) -> None:
            entry = entries[candidate]
            self.others = max(self.others, outcome.get("other_processes") or 0)
            entry.status = outcome["status"]
            if entry.status == "correct":
                entry.samples = outcome
            else:
                entry.reason = f"on {gauntlet.describe(self.problem)}, {outcome['reason']}"

        self.report(f"timing {len(entries)} beside {self.session.reference}")
        tensor_cores = {
            candidate: entry.gauntlet.tensor_cores for candidate, entry in entries.items()
        }
        self.session.time_group(
            self.problem, tensor_cores, LIMITS, draw_seed(), keep, together=True
        )
