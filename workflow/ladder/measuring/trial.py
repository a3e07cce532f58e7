"""One try of a kernel: each configuration runs the gauntlet and whole numbers and is timed;
incorrect results are diagnosed.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ladder.core.stats import paired_ratio
from ladder.core.types import ELEMENT_TYPES
from ladder.devices.operands import exactly
from ladder.measuring import gauntlet
from ladder.measuring.diagnosis import Diagnosis, dividing, likeliest
from ladder.measuring.protocol import Candidate, Judged
from ladder.measuring.session import Session
from ladder.measuring.supervisor import Failure
from ladder.model.campaign import Limits
from ladder.model.kernel import Configuration, Kernel
from ladder.model.kernel_file import device_names
from ladder.model.problem import Problem

LIMITS = Limits(
    race=False, target=0.01, min_samples=6, max_samples=20, max_seconds=0.3, timeout_seconds=20
)
"""Six samples are the fewest whose range is a 95 % interval of the median."""
GROUP = 6
"""Configurations that are timed in the same rounds, beside the best rung and the last try."""
INDICES = (
    "row-major, with leading dimensions, element (i, j) of A is A[i * lda + j], of B B[i * "
    "ldb + j], of C C[i * ldc + j]"
)
"""What the reason for an access outside of the operands ends with."""
ONCE = "a race, or memory that nobody set: wrong once, and right when launched again"
NOT_ASKED = Judged("correct", "")


@dataclass(eq=False)
class Entry:
    """A compiled configuration of the tried kernel, of the best rung, or of the last try, and its
    outcome.
    """

    kernel: Kernel
    configuration: Configuration
    binary: Path
    resource: Mapping[str, Any]
    """Its row of `resources.csv`."""
    status: str = "correct"
    reason: str = ""
    gauntlet: Judged = NOT_ASKED
    """What the gauntlet found."""
    samples: Mapping[str, Any] = field(default_factory=dict)
    """Columns of its samples, once they are taken."""
    beside: Sequence["Entry"] = ()
    """The entries that were timed in the same rounds."""

    @property
    def label(self) -> str:
        """The configuration's label, or the kernel's name if it has no parameters."""
        return label_of(self.kernel.name, self.configuration.label)

    @property
    def candidate(self) -> Candidate:
        """The candidate that the worker launches."""
        sha256 = self.resource["sha256"]
        path, label = str(self.kernel.path), self.configuration.label
        return Candidate(
            self.kernel.name, label, path, str(self.binary), sha256, self.kernel.precision
        )

    def ratio(self, other: "Entry | None" = None) -> tuple[float, float, float]:
        """Return the speedup over the reference, or over another entry of the same rounds, with the
        ends of its within-run interval.
        """
        times, others = (
            self.samples["samples_us"],
            other.samples["samples_us"] if other else self.samples["reference_us"],
        )
        rounds = min(len(times), len(others))
        return paired_ratio(others[:rounds], times[:rounds])


def label_of(kernel: str, configuration: str) -> str:
    """Return a configuration's label, or the kernel's name if it has no parameters."""
    return kernel if configuration == "-" else configuration


def draw_seed() -> int:
    """Return the seed of a try's order of launches and operands: another one each time, so that no
    launch always has the better place.
    """
    return time.time_ns() % 2**32


class Trial:
    """A try of configurations on a problem, beside others that are known to be correct."""

    def __init__(
        self,
        session: Session,
        problem: Problem,
        beside: Sequence[Entry],
        report: Callable[[str], None],
    ) -> None:
        self.session, self.problem, self.beside = session, problem, beside
        self.report = report
        """Called with the current step."""
        self.others = 0.0
        """While timed: the cores that other processes used, or how many of them computed on the
        GPU.
        """

    def run(self, entries: Sequence[Entry]) -> None:
        """Set the outcome of the entries: the gauntlet, whole numbers of the problem's size, then
        timed rounds.
        """
        for number, entry in enumerate(entries, 1):
            if any(other.status == "timeout" for other in entries[: number - 1]):
                # each could take the whole time limit
                entry.status, entry.reason = ("skipped", "another did not end")
            else:
                self._judge(entry, f"checking {number} of {len(entries)}")
        correct = [entry for entry in entries if entry.status == "correct"]
        for start in range(0, len(correct), GROUP):
            self._time(correct[start : start + GROUP])
        for entry in correct:
            if entry.status == "incorrect":
                diagnosis, guess, _ = self._diagnose(entry, [self.problem], [])
                entry.reason += f"\n  {diagnosis}" if diagnosis else ""
                entry.reason += f"\n  it looks like this: {guess}" if diagnosis and guess else ""

    def _judge(self, entry: Entry, doing: str) -> None:
        """Run the gauntlet, then launch on whole numbers of the problem's size. Diagnose an
        incorrect result.
        """
        tf32 = entry.kernel.precision == "tf32"
        asked = gauntlet.problems_for(
            entry.kernel, entry.configuration, device_names(self.session.environment)
        )
        small = {gauntlet.describe(problem): problem for problem in asked}
        at = self.problem

        def report(problem: str) -> None:
            nonlocal at
            at = small[problem]
            self.report(f"{doing}, {problem}")

        try:
            entry.gauntlet = verdict = self.session.run_gauntlet(
                entry.candidate, self.problem.element_type, report
            )
            if verdict.status == "correct":
                at = exactly(self.problem, tf32)
                self.report(f"{doing}, {gauntlet.describe(at)}")
                try:
                    verdict = self.session.check_integers(entry.candidate, self.problem)
                except Failure as failure:
                    raise failure.during(f"on {gauntlet.describe(at)}") from None
        except Failure as failure:
            entry.status, entry.reason = failure.status, failure.reason
            if re.search("misaligned.address", failure.reason, re.IGNORECASE):
                few = 16 // ELEMENT_TYPES[self.problem.element_type].size
                rows = ", ".join(f"{name} % {few} == 0" for name in ("lda", "ldb", "ldc"))
                entry.reason += (
                    "\n  load fewer elements at a time, or add to the header `needs: "
                    f"[alignment >= 16, {rows}]`"
                )
            elif re.search(
                "killed by signal 11|illegal (memory access|address)", failure.reason, re.IGNORECASE
            ):
                entry.reason += f"\n  {INDICES}"
            return
        entry.status, entry.reason = verdict.status, verdict.reason
        if entry.status == "incorrect":
            later = list(small.values())
            turn = later.index(at) if at in later else len(later)
            diagnosis, guess, needs = self._diagnose(entry, [at, *later[turn + 1 :]], later[:turn])
            if diagnosis:
                entry.reason = f"on {gauntlet.describe(at)}: {diagnosis}"
            entry.reason += (
                f"\n  it looks like this: {guess}"
                if guess
                else f"\n  {verdict.reason}"
                if diagnosis
                else ""
            )
            if needs:
                entry.reason += (
                    f"\n  only other sizes are wrong: check bounds, or add to the header `{needs}`"
                )

    def _diagnose(
        self, entry: Entry, problems: Sequence[Problem], before: Sequence[Problem]
    ) -> tuple[Diagnosis | None, str, str]:
        """Return what is found on the first of several problems, the likeliest mistakes, and
        `needs`.

        The `needs` allow the problems that are correct, as those `before` are, and no other.
        """
        diagnoses: list[Diagnosis] = []
        first: Diagnosis | None = None
        wrong, right = [problems[0]], list(before)
        for problem in problems:
            try:
                answer = self.session.diagnose(entry.candidate, problem)
            except Failure as failure:
                if not failure.alive:
                    break
            else:
                if problem is problems[0] and not answer.diagnosis and answer.right:
                    return None, ONCE, ""
                (right if answer.right else wrong).append(problem)
                diagnosis = Diagnosis(**answer.diagnosis) if answer.diagnosis else None
                if problem is problems[0]:
                    first = diagnosis
                elif diagnosis:
                    diagnoses.append(diagnosis)
        return first, likeliest(first, diagnoses), dividing(wrong, right)

    def _time(self, group: Sequence[Entry]) -> None:
        """Time configurations in the same rounds, beside others."""
        others = [replace(entry) for entry in self.beside]
        for entry in group:
            entry.beside = others
        entries = {entry.candidate: entry for entry in [*group, *others]}
        where = f"on {gauntlet.describe(self.problem)}, "

        def keep(candidate: Candidate, outcome: Mapping[str, Any]) -> None:
            entry = entries[candidate]
            self.others = max(self.others, outcome.get("other_processes") or 0)
            if outcome["status"] == "correct":
                entry.samples = outcome
            else:
                entry.status, entry.reason = outcome["status"], where + outcome["reason"]

        self.report(f"timing {len(entries)} beside {self.session.reference}")
        # those beside were verified when they were measured
        flags = {
            candidate: entry.gauntlet.tensor_cores or entry in others
            for candidate, entry in entries.items()
        }
        self.session.time_group(self.problem, flags, LIMITS, draw_seed(), keep, together=True)
