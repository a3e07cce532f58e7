"""The rounds of `ladder gate`: a kernel of two commits side by side, beside the base's own binary
again, in fresh processes; and the verdict on each pair.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ladder.core import clock, verdicts
from ladder.core.errors import MEASURE_AGAIN
from ladder.core.stats import between_processes
from ladder.measuring.protocol import Candidate, Judged
from ladder.measuring.session import Session
from ladder.measuring.supervisor import Failure
from ladder.model.campaign import Limits
from ladder.model.problem import Problem

ROLES = BASE, CONTROL, HEAD = "base", "control", "head"
"""The two commits, and the base a second time: the same files under another path, which a device
loads once more.
"""
ABSENT, COMPILED, CORRECT = "absent", "compiled", "correct"
"""Statuses of a side: the commit has no such kernel, or none with a header that can be used; it is
not verified; it is.
"""
FAILED, SLOWER, PASSED = "failed", "slower", "passed"
RESULTS = {FAILED: 1, SLOWER: 3, verdicts.AGAIN: MEASURE_AGAIN, PASSED: 0}
"""The results of a gate, the gravest first, with their exit codes."""
APART = REMOVED, UNCOMPARED = "removed", "not compared"
"""The verdicts on what only the base has, and on what a side does not compute."""
ERROR_RATE = 0.05
"""The most gates of unchanged code that call anything faster or slower, as a share."""
FEWEST, MOST = 6, 12
"""The processes that a verdict needs (see `fewest`), and those that are measured if the time
allows. The time alone decides how many, and never a result, so that the intervals keep their
confidence.
"""
RESOLUTION = 0.01
"""The widest interval, to either side, with which an undecided pair passes; or `by`, if that is
more.
"""
LIMITS = Limits(
    race=False, target=-1.0, min_samples=1, max_samples=12, max_seconds=0.3, timeout_seconds=60
)
"""No interval is narrower than a target below 0, so all take part in the same rounds."""
TOO_FEW = "try more --budget, fewer --kernels or --problems, or while nothing else runs"


@dataclass
class Side:
    """A kernel as one of the two commits has it, in one element type."""

    status: str
    """`ABSENT`, the compiler's, or the last verdict's."""
    reason: str = ""
    candidate: Candidate | None = None
    """None if nothing was compiled."""
    code: Sequence[Any] = ()
    """What decides all that it does: the binary's SHA-256 and its launches."""
    tensor_cores: bool = False

    def verify(self, judge: Callable[[Candidate], Judged]) -> bool:
        """Set the status by a session's verdict; return whether it is correct."""
        if self.candidate:
            try:
                verdict = judge(self.candidate)
                self.status, self.reason = verdict.status, verdict.reason
                self.tensor_cores |= verdict.tensor_cores
            except Failure as failure:
                self.status, self.reason = failure.status, failure.reason
        return self.status == CORRECT


@dataclass
class Pair:
    """A kernel of both commits on a problem."""

    kernel: str
    """The kernel's id, such as `cpu/03_blocked`."""
    element_type: str
    sides: dict[str, Side]
    """The `BASE`, the `CONTROL` and the `HEAD`. A side that fails on a problem fails there
    alone.
    """
    problem: Problem | None = None
    """None if the kernel is timed on none, as the sides say."""
    processes: list[Mapping[str, Sequence[float]]] = field(default_factory=list)
    """Of each process that counts, the times of each side by rounds, in microseconds."""
    known: Mapping[Candidate, tuple[float, int]] = field(default_factory=dict)
    """After a process, what a launch of each side and of the reference takes, in microseconds, and
    how often it is repeated in a sample: all sides as often.
    """

    orders: list[Sequence[Candidate]] = field(default_factory=list)
    """The orders of loading the sides that have not had their turn; that of the next is last."""
    form: tuple[str, bool] = ("nn", False)
    """That of its problems: their layout, and whether they are batches."""
    was: str = ""
    """The kernel's id in the base; the same unless it was renamed."""

    @property
    def open(self) -> bool:
        """Whether all sides are correct on the problem, so that they are timed."""
        correct = all(side.status == CORRECT for side in self.sides.values())
        return correct and self.problem is not None

    def time(self, session: Session, random: np.random.Generator) -> None:
        """Time all sides in the same rounds. Each order of loading them has its turn: by the order
        alone, all of a few processes could differ alike.

        What others disturbed does not count, nor samples of different lengths: the more launches a
        sample has, the more of a cache their results take from others.
        """
        roles = {side.candidate: role for role, side in self.sides.items() if side.candidate}
        if not self.orders:
            orders = list(itertools.permutations(roles))
            self.orders = [orders[place] for place in random.permutation(len(orders))]
        order = self.orders[-1]
        outcomes: dict[Candidate, Mapping[str, Any]] = {}
        assert self.problem
        session.time_group(
            self.problem,
            dict.fromkeys(order, any(side.tensor_cores for side in self.sides.values())),
            LIMITS,
            int(random.integers(2**32)),
            outcomes.__setitem__,
            together=True,
            known=self.known,
        )
        for candidate, outcome in outcomes.items():
            side = self.sides[roles[candidate]]
            side.status, side.reason = outcome["status"], outcome.get("reason") or ""
        if not self.open:
            return
        alike = len({outcome["repeats"] for outcome in outcomes.values()}) == 1
        if alike and not any(outcome["other_processes"] for outcome in outcomes.values()):
            self.orders.pop()
            self.processes.append(
                {roles[each]: outcome["samples_us"] for each, outcome in outcomes.items()}
            )
        us = {each: float(np.median(outcome["samples_us"])) for each, outcome in outcomes.items()}
        reference_us = float(np.median(outcomes[order[0]]["reference_us"]))
        usual = max(1, math.ceil(LIMITS.sample_us / reference_us))
        self.known = {each: (us[each], outcomes[order[0]]["repeats"]) for each in us}
        self.known |= {Candidate(session.reference): (reference_us, usual)}

    def ratio(self, role: str, confidence: float) -> tuple[float, float, float]:
        """Return how many times as fast as the base the head or the control is, with the ends of
        the interval between processes.

        The head is not compared with the mean of base and control: without a difference, the
        logarithm of the ratio of two times is symmetric about 0, whatever disturbs them. That of a
        mean is not.
        """
        ratios = []
        for times in self.processes:
            rounds = min(len(times[BASE]), len(times[role]))
            ratios.append(np.divide(times[BASE][:rounds], times[role][:rounds]))
        return between_processes(ratios, confidence)


@dataclass(frozen=True)
class Verdict:
    """What is said of a pair. The ratios are those of `Pair.ratio`."""

    result: str
    """What the pair makes of the gate: one of `RESULTS`."""
    verdict: str
    """`faster`, `slower`, `verdicts.SAME`, `verdicts.AGAIN`, `REMOVED`, `new`, or `not
    compared`.
    """
    reason: str = ""
    ratio: tuple[float, float, float] | None = None
    control: tuple[float, float, float] | None = None


def measure(
    session: Session,
    pairs: Sequence[Pair],
    seconds: float,
    random: np.random.Generator,
    report: Callable[[str], None],
) -> None:
    """Measure pairs in one fresh process after the other, for about so many seconds at most.

    Each pair gets `MOST` processes, or as many as a verdict needs if that is more. A process that
    does not count is made up for by another, up to twice as many in all.
    """
    end = clock.now() + seconds
    most = max(MOST, fewest(len(pairs)))
    for process in range(1, 2 * most + 1):
        begun = clock.now()
        session.renew()
        todo = [pair for pair in pairs if pair.open and len(pair.processes) < most]
        for place, pair in enumerate(todo, 1):
            report(f"process {process}, {place} of {len(todo)}: {pair.kernel}")
            pair.time(session, random)
        if not todo or 2 * clock.now() - begun > end:
            return


def fewest(count: int) -> int:
    """Return how many processes a verdict of a gate with `count` comparisons needs: at least so
    many that without a difference, all differ in the same direction no more often than the error
    rate allows, whatever the distribution of their times.
    """
    return max(FEWEST, math.ceil(1 + math.log2(count / ERROR_RATE)))


def judge(pair: Pair, count: int, by: float) -> Verdict:
    """Return the verdict on a pair of a gate with `count` of them, which lets a slowdown by the
    share `by` pass.

    The intervals hold together: each has the confidence `1 - ERROR_RATE / count` (Bonferroni's
    inequality; Dunn, Multiple comparisons among means, Journal of the American Statistical
    Association 56, 1961). So at most `ERROR_RATE` of gates of unchanged code call any pair faster
    or slower, however the pairs depend on each other.

    The verdict is `AGAIN` if the control is not as fast as the base, if too few processes count, or
    if the interval has `1 / (1 + by)` in it and is wider than `RESOLUTION`: such a gate could miss
    a slowdown.
    """
    if not pair.open:
        return _unmeasured(pair)
    if len(pair.processes) < (needed := fewest(count)):
        why = f"{len(pair.processes)} of {needed} undisturbed processes: {TOO_FEW}"
        return Verdict(verdicts.AGAIN, verdicts.AGAIN, why)
    ratio, control = (pair.ratio(role, 1 - ERROR_RATE / count) for role in (HEAD, CONTROL))
    (_, low, high), least, most = ratio, 1 / (1 + by), max(by, RESOLUTION)
    verdict, reason = verdicts.of(low, high), ""
    if verdicts.of(*control[1:]) != verdicts.SAME:
        verdict, reason = verdicts.AGAIN, "the base is not as fast as itself"
    elif low <= least <= high and math.sqrt(high / low) > 1 + most:
        verdict, reason = verdicts.AGAIN, f"the interval is wider than {most:.1%} to either side"
    result = PASSED
    if verdict == verdicts.AGAIN or (verdict == SLOWER and high < least):
        result = verdict
    return Verdict(result, verdict, reason, ratio, control)


def _unmeasured(pair: Pair) -> Verdict:
    """Return the verdict on a pair that is not timed. It fails the gate if the head has a kernel
    that is not correct, other than one that neither commit can run. What one commit has alone is
    `REMOVED` or `new`: nobody knows whether something else took its place.
    """
    statuses = {side.status for side in pair.sides.values()}
    if statuses == {COMPILED}:
        return Verdict(PASSED, verdicts.SAME, "the same machine code")
    base, control, head = (pair.sides[role] for role in ROLES)
    if base.status == head.status == CORRECT:
        why = f"the base's own binary {control.status}: {control.reason}"
        return Verdict(verdicts.AGAIN, verdicts.AGAIN, why)
    neither = statuses <= {"not_supported", "skipped"}
    passes = neither or head.status in (ABSENT, CORRECT)
    words = [
        ": ".join(filter(None, [f"{role} {side.status}", side.reason]))
        for role, side in pair.sides.items()
        if role != CONTROL
    ]
    verdict = "new" if base.status == ABSENT else UNCOMPARED
    verdict = REMOVED if head.status == ABSENT else verdict
    return Verdict(PASSED if passes else FAILED, verdict, "; ".join(words))
