"""What the audit of a timed launch finds, by a vector of random signs: on samples of one launch and
of several, each on other rows of B.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from host import checked, doing, held, host, launch, right, summed
from ladder.core.types import LAYOUTS
from ladder.devices.operands import BOUND, TF32_DIGITS, exactly, places
from ladder.measuring.verify import fault, judge
from ladder.model.problem import Problem
from unseen import fewer_bits

PROBLEMS = [
    Problem(33, 40, 256),
    Problem(17, 24, 100, alpha=-1.3, beta=0.7, padding="3,0,5", offset="2,1,3"),
    Problem(17, 24, 100, alpha=-1.3, beta=0.7, padding="3,0,5", offset="2,1,3", layout="tn"),
    Problem(33, 40, 256, padding="0,1,0", layout="nt"),
    Problem(24, 17, 90, padding=1, beta=0.7, distribution="normal", layout="tt"),
    Problem(16, 16, 64, element_type="float64"),
    Problem(30, 20, 128, distribution="normal"),
    Problem(30, 20, 128, distribution="positive", beta=1.0),
    Problem(60, 20, 9, alpha=0.0, beta=0.7, distribution="nonfinite"),
    Problem(20, 30, 90, distribution="scaled"),
    Problem(20, 30, 90, distribution="denormal"),
    Problem(20, 30, 90, distribution="denormal", element_type="float64"),
    Problem(20, 30, 90, distribution="huge"),
    Problem(20, 30, 90, distribution="huge", element_type="float64"),
]
ROUNDS = 3


OFF = "a row of C is off by"


def audits_of(problem, compute, times=1, rounds=ROUNDS):
    """The audits of some rounds, each on operands of its own."""
    with held(problem):
        sample = host().sample(launch(host(), compute), times)
        return [host().time_round([sample], False, seed)[0].audit for seed in range(rounds)]


def faults_of(problem, compute, times=1, rounds=ROUNDS):
    """What these find."""
    return [fault(audit, problem) for audit in audits_of(problem, compute, times, rounds)]


def assert_always_found(message, messages):
    assert all(message in found for found in messages), messages


def rounded(p, a, b, c):
    """In the element type, from the last product to the first."""
    kind, total = a.dtype.type, summed(p, a, b, reversed(range(p.k)))
    c[:] = (kind(p.alpha) * total if p.alpha else 0) + (kind(p.beta) * c if p.beta else 0)


@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize(
    "problem",
    PROBLEMS,
    ids=lambda problem: f"{problem.label} {problem.element_type} {problem.distribution}",
)
def test_right_results_have_no_fault(problem, times):
    assert faults_of(problem, rounded, times, rounds=20) == [""] * 20


def test_a_long_sum_of_ever_smaller_products_loses_the_last_of_them():
    def ascending(p, a, b, c):
        c[:] = summed(p, a, b, range(p.k))

    problem = Problem(24, 20, 16384, distribution="hilbert")
    assert faults_of(problem, ascending) == [""] * ROUNDS
    assert_always_found(OFF, faults_of(problem, doing(WRONG_ELEMENT)))


@pytest.mark.parametrize("alpha", [1.0, 1.3])
def test_results_on_whole_numbers_have_none(alpha):
    problem = Problem(40, 30, 500, distribution="integers", alpha=alpha, beta=0.7)
    assert faults_of(problem, rounded) == [""] * ROUNDS
    assert faults_of(exactly(problem), right) == [""] * ROUNDS


def tf32(p, a, b, c):
    """With operands that are rounded."""
    right(p, *(fewer_bits(matrix, TF32_DIGITS).astype(matrix.dtype) for matrix in (a, b)), c)


def test_rounding_of_tf32_is_no_fault_of_what_says_so_and_one_of_what_does_not():
    problem = Problem(32, 32, 512)
    audits = audits_of(problem, tf32)
    assert all(fault(audit, problem) for audit in audits)
    assert not any(fault(audit, problem, "tf32") for audit in audits)
    assert not any(fault(audit, problem, "normwise") for audit in audits)
    assert fault(replace(audits[0], worst=np.nan), problem, "normwise")
    # on whole numbers it is found however small the error is
    assert_always_found(OFF, faults_of(exactly(Problem(40, 30, 500)), tf32))


WRONG_ELEMENT = "c[-1, 2] *= 1.02"
LOST_PRODUCT = "products = a[5] * b[:, 7]; c[5, 7] -= p.alpha * products[np.abs(products).argmax()]"
NOT_WRITTEN = "c[3, 4] = old[3, 4]"
OPERANDS, OUTSIDE = "elements of A and B were overwritten", "1 elements outside C were overwritten"
FAULTS = {
    WRONG_ELEMENT: OFF,
    LOST_PRODUCT: OFF,
    NOT_WRITTEN: OFF,
    "c[:] = c[::-1].copy()": OFF,
    "a[2, 3] += 1": OPERANDS,
    "b[-1, 3] += 1": OPERANDS,
    "poke(a, p.shapes[0][0] * p.lda, 1)": OPERANDS,
    "poke(b, p.shapes[1][1], 1)": OPERANDS,
    "poke(c, -1, 1)": OUTSIDE,
    "poke(c, p.m * p.ldc + 5, 1)": OUTSIDE,
}


@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize("code", list(FAULTS))
@pytest.mark.parametrize("problem", PROBLEMS[:5], ids=["dense", "padded", "tn", "nt", "tt"])
def test_a_fault_is_found_in_every_round(problem, code, times):
    assert_always_found(FAULTS[code], faults_of(problem, doing(code), times))


@pytest.mark.parametrize("times", [1, 6])
@pytest.mark.parametrize("code", list(FAULTS))
@pytest.mark.parametrize("number", [0, 2])
def test_a_fault_in_one_product_of_a_batch_is_found_in_every_round(number, code, times):
    problem, turns = replace(PROBLEMS[1], layout="nt", batch=3), itertools.count()

    def compute(p, *matrices):
        (doing(code) if next(turns) % p.batch == number else right)(p, *matrices)

    assert_always_found(FAULTS[code], faults_of(problem, compute, times))
    assert faults_of(problem, rounded, times) == [""] * ROUNDS


@pytest.mark.parametrize("code", [WRONG_ELEMENT, LOST_PRODUCT, NOT_WRITTEN])
@pytest.mark.parametrize("problem", PROBLEMS[-4:], ids=["denormal", "denormal64", "huge", "huge64"])
def test_a_fault_is_found_where_squares_are_beyond_what_is_a_number(problem, code):
    assert_always_found(OFF, faults_of(problem, doing(code)))


@pytest.mark.parametrize("factor", ["1.01", "np.nan"])
def test_if_alpha_is_0_only_nan_in_a_and_b_makes_nan_in_c_right(factor):
    problem = Problem(60, 20, 9, alpha=0.0, beta=0.7)
    assert_always_found(OFF, faults_of(problem, doing(f"c *= {factor}")))

    def multiplied(p, a, b, c):
        with np.errstate(invalid="ignore"):
            c[:] = p.alpha * (a @ b) + p.beta * c

    nonfinite = replace(problem, distribution="nonfinite")
    assert faults_of(nonfinite, multiplied) == [""] * ROUNDS


@pytest.mark.parametrize("element_type", ["float32", "float64"])
def test_a_result_of_earlier_operands_is_found(element_type):
    """What a kernel would give that knows that it has computed this before."""
    kept = {}

    def stale(p, a, b, c):
        if p not in kept:
            right(p, a, b, c)
            kept[p] = c.copy()
        c[:] = kept[p]

    first, *others = faults_of(Problem(20, 30, 40, element_type=element_type), stale)
    assert first == ""
    assert_always_found(OFF, others)


def test_any_launch_of_a_sample_may_be_looked_at():
    """A kernel that leaves one launch in four out is caught, whichever it is; most often where it
    is the last, which has none after it.
    """
    calls = itertools.count()
    for left_out in range(4):

        def lazy(p, a, b, c, left_out=left_out):
            if next(calls) % 4 != left_out:
                right(p, a, b, c)

        caught = sum(map(bool, faults_of(Problem(20, 30, 40), lazy, 4, rounds=80)))
        # of 50 and 10 expected: five standard deviations to either side
        least, most = (28, 72) if left_out == 3 else (1, 25)
        assert least <= caught <= most


def test_launches_of_a_sample_have_rows_of_their_own_but_where_the_distribution_depends_on_them():
    for distribution, steps in (
        ("uniform", {0, 4, 8, 12}),
        ("alternating", {0, 4, 8, 12}),
        *((bound, {0}) for bound in BOUND),
    ):
        problem, seen = Problem(5, 6, 7, distribution=distribution), set()

        def look(p, a, b, c, seen=seen):
            seen.add((a.ctypes.data, b.ctypes.data))
            right(p, a, b, c)

        faults_of(problem, look, 4, rounds=1)
        first_a, first_b = min(seen)
        rows = {
            ((of_a - first_a) / (4 * problem.lda), (of_b - first_b) / (4 * problem.ldb))
            for of_a, of_b in seen
        }
        assert rows == {(step, step) for step in steps}


def test_a_b_and_c_begin_as_far_from_a_boundary_as_is_asked():
    problem, seen = Problem(5, 6, 7, offset="1,0,3", padding="1,2,0"), []

    def look(p, *matrices):
        seen.append(
            [matrix.ctypes.data % 16 for matrix in matrices]
            + [matrix.strides[0] for matrix in matrices]
        )
        right(p, *matrices)

    checked(problem, look)
    faults_of(problem, look, 3, rounds=1)
    assert {tuple(layout[:2]) for layout in seen} == {(4, 0)}
    assert {layout[2] % 8 for layout in seen} == {4}  # C begins at random places in its room
    assert {tuple(layout[3:]) for layout in seen} == {(4 * 8, 4 * 8, 4 * 6)}


def test_where_the_next_launch_has_its_c_is_left_to_chance():
    """Or a launch could compute for those after it."""
    problem, seen = Problem(5, 6, 7), []

    def look(p, a, b, c):
        seen.append(c.ctypes.data)
        right(p, a, b, c)

    faults_of(problem, look, 50, rounds=1)
    steps, room = np.diff(seen[-50:]), 4 * places(problem)[2].total
    assert len(set(steps.tolist())) > 10
    assert (steps >= room).all()
    assert {address % 64 for address in seen} <= {
        (seen[0] + turn * room) % 64 for turn in range(16)
    }


@pytest.mark.parametrize(("code", "status"), [("", "correct"), (WRONG_ELEMENT, "incorrect")])
def test_with_compare_every_element_of_the_kept_launch_is_compared(code, status):
    problem = Problem(20, 30, 40)
    with held(problem):
        sample = host().sample(launch(host(), doing(code)), 4)
        for seed in (problem.seed, 7):
            (timed,) = host().time_round([sample], False, seed, compare=True)
            assert judge(timed.errors, problem).status == status
        assert host().time_round([sample], False, 8)[0].errors is None


@pytest.mark.parametrize("kept_of", ["a", "b"])
@pytest.mark.parametrize("fresh", [False, True])
def test_rows_that_a_launch_kept_for_the_next_are_stale_before_the_last(kept_of, fresh):
    """The rows that two launches of a sample share would else serve all of them."""
    problem, first, rows = Problem(20, 30, 40), 0, []

    def keeping(p, a, b, c):
        nonlocal first
        mine = a if kept_of == "a" else b
        begin = (mine.ctypes.data - first) // mine.strides[0]
        if not 0 < begin <= len(rows):
            first, begin = mine.ctypes.data, 0
            rows.clear()
        rows.extend(mine[len(rows) - begin :].copy())
        mine = np.array(rows[begin:])
        right(p, mine if kept_of == "a" else a, mine if kept_of == "b" else b, c)

    with held(problem):
        made = launch(host(), keeping)
        sample = host().sample(made, 4, fresh=fresh)
        for _ in range(ROUNDS):
            (timed,) = host().time_round([sample], False, problem.seed, compare=True)
            assert bool(fault(timed.audit, problem)) == fresh
            assert judge(timed.errors, problem).status == ("incorrect" if fresh else "correct")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("distribution", [*BOUND, "uniform", "alternating"])
def test_right_launches_are_right_where_rows_change_before_the_last(distribution, layout):
    problem = Problem(20, 30, 40, distribution=distribution, beta=0.5, layout=layout)
    with held(problem):
        samples = [host().sample(launch(host(), right), times, fresh=True) for times in (4, 1, 3)]
        may = distribution not in BOUND
        assert [sample.fresh for sample in samples] == [may, False, may]
        for timed in host().time_round(samples, False, problem.seed, compare=True):
            assert (fault(timed.audit, problem), judge(timed.errors, problem).reason) == ("", "")
