"""Common mistakes, made on purpose: each is told by its result alone."""

import numpy as np
import pytest
from ladder.devices.operands import CANARY
from ladder.measuring.diagnosis import COLUMN_MAJOR, COMPUTED, UNTOUCHED, diagnose, likeliest
from ladder.model.problem import Problem

GIVEN = Problem(37, 45, 53, alpha=2.0, beta=-0.5, padding=3, distribution="integers")
DENSE = Problem(37, 45, 53, alpha=2.0, beta=-0.5, distribution="integers")
SINGLE = Problem(1, 1, 5, alpha=2.0, distribution="integers")
NO_BETA = Problem(37, 45, 53, alpha=2.0, padding=3, distribution="integers")


def gemm(
    problem,
    a,
    b,
    old,
    result,
    lda=0,
    ldb=0,
    ldc=0,
    alpha=None,
    beta=None,
    k=0,
    rows=None,
    columns=None,
    major="rows",
):
    """A kernel that makes the mistakes it is asked for."""
    alpha, beta = problem.alpha if alpha is None else alpha, problem.beta if beta is None else beta
    # C' = B'A', where the apostrophe is for a matrix whose columns are taken for rows
    if major == "columns":
        turned = Problem(problem.n, problem.m, problem.k, alpha=problem.alpha, beta=problem.beta)
        given = {
            "lda": ldb or problem.k,
            "ldb": lda or problem.m,
            "ldc": ldc or problem.m,
            "alpha": alpha,
            "beta": beta,
        }
        gemm(turned, b, a, old, result, **given)
        return
    for i in range(rows or problem.m):
        for j in range(columns or problem.n):
            total = sum(
                a[i * (lda or problem.lda) + n] * b[n * (ldb or problem.ldb) + j]
                for n in range(k or problem.k)
            )
            at = i * (ldc or problem.ldc) + j
            result[at] = alpha * total + (beta * old[at] if beta else 0)


def operands(problem):
    random = np.random.default_rng(1)
    flats = [random.integers(-4, 5, 3000).astype(np.float32) for _ in range(3)]
    return *flats, flats[2].copy() if problem.beta else np.full(3000, CANARY, np.uint32).view(
        np.float32
    )


@pytest.mark.parametrize(
    ("problem", "mistake", "guess"),
    [
        (GIVEN, {"alpha": 1.0}, "alpha is left out"),
        (GIVEN, {"beta": 0.0}, "beta is left out: the old C is not added"),
        (GIVEN, {"beta": 1.0}, "beta is left out: the old C is added as it is"),
        (GIVEN, {"alpha": -0.5, "beta": 2.0}, "alpha and beta are exchanged"),
        (GIVEN, {"lda": 53}, "leading dimension: K is used instead of lda"),
        (GIVEN, {"ldb": 51}, "leading dimension: ldc is used instead of ldb"),
        (GIVEN, {"ldc": 45}, "leading dimension: N is used instead of ldc"),
        (
            GIVEN,
            {"lda": 53, "ldb": 45, "ldc": 45},
            "leading dimensions are left out: rows of A are lda apart, those of B ldb, those of C ldc",
        ),
        (GIVEN, {"k": 48}, "the last 5 of K are left out"),
        (GIVEN, {"k": 52}, "the last 1 of K are left out"),
        (GIVEN, {"rows": 32}, "an edge: only the last 5 rows are wrong"),
        (GIVEN, {"columns": 44}, "an edge: only the last 1 columns are wrong"),
        (GIVEN, {"rows": 32, "columns": 32}, "an edge: only what tiles of 16 leave over is wrong"),
        (NO_BETA, {"rows": 32}, UNTOUCHED),
        (GIVEN, {"alpha": 3.0}, ""),
        (DENSE, {"major": "columns"}, COLUMN_MAJOR),
        (DENSE, {"major": "columns", "lda": 53, "ldb": 45, "ldc": 45}, COLUMN_MAJOR),
    ],
)
def test_a_mistake_is_told(problem, mistake, guess):
    a, b, old, result = operands(problem)
    gemm(problem, a, b, old, result, **mistake)
    right = np.zeros(3000, np.float32)
    gemm(problem, a, b, old, right)
    seen = diagnose(problem, a, b, old, result, result.copy(), 0.0)
    assert seen.guesses[:1] == ([[guess]] if guess else [])
    assert seen.wanted == right[seen.row * problem.ldc + seen.column]
    np.testing.assert_equal(seen.got, result[seen.row * problem.ldc + seen.column])
    before = [(i, j) for i in range(37) for j in range(45) if (i, j) < (seen.row, seen.column)]
    assert all(result[i * problem.ldc + j] == right[i * problem.ldc + j] for i, j in before)
    assert 0 < seen.wrong <= seen.elements == 37 * 45


@pytest.mark.parametrize(("nan", "message"), [(CANARY, UNTOUCHED), (0x7FFFFFFF, COMPUTED)])
@pytest.mark.parametrize("padding", [0, 3])
def test_a_c_that_is_read_although_beta_is_0_is_told_on_every_problem(nan, message, padding):
    """Where there is NaN between rows, a wrong stride explains it too; what NaN the sum has is the
    processor's choice.
    """
    problem = Problem(37, 45, 53, padding=padding, distribution="integers")
    a, b, old, result = operands(problem)
    for flat, rows, columns, ld in ((a, 37, 53, problem.lda), (b, 53, 45, problem.ldb)):
        flat[(np.arange(3000) % ld >= columns) | (np.arange(3000) >= rows * ld)] = np.nan
    result[:] = np.full(3000, nan, np.uint32).view(np.float32)
    assert diagnose(problem, a, b, old, result, result.copy(), 0.0).guesses[0] == [message]


def test_two_mistakes_explain_together_what_neither_does_alone():
    dense = {"lda": 53, "ldb": 45, "ldc": 45}
    left_out = (
        "leading dimensions are left out: rows of A are lda apart, those of B ldb, those of C ldc"
    )
    for problems, mistakes, words in (
        ((DENSE, GIVEN), {"alpha": 1.0, **dense}, f"alpha is left out; and {left_out}"),
        ((GIVEN, DENSE), {"alpha": 1.0, "beta": 1.0, "k": 52}, ""),  # three
        (
            (DENSE, DENSE, GIVEN),
            {"alpha": 1.0, "major": "columns"},
            f"alpha is left out; and {COLUMN_MAJOR}",
        ),
        # of one element, no stride shows
        ((SINGLE, GIVEN), {"alpha": 1.0, **dense}, f"alpha is left out; and {left_out}"),
        ((SINGLE, GIVEN, GIVEN), {"k": 1}, ""),  # most others do not explain the first
    ):
        diagnoses = []
        for problem in problems:
            a, b, old, result = operands(problem)
            own = {
                name: value
                for name, value in mistakes.items()
                if problem is not SINGLE or name == "alpha"
            } or {"alpha": 7.0}
            gemm(problem, a, b, old, result, **own)
            diagnoses.append(diagnose(problem, a, b, old, result, result.copy(), 0.0))
        assert likeliest(diagnoses[0], diagnoses[1:]) == words


def test_two_launches_that_differ_are_a_race():
    a, b, old, result = operands(GIVEN)
    gemm(GIVEN, a, b, old, result, k=50)
    again = result.copy()
    again[7] += 1
    assert (
        diagnose(GIVEN, a, b, old, result, again, 0.0)
        .guesses[0][0]
        .startswith("a race, or memory that nobody set")
    )


def test_what_is_right_or_rounded_has_nothing_wrong():
    a, b, old, result = operands(GIVEN)
    gemm(GIVEN, a, b, old, result)
    assert diagnose(GIVEN, a, b, old, result, result, 0.0) is None
    uniform = Problem(37, 45, 53, alpha=2.0, beta=-0.5, padding=3)
    result[3 * uniform.ldc + 5] *= 1 + 1e-5
    assert diagnose(uniform, a, b, old, result, result, 1e-3) is None
    seen = diagnose(uniform, a, b, old, result, result, 1e-9)
    assert (seen.row, seen.column, seen.wrong) == (3, 5, 1)


def test_of_a_large_problem_the_rows_to_the_first_wrong_one_are_looked_at(monkeypatch):
    monkeypatch.setattr("ladder.measuring.diagnosis.ROWS", 10 * 45 * 53)
    a, b, old, result = operands(GIVEN)
    gemm(GIVEN, a, b, old, result)
    result[25 * GIVEN.ldc + 4] += 1
    seen = diagnose(GIVEN, a, b, old, result, result, 0.0)
    assert (seen.row, seen.column, seen.wrong, seen.elements) == (25, 4, 1, 450)
