"""Whether a result is right: its errors against float64, and the bound they must keep."""

import math
from dataclasses import dataclass

from ladder.campaign import Problem
from ladder.devices import Errors
from ladder.units import ELEMENT_TYPES, Status

TF32_ROUNDOFF = 2.0**-11
"""An operand rounded to TF32's 10 explicit bits."""
COMPONENT_FACTOR = 3.0
FROBENIUS_FACTOR = 4.0


@dataclass(frozen=True)
class Verdict:
    """The outcome of a verification. Errors are None where the result cannot be compared (NaN)."""

    status: Status
    reason: str
    frobenius_error: float | None
    """`|C - R|_F / |R|_F`."""
    component_error: float | None
    """Largest `|C - R| / (|alpha| |A| |B| + |beta| |C|)` of an element."""
    component_bound: float


def roundoff(problem: Problem, tf32: bool) -> float:
    """The growth of the error with sqrt(K): unit roundoff of the accumulation, plus what rounded operands add."""
    return ELEMENT_TYPES[problem.element_type].unit_roundoff + (TF32_ROUNDOFF if tf32 else 0.0)


def judge(errors: Errors, problem: Problem, tf32: bool = False) -> Verdict:
    """The verdict on a result.

    The worst case of a sum of K products grows with K*u; rounding errors being as good as independent, it stays below a small
    multiple of sqrt(K)*u with probability next to one (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, SIAM J.
    Sci. Comput. 41(5), 2019), which is strict enough to notice a product left out or computed in TF32. The result's own rounding
    comes on top. Both the largest element's error and the Frobenius norm must keep their bound; the norm is compared with
    what it is for sums without cancellation (S/sqrt(K)) where C itself is smaller. A NaN, an infinity, an element not written or a write
    outside C fails whatever the errors.
    """
    element = ELEMENT_TYPES[problem.element_type]
    growth = math.sqrt(problem.k + 2)
    own = 2 * element.output_roundoff
    bound = COMPONENT_FACTOR * growth * roundoff(problem, tf32) + own
    frobenius = math.sqrt(errors.diff2 / errors.ref2) if errors.ref2 > 0 else (0.0 if errors.diff2 == 0 else math.inf)
    size = math.sqrt(max(errors.ref2, errors.scale2 / growth**2))
    frobenius_bound = (FROBENIUS_FACTOR * growth * roundoff(problem, tf32) + own) * size
    total = problem.m * problem.n
    reason = ""
    if errors.wild:
        reason = f"{errors.wild} of {total} elements are NaN or infinite, or were never written"
    elif errors.stray:
        reason = f"{errors.stray} elements outside C were overwritten"
    elif not errors.worst <= bound:
        reason = f"an element is off by {errors.worst:.3g} of |A||B|; at most {bound:.3g}"
    elif not math.sqrt(errors.diff2) <= frobenius_bound:
        reason = f"the Frobenius error is {math.sqrt(errors.diff2) / size:.3g}; at most {frobenius_bound / size:.3g}"
    measurable = not errors.wild
    return Verdict(
        status="incorrect" if reason else "correct",
        reason=reason,
        frobenius_error=frobenius if measurable else None,
        component_error=errors.worst if measurable else None,
        component_bound=bound,
    )
