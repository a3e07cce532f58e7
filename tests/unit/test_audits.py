"""What the audit of a timed launch finds, by a vector of random signs: on samples of one launch and
of several, each on other rows of B.
"""

import itertools

import numpy as np
import pytest
from host import checked, held, host, launch, poke, right
from ladder.devices.operands import BOUND, exactly, places
from ladder.measuring.verify import fault, judge
from ladder.model.problem import Problem

PROBLEMS = [
    Problem(33, 40, 256),
    Problem(17, 24, 100, alpha=-1.3, beta=0.7, padding="3,0,5", offset="2,1,3"),
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


def faults_of(problem, compute, times=1, rounds=ROUNDS):
    """What the audits of some rounds find, each on operands of its own."""
    with held(problem):
        sample = host().sample(launch(host(), compute), times)
        return [
            fault(host().time_round([sample], False, seed)[0].audit, problem)
            for seed in range(rounds)
        ]


def rounded(p, a, b, c):
    """In the element type, from the last product to the first."""
    total = np.zeros((p.m, p.n), a.dtype)
    for k in reversed(range(p.k)):
        total += a[:, k : k + 1] * b[k : k + 1]
    c[:] = (a.dtype.type(p.alpha) * total if p.alpha else 0) + (
        a.dtype.type(p.beta) * c if p.beta else 0
    )


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
        total = np.zeros((p.m, p.n), np.float32)
        for k in range(p.k):
            total += a[:, k : k + 1] * b[k : k + 1]
        c[:] = total

    problem = Problem(24, 20, 16384, distribution="hilbert")
    assert faults_of(problem, ascending) == [""] * ROUNDS
    assert all("a row of C is off by" in message for message in faults_of(problem, wrong_element))


@pytest.mark.parametrize("alpha", [1.0, 1.3])
def test_results_on_whole_numbers_have_none(alpha):
    problem = Problem(40, 30, 500, distribution="integers", alpha=alpha, beta=0.7)
    assert faults_of(problem, rounded) == [""] * ROUNDS
    assert faults_of(exactly(problem), right) == [""] * ROUNDS


def test_operands_that_are_rounded_are_found_on_whole_numbers_however_small_the_error_is():
    def rounding(p, a, b, c):  # to TF32
        shorter = [
            (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
            for x in (np.ascontiguousarray(a), b.copy())
        ]
        right(p, *shorter, c)

    assert all(
        "a row of C is off by" in message
        for message in faults_of(exactly(Problem(40, 30, 500)), rounding)
    )


def wrong_element(p, a, b, c):
    right(p, a, b, c)
    c[-1, 2] *= 1.02


def lost_product(p, a, b, c):
    right(p, a, b, c)
    products = a[5] * b[:, 7]
    c[5, 7] -= p.alpha * products[np.abs(products).argmax()]


def in_another_place(p, a, b, c):
    right(p, a, b, c)
    c[:] = c[::-1].copy()


def not_written(p, a, b, c):
    kept = c[3, 4]
    right(p, a, b, c)
    c[3, 4] = kept


def write_a(p, a, b, c):
    right(p, a, b, c)
    a[2, 3] += 1


def write_b(p, a, b, c):
    right(p, a, b, c)
    b[-1, 3] += 1


def write_behind_a(p, a, b, c):
    right(p, a, b, c)
    poke(a, p.m * p.lda, 1)


def write_before_c(p, a, b, c):
    right(p, a, b, c)
    poke(c, -1, 1)


def write_behind_c(p, a, b, c):
    right(p, a, b, c)
    poke(c, p.m * p.ldc + 5, 1)


FAULTS = {
    wrong_element: "a row of C is off by",
    lost_product: "a row of C is off by",
    in_another_place: "a row of C is off by",
    not_written: "a row of C is off by",
    write_a: "elements of A and B were overwritten",
    write_b: "elements of A and B were overwritten",
    write_behind_a: "elements of A and B were overwritten",
    write_before_c: "1 elements outside C were overwritten",
    write_behind_c: "1 elements outside C were overwritten",
}


@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize("compute", FAULTS, ids=lambda compute: compute.__name__)
@pytest.mark.parametrize("problem", PROBLEMS[:2], ids=["dense", "padded"])
def test_a_fault_is_found_in_every_round(problem, compute, times):
    messages = faults_of(problem, compute, times)
    assert all(FAULTS[compute] in message for message in messages), messages


@pytest.mark.parametrize(
    "compute", [wrong_element, lost_product, not_written], ids=lambda compute: compute.__name__
)
@pytest.mark.parametrize("problem", PROBLEMS[-4:], ids=["denormal", "denormal64", "huge", "huge64"])
def test_a_fault_is_found_where_squares_are_beyond_what_is_a_number(problem, compute):
    messages = faults_of(problem, compute)
    assert all(FAULTS[compute] in message for message in messages), messages


@pytest.mark.parametrize("factor", [1.01, np.nan])
def test_if_alpha_is_0_only_nan_in_a_and_b_makes_nan_in_c_right(factor):
    def off(p, a, b, c):
        right(p, a, b, c)
        c *= factor

    messages = faults_of(Problem(60, 20, 9, alpha=0.0, beta=0.7), off)
    assert all("a row of C is off by" in message for message in messages)

    def multiplied(p, a, b, c):
        with np.errstate(invalid="ignore"):
            c[:] = p.alpha * (a @ b) + p.beta * c

    assert (
        faults_of(Problem(60, 20, 9, alpha=0.0, beta=0.7, distribution="nonfinite"), multiplied)
        == [""] * ROUNDS
    )


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
    assert all("a row of C is off by" in message for message in others)


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


def test_with_compare_every_element_of_the_kept_launch_is_compared():
    problem = Problem(20, 30, 40)
    with held(problem):
        for compute, status in ((right, "correct"), (wrong_element, "incorrect")):
            sample = host().sample(launch(host(), compute), 4)
            for seed in (problem.seed, 7):
                (timed,) = host().time_round([sample], False, seed, compare=True)
                assert judge(timed.errors, problem).status == status
        assert host().time_round([sample], False, 8)[0].errors is None


def test_rounding_of_tf32_is_no_fault_of_what_says_so_and_one_of_what_does_not():
    problem = Problem(32, 32, 512)

    def tf32(p, a, b, c):
        cut = [
            np.ldexp(np.round(np.ldexp(f, 11)), e - 11)
            for f, e in (np.frexp(x.astype(np.float64)) for x in (a, b))
        ]
        c[:] = cut[0] @ cut[1]

    with held(problem):
        audits = [
            host().time_round([host().sample(launch(host(), tf32), 1)], False, seed)[0].audit
            for seed in range(5)
        ]
    assert all(fault(audit, problem) for audit in audits)
    assert not any(fault(audit, problem, tf32=True) for audit in audits)
