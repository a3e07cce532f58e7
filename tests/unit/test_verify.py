"""The verdict on one launch: right results pass in any order of summation and on any operands,
wrong ones do not.
"""

from dataclasses import replace

import numpy as np
import pytest
from host import checked, doing, right, summed
from ladder.core.types import DISTRIBUTIONS
from ladder.devices.operands import GUARD, exactly, scalars
from ladder.measuring.verify import judge
from ladder.model.problem import Problem
from unseen import CALLS, DEPTHS, fewer_bits, first_wide, slack, unseen


def scaled(p, total, c):
    """What becomes of C, in the element type."""
    alpha, beta = scalars(p)
    return alpha * total + beta * c if p.beta else alpha * total


def forward(p, a, b, c):
    """In the order of K."""
    with np.errstate(all="ignore"):
        c[:] = scaled(p, summed(p, a, b, range(p.k)), c)


def pairwise(p, a, b, c):
    """Sixteen products at a time, then in pairs."""
    with np.errstate(all="ignore"):
        parts = [summed(p, a, b, range(k, min(k + 16, p.k))) for k in range(0, p.k, 16)]
        while len(parts) > 1:
            parts = [sum(parts[at + 1 : at + 2], parts[at]) for at in range(0, len(parts), 2)]
        c[:] = scaled(p, parts[0], c)


ORDERS = {"forward": forward, "pairwise": pairwise}


def verdict(problem, compute, precision=""):
    return judge(checked(problem, compute), problem, precision)


CASES = [
    ((33, 17, 500), {}),
    ((64, 64, 64), {"alpha": -1.5, "beta": 0.5, "padding": 3}),
    ((1, 1, 1), {}),
    ((5, 3, 7), {"offset": 3}),
    ((33, 17, 50), {"element_type": "float64"}),
    ((1, 9, 2), {"beta": 1.0}),
    ((8, 8, 64), {"alpha": 0.0, "beta": 1.0}),
    ((8, 8, 64), {"alpha": 0.0}),
    ((9, 8, 7), {"padding": "1,4,2", "offset": "0,1,3", "beta": 0.5}),
]


@pytest.mark.parametrize(("shape", "given"), CASES)
@pytest.mark.parametrize("order", list(ORDERS))
def test_right_arithmetic_passes_with_any_factors_and_layout(shape, given, order):
    problem = Problem(*shape, **given)
    outcome = verdict(problem, ORDERS[order])
    assert (outcome.status, outcome.reason) == ("correct", "")
    assert outcome.component_error <= outcome.component_bound
    outcome = verdict(exactly(problem), ORDERS[order])
    assert (outcome.status, outcome.component_error) == ("correct", 0)


@pytest.mark.parametrize("k", [1, 300, 2048])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_right_arithmetic_passes_on_any_operands(distribution, k):
    problem = Problem(40, 24, k, distribution=distribution, beta=0.5)
    for order in ORDERS.values():
        outcome = verdict(problem, order)
        assert (outcome.status, outcome.reason) == ("correct", "")


OFF_BY_A_BIT = "c[{0}] = np.nextafter(c[{0}], np.float32(np.inf))"
"""A right result, but for the last bit of one element."""
OFF_BY = """
with np.errstate(all="ignore"):
    size = np.abs(a).astype(float) @ np.abs(b).astype(float)
    c[{1}] += ({0} * size)[{1}].astype(c.dtype)
"""
"""One but for elements that are off by a share of `|alpha||A||B|`."""


def test_of_mixed_what_is_whole_is_exact_and_the_rest_keeps_the_bound():
    problem = Problem(40, 24, 300, distribution="mixed")
    for place in ("0, 0", "39, 23"):
        outcome = verdict(problem, doing(OFF_BY_A_BIT.format(place)))
        element = "".join(f"[{index}]" for index in place.split(", "))
        reason = f"C{element} is not exact on whole numbers, of which all sums are"
        assert outcome.reason == reason
    for place in ("5, 0", "0, 16", "27, 5"):
        assert verdict(problem, doing(OFF_BY_A_BIT.format(place))).status == "correct"
    off_at_0 = doing(OFF_BY_A_BIT.format("0, 0"))
    assert verdict(replace(problem, alpha=0.3), off_at_0).status == "correct"
    assert "off by" in verdict(problem, doing(OFF_BY.format(1e-3, "5, 0"))).reason


WRONG = {
    "one element off": OFF_BY.format(1e-3, "5, 6"),
    "all elements off": OFF_BY.format(1e-4, "..."),
    "never written": "c[3, 4] = old[3, 4]",
    "columns in another order": "c[:] = c[:, ::-1].copy()",
    # the largest product of an element, and those beside it in other elements
    "a product left out": """
with np.errstate(all="ignore"):
    largest = np.nanargmax(np.abs(a[0] * b[:, 0]))
    c[:] = np.delete(a, largest, axis=1) @ np.delete(b, largest, axis=0)
""",
}


@pytest.mark.parametrize("fault", list(WRONG))
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_wrong_arithmetic_fails_on_any_operands(distribution, fault):
    outcome = verdict(Problem(40, 24, 300, distribution=distribution), doing(WRONG[fault]))
    assert outcome.status == "incorrect"
    assert outcome.reason


@pytest.mark.parametrize("value", ["np.nan", "np.inf", "-np.inf"])
def test_one_nan_or_infinity_never_passes(value):
    outcome = verdict(Problem(64, 64, 64), doing(f"c[63, 62] = {value}"))
    assert outcome.status == "incorrect"
    assert outcome.reason.startswith("1 of 4096 elements, C[63][62] for one, are NaN or infinite")
    assert outcome.frobenius_error is None


@pytest.mark.parametrize("value", ["np.nan", "np.inf", "-np.inf", "0.0"])
def test_a_special_value_must_be_the_right_one(value):
    compute = doing(f"c[np.isnan(c)] = {value}")
    outcome = verdict(Problem(64, 64, 300, distribution="nonfinite"), compute)
    assert outcome.status == ("correct" if value == "np.nan" else "incorrect")


@pytest.mark.parametrize("padding", [0, 5])
@pytest.mark.parametrize("offset", [0, 3])
def test_a_write_outside_c_never_passes(padding, offset):
    problem = Problem(16, 16, 16, padding=padding, offset=offset)
    end = 16 * problem.ldc
    between_rows = [16, end - problem.ldc + 16] if padding else []
    for place in (-GUARD - offset, -1, end, end + GUARD - 1, *between_rows):
        outcome = verdict(problem, doing(f"poke(c, {place}, 1)"))
        assert (outcome.status, outcome.reason) == (
            "incorrect",
            "1 elements outside C were overwritten",
        )


def narrow(bits):
    """Operands rounded to so many bits: 11 for TF32, 8 for bfloat16."""

    def compute(p, a, b, c):
        c[:] = scaled(p, (fewer_bits(a, bits) @ fewer_bits(b, bits)).astype(np.float32), c)

    return compute


@pytest.mark.parametrize("k", [16, 512, 4096, 16384])
def test_operands_rounded_to_tf32_pass_only_as_tf32_and_to_bfloat16_never(k):
    problem = Problem(64, 48, k)
    assert verdict(problem, narrow(11)).status == "incorrect"
    assert verdict(problem, narrow(11), "tf32").status == "correct"
    assert verdict(problem, narrow(8)).status == "incorrect"
    assert verdict(problem, narrow(8), "tf32").status == "incorrect"
    assert verdict(exactly(problem), narrow(11)).status == "incorrect"
    assert verdict(exactly(problem, "tf32"), narrow(11), "tf32").status == "correct"


PASSED_ALONE = {
    "float32": [
        (136, 4.9e-4, 4.9e-4),
        (266, 2e-3, 2e-3),
        (479, 7.8e-3, 7.8e-3),
        (2340, 0.15, 0.12),
    ],
    "TF32": [(72, 0.044, 0.12), (117, 0.088, 0.12), (256, 0.18, 0.12), (1287, 0.84, 0.25)],
    "float64": [(86, 9.1e-13, 0), (236, 3.6e-12, 0), (429, 1.5e-11, 0), (1751, 2.8e-10, 0)],
    "float16": [(47, 0.044, 0.0039), (134, 0.088, 0.0039), (272, 0.18, 0.016), (1280, 0.84, 0.12)],
}
"""By result, and for each of `DEPTHS`, what passes the bound on rounded numbers alone: the bound
itself in largest errors of a right result, an element that is off by a share of rms C, and a first
part of K whose operands are narrower.
"""


@pytest.mark.parametrize("k", [*DEPTHS[:-1], pytest.param(DEPTHS[-1], marks=pytest.mark.slow)])
@pytest.mark.parametrize("call", CALLS, ids=[call.name for call in CALLS])
def test_what_passes_the_bound_does_not_pass_the_launch_on_whole_numbers(call, k):
    bound, exact = unseen(call, k)
    honest, off, narrower = PASSED_ALONE[call.name][DEPTHS.index(k)]
    assert honest / 2 < slack(call, k) < 2 * honest
    assert off / 2 < bound.off < 2 * off
    assert narrower / 3 <= bound.narrower <= 3 * narrower
    assert min(bound.left_out, exact.left_out) == 0
    assert min(bound.narrower, exact.narrower) <= (
        0.04 if call.element_type == "float16" else 0.0005
    )


@pytest.mark.parametrize(("side", "k"), [(256, 4096), (1024, 16384)])
@pytest.mark.parametrize("call", CALLS, ids=[call.name for call in CALLS])
def test_in_a_whole_c_every_place_along_k_has_an_operand_that_narrower_ones_change(call, side, k):
    first = first_wide(call, side, k)
    assert first <= k // 64 if call.element_type == "float16" else first == 0


def test_no_rounding_is_held_to_be_relative_to_a_denormal_result():
    """Beside larger ones: it is the element farthest off, and as near as float32 can be."""
    outcome = verdict(Problem(33, 40, 16, distribution="scaled", alpha=2.0**-90), right)
    assert outcome.status == "correct", outcome.reason
