"""How far a result may be off and pass: by the bound on rounded numbers alone, and with the launch
on whole numbers besides.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from host import buffers
from ladder.devices.base import Errors
from ladder.devices.operands import TF32_DIGITS, exact_mask, exactly, inside, places, whole
from ladder.measuring.verify import Verdict, judge
from ladder.model.problem import Problem

DEPTHS = (4096, 16384, 65536, 1048576)
"""K."""
SIDE, WHOLE = 16, 4096
"""Rows and columns that are computed, and those of the C of which they are a part: one wrong
element is little in the norm of that.
"""
TRIALS = 100
"""Products that are left out, each of another element, one at a time."""
AT_ONCE = 256
"""Places along K whose products lie in memory together."""
PARTS = [2.0**exponent for exponent in range(-12, 1)]
"""Of K, from its beginning."""


@dataclass(frozen=True)
class Call:
    """A kind of result, and the significant bits of the next narrower operands."""

    name: str
    element_type: str
    bits: int

    @property
    def tf32(self) -> bool:
        """Whether operands may be rounded to TF32."""
        return self.name == "TF32"

    @property
    def precision(self) -> str:
        """As a header names it."""
        return "tf32" if self.tf32 else ""


CALLS = [
    Call("float32", "float32", TF32_DIGITS),
    Call("TF32", "float32", 8),
    Call("float64", "float64", 24),
    Call("float16", "float16", 8),
]


@dataclass(frozen=True)
class Unseen:
    """What passes in one launch, as a configuration makes one on whole numbers of a problem's size;
    `first_wide` says it of a larger C.
    """

    off: float
    """What one element may be off by, as a share of the root mean square of C, to a factor of
    2^(1/4).
    """
    left_out: float
    """Of the products that are not 0, the share of which one may be left out of one element."""
    narrower: float
    """The largest of `PARTS` in which operands may be narrower."""


def fewer_bits(values: Any, bits: int) -> Any:
    """Values rounded to so many significant bits, ties to even."""
    fraction, exponent = np.frexp(np.asarray(values, np.float64))
    return np.ldexp(np.round(np.ldexp(fraction, bits)), exponent - bits)


class _Launch:
    def __init__(self, call: Call, problem: Problem) -> None:
        self.call, self.problem = call, problem
        drawn = zip(buffers(problem)[:2], places(problem)[:2], strict=True)
        self.a, self.b = (inside(buffer, place).astype(np.float64) for buffer, place in drawn)
        self.product, self.scale = self.a @ self.b, np.abs(self.a) @ np.abs(self.b)

    def _rounded(self, result: Any) -> Any:
        with np.errstate(over="ignore"):
            return result.astype(self.problem.element_type).astype(np.float64)

    def verdict(self, wrong: Any, alone: bool = False) -> Verdict:
        """That on a result which is off by so much, before it is rounded, as all of C; `alone`: as
        a part of one that is right.
        """
        reference = self._rounded(self.product) if whole(self.problem) else self.product
        diff = np.abs(self._rounded(self.product + wrong) - reference)
        times = (WHOLE / SIDE) ** 2 if alone else 1
        share = np.where(exact_mask(self.problem) & (diff > 0), np.inf, diff / self.scale)
        where = int(np.argmax(share))
        errors = Errors(
            diff2=float(np.sum(diff**2)),
            ref2=times * float(np.sum(reference**2)),
            scale2=times * float(np.sum(self.scale**2)),
            worst=float(share.flat[where]),
            where=where,
            wild=0,
            stray=0,
            rounded2=times * float(np.sum((self._rounded(self.product) - reference) ** 2)),
        )
        return judge(errors, self.problem, "tf32" if self.call.tf32 else "")

    def _passes(self, i: int, j: int, value: float) -> bool:
        wrong = np.zeros_like(self.product)
        wrong[i, j] = value
        return self.verdict(wrong, alone=True).status == "correct"

    def unseen(self) -> Unseen:
        size = float(np.sqrt(np.mean(self.product**2)))
        off = [
            share for share in 2.0 ** np.arange(-60, 8, 0.25) if self._passes(3, 5, share * size)
        ]
        random, left_out = np.random.default_rng(self.problem.k), []
        while len(left_out) < TRIALS:
            i, j, k = *random.integers(SIDE, size=2), random.integers(self.problem.k)
            if product := self.a[i, k] * self.b[k, j]:
                left_out.append(self._passes(i, j, -product))
        narrow_a, narrow_b = (fewer_bits(values, self.call.bits) for values in (self.a, self.b))
        narrower = [0.0]
        for part in PARTS:
            first = round(part * self.problem.k)
            wrong = narrow_a[:, :first] @ narrow_b[:first] - self.a[:, :first] @ self.b[:first]
            if self.verdict(wrong).status == "correct":
                narrower.append(part)
        return Unseen(max(off, default=0.0), float(np.mean(left_out)), max(narrower))

    def in_order(self) -> Any:
        """The product as a right kernel has it that adds one term after another, in the type that
        sums are made in.
        """
        wide = np.float64 if self.call.element_type == "float64" else np.float32
        a, b = (
            (fewer_bits(values, TF32_DIGITS) if self.call.tf32 else values).astype(wide)
            for values in (self.a, self.b)
        )
        total = np.zeros_like(self.product, wide)
        for k in range(0, self.problem.k, AT_ONCE):
            terms = a.T[k : k + AT_ONCE, :, None] * b[k : k + AT_ONCE, None, :]
            total = np.add.reduce(np.concatenate([total[None], terms]))
        return total.astype(np.float64)


def unseen(call: Call, k: int) -> tuple[Unseen, Unseen]:
    """What passes the bound on rounded numbers, and what passes the launch on whole ones."""
    problem = Problem(SIDE, SIDE, k, element_type=call.element_type)
    return _Launch(call, problem).unseen(), _Launch(call, exactly(problem, call.precision)).unseen()


def slack(call: Call, k: int) -> float:
    """How many times the largest error of a right result fits into the bound on rounded numbers."""
    launch = _Launch(call, Problem(SIDE, SIDE, k, element_type=call.element_type))
    verdict = launch.verdict(launch.in_order() - launch.product)
    assert verdict.component_bound and verdict.component_error, verdict
    return verdict.component_bound / verdict.component_error


def first_wide(call: Call, side: int, k: int) -> int:
    """The first place along K at which the launch on whole numbers shows narrower operands, in a C
    of so many rows and columns.
    """
    problem = exactly(Problem(side, side, k, element_type=call.element_type), call.precision)
    a, b = (
        inside(buffer, place)
        for buffer, place in zip(buffers(problem)[:2], places(problem)[:2], strict=True)
    )
    some = [values[:, :side] != fewer_bits(values[:, :side], call.bits) for values in (a, b.T)]
    return int(np.argmax(some[0].any(axis=0) | some[1].any(axis=0)))
