"""Whether a result is correct: its errors against float64, the audits of timed launches, and the
bounds that they must keep.
"""

import math
from dataclasses import dataclass, replace

from ladder.core.types import ELEMENT_TYPES, Status
from ladder.devices.base import Audit, Errors
from ladder.devices.operands import FAST_DIGITS, exact_elements, place_in_c, whole
from ladder.model.problem import Problem

TF32_ROUNDOFF = 2.0**-11
"""The unit roundoff of an operand rounded to TF32's 10 explicit bits."""
COMPONENT_FACTOR = 3.0
FROBENIUS_FACTOR = 2.0
ROUNDINGS = 1.2
"""The most that C may be off by in the norm if its elements are narrower than the sums, in what
rounding the exact result once costs. A second rounding, as of sums over parts of K, makes it 1.4; a
result that is cut off has 2.
"""
CUT = 1 / 16
"""What tensor cores may add to that per product, in units of roundoff: each of K / 16 additions may
cut off a sum where a multiply-add rounds it.
"""
PROMOTED = 128
"""The products of 8 bits whose sums the threads add in FP32. Longer sums are `fast_accum`."""
INEXACT = "is not exact on whole numbers"
"""What the reason for a result says that has not all bits of a sum of whole numbers."""
ONE_SIDED = ("hilbert",)
"""Distributions whose rounding errors have one direction: each product is smaller than the sum so
far, which keeps less and less of it.
"""
AUDIT_FACTOR = 4.0
"""Rounding errors of a sum of K products have a standard deviation of about 0.3 sqrt(K) u in units
of the audit's scale. Among all rows and samples of a campaign, none is then expected beyond a
quarter of this.
"""


@dataclass(frozen=True)
class Verdict:
    """The outcome of a verification. Errors are None if they were not computed, or cannot be
    because of a NaN.
    """

    status: Status
    reason: str = ""
    frobenius_error: float | None = None
    """`|C - R|_F / |R|_F`."""
    component_error: float | None = None
    """Largest `|C - R| / (|alpha| |A| |B| + |beta| |C|)` of an element."""
    component_bound: float | None = None
    nan_at_alpha_0: bool = False
    """Whether C has NaN or infinities from A and B although alpha is 0, which is no error: see
    `is_open`.
    """
    sums_16_bit: bool = False
    """Whether only a launch that may add parts of K in 16 bits may have these errors."""


def is_open(problem: Problem) -> bool:
    """Return whether C may have NaN and infinities from A and B although alpha is 0.

    The reference BLAS does not read A and B then; its documents do not demand that of others.
    cuBLAS in float16 (13.1, on an H100) and OpenBLAS 0.3.31 on small matrices give NaN.
    """
    return problem.alpha == 0 and problem.distribution == "nonfinite"


def _growth(problem: Problem) -> float:
    """Return how rounding errors grow with K, in units of roundoff."""
    return problem.k + 2.0 if problem.distribution in ONE_SIDED else math.sqrt(problem.k + 2)


def _cut_off(problem: Problem, precision: str) -> tuple[float, float]:
    """Return what tensor cores cut off from products of 8 bits: where these have random signs, as a
    share of the sums, and where they have one sign, as a share of |A||B|.

    They cut off half a unit of a sum's `FAST_DIGITS` in the mean, and a sum so far is half of the
    sum in the mean.
    """
    if not ELEMENT_TYPES[problem.element_type].result:
        return 0.0, 0.0
    products = problem.k if precision == "fast_accum" else min(problem.k, PROMOTED)
    of_one = 2.0 ** (1 - FAST_DIGITS) / 4
    return math.sqrt(products) * of_one, products * of_one


def judge(errors: Errors, problem: Problem, precision: str = "", reduces: bool = False) -> Verdict:
    """Return the verdict on a result of which every element was compared.

    Of whole numbers, all orders of summation give the same bits, and an element whose row of A and
    column of B are whole must have them. Of the others both the largest error and the Frobenius
    norm must keep their bounds. The worst case of a sum of K products grows with K*u. But rounding
    errors are almost independent, so the error stays below a small multiple of sqrt(K)*u with
    probability close to one (Higham and Mary, A New Approach to Probabilistic Rounding Error
    Analysis, SIAM J. Sci. Comput. 41(5), 2019). Rounding the operands adds an error that does not
    grow: at most 2 u_tf32 |A||B|, and in the norm as much of what sums without cancellation have
    (S/sqrt(K)). The result's own rounding is relative to the result. If its elements are narrower
    than the sums, that is most of the error, and `ROUNDINGS` limits it, unless the launch `reduces`:
    then it may add parts of K in the elements' type, and need not be exact. Whatever its errors, a
    result fails with a NaN or an infinity that float64 does not have, a missing one, an unwritten
    element, or a write outside C. Of a `normwise` launch the norm alone counts, beside that of
    |A||B|: schemes that multiply sums of elements, as Strassen's, have no bound for an element
    (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 23.2.2). Of products of
    8 bits, tensor cores cut something off: `_cut_off`.
    """
    element = ELEMENT_TYPES[problem.element_type]
    growth, normwise = _growth(problem), precision == "normwise"
    unit, (walk, bias) = element.unit_roundoff, _cut_off(problem, precision)
    nan_at_alpha_0 = is_open(problem) and errors.wild > 0
    # the others must keep their bounds, that of the norm at least: the largest error is infinite
    if nan_at_alpha_0:
        errors = replace(errors, wild=0, worst=0.0)
    operands = 2 * TF32_ROUNDOFF if precision == "tf32" else 0.0
    bound = COMPONENT_FACTOR * growth * unit + operands + walk + bias + 2 * element.output_roundoff
    result = math.sqrt(errors.ref2)
    scale = math.sqrt(errors.scale2)
    size = scale if normwise else max(result, scale / growth)
    # what is cut off has the sign of its product, and so a bias where most have one
    lost = walk * size + (bias * result * result / scale if scale else 0.0)
    limit = (FROBENIUS_FACTOR * growth * unit + operands) * size + lost
    limit += 2 * element.output_roundoff * result
    off, once = math.sqrt(errors.diff2), math.sqrt(errors.rounded2)
    strict = limit
    if element.output_roundoff > element.unit_roundoff:
        sums = (FROBENIUS_FACTOR * growth + CUT * problem.k) * unit
        strict = math.hypot(ROUNDINGS * once, sums * size + lost)
    inexact = bool(exact_elements(problem)) and math.isinf(errors.worst)
    reduced = reduces and (inexact or off > strict)
    if not reduces:
        limit = min(limit, strict)
    place = place_in_c(problem, errors.where)
    reason = ""
    if errors.wild:
        reason = (
            f"{errors.wild} of {problem.batch * problem.m * problem.n} elements, {place} for one, are NaN or "
            "infinite, or are not where they should be"
        )
    elif errors.stray:
        reason = f"{errors.stray} elements outside C were overwritten"
    elif inexact and not reduced:
        reason = f"{place} {INEXACT}, of which all sums are"
    elif not errors.worst <= bound and not inexact and not normwise:
        reason = f"{place} is off by {errors.worst:.3g} of |A||B|; at most {bound:.3g}"
    elif not off <= limit and not inexact:
        reason = (
            f"the Frobenius error is {off / size:.3g}; at most {limit / size:.3g}, where rounding "
            f"the result costs {once / size:.3g}"
        )
    status: Status = "incorrect" if reason else "correct"
    reduced = reduced and not reason
    if errors.wild or math.isinf(errors.worst):
        return Verdict(status, reason, component_bound=bound, sums_16_bit=reduced)
    frobenius = off / result if result > 0 else (0.0 if off == 0 else math.inf)
    return Verdict(status, reason, frobenius, errors.worst, bound, nan_at_alpha_0, reduced)


def fault(audit: Audit, problem: Problem, precision: str = "") -> str:
    """Return what an audit of a timed launch found, or "".

    A row of C times a vector of random signs differs from the expected value by the errors of the
    row's elements. These are almost independent (except for `ONE_SIDED`), so their squares add up:
    the difference is at most `AUDIT_FACTOR` standard deviations of the row. On whole numbers, only
    the audit's own float64 sums are rounded, and an output that is narrower than the sums.
    """
    element = ELEMENT_TYPES[problem.element_type]
    unit, output = element.unit_roundoff, element.output_roundoff
    lost = sum(_cut_off(problem, precision)) + (TF32_ROUNDOFF if precision == "tf32" else 0.0)
    if whole(problem):
        output = output if output > unit else 0.0
        unit, lost = ELEMENT_TYPES["float64"].unit_roundoff, 0.0
    roundoff = _growth(problem) * unit + lost + output
    if audit.changed:
        return f"{audit.changed} elements of A and B were overwritten"
    if audit.stray:
        return f"{audit.stray} elements outside C were overwritten"
    # of a norm, a row may be off by more than its own size
    most = math.inf if precision == "normwise" else AUDIT_FACTOR * roundoff
    if not (audit.worst <= most and math.isfinite(audit.worst)):
        return f"a row of C is off by {audit.worst:.3g} of its size; at most {most:.3g}"
    return ""
