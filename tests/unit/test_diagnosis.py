"""Common mistakes, made on purpose: each is told by its result alone."""

from dataclasses import replace

import numpy as np
import pytest
from ladder.devices.operands import CANARY
from ladder.measuring.diagnosis import COLUMN_MAJOR, COMPUTED, UNTOUCHED, diagnose, likeliest
from ladder.model.problem import Problem

GIVEN = Problem(37, 45, 53, alpha=2.0, beta=-0.5, padding=3, distribution="integers")
DENSE = Problem(37, 45, 53, alpha=2.0, beta=-0.5, distribution="integers")
SINGLE = Problem(1, 1, 5, alpha=2.0, distribution="integers")
NO_BETA = Problem(37, 45, 53, alpha=2.0, padding=3, distribution="integers")


APART = {"lda": 53, "ldb": 45, "ldc": 45}
LEFT_OUT = (
    "leading dimensions are left out: rows of A are lda apart, those of B ldb, those of C ldc"
)
SIZES = {"rows": "m", "columns": "n"}


def gemm(problem, a, b, old, result, columns_first=False, **mistakes):
    """A kernel that makes the mistakes it is asked for: other values of `problem`, fewer `rows` or
    `columns`, or the order of the elements.
    """
    names = ("m", "n", "k", "lda", "ldb", "ldc", "alpha", "beta")
    given = {name: getattr(problem, name) for name in names}
    # C' = B'A', where the apostrophe is for a matrix whose columns are taken for rows
    if columns_first:
        ld = {"lda": problem.m, "ldb": problem.k, "ldc": problem.m} | mistakes
        a, b = b, a
        given |= {"m": problem.n, "n": problem.m}
        mistakes = ld | {"lda": ld["ldb"], "ldb": ld["lda"]}
    given |= {SIZES.get(name, name): value for name, value in mistakes.items()}
    m, n, k, lda, ldb, ldc, alpha, beta = (given[name] for name in names)
    for i in range(m):
        for j in range(n):
            total = a[i * lda : i * lda + k] @ b[j::ldb][:k]
            at = i * ldc + j
            result[at] = alpha * total + (beta * old[at] if beta else 0)


def wrong(problem, **mistakes):
    """The operands of a problem, and what that kernel makes of them."""
    a, b, old, result = operands(problem)
    gemm(problem, a, b, old, result, **mistakes)
    return a, b, old, result


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
        (GIVEN, APART, LEFT_OUT),
        (GIVEN, {"k": 48}, "the last 5 of K are left out"),
        (GIVEN, {"k": 52}, "the last 1 of K are left out"),
        (GIVEN, {"rows": 32}, "an edge: only the last 5 rows are wrong"),
        (GIVEN, {"columns": 44}, "an edge: only the last 1 columns are wrong"),
        (GIVEN, {"rows": 32, "columns": 32}, "an edge: only what tiles of 16 leave over is wrong"),
        (NO_BETA, {"rows": 32}, UNTOUCHED),
        (GIVEN, {"alpha": 3.0}, ""),
        (DENSE, {"columns_first": True}, COLUMN_MAJOR),
        (DENSE, {"columns_first": True, **APART}, COLUMN_MAJOR),
    ],
)
def test_a_mistake_is_told(problem, mistake, guess):
    a, b, old, result = wrong(problem, **mistake)
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


@pytest.mark.parametrize(
    ("problems", "mistakes", "words"),
    [
        ((DENSE, GIVEN), {"alpha": 1.0, **APART}, f"alpha is left out; and {LEFT_OUT}"),
        ((GIVEN, DENSE), {"alpha": 1.0, "beta": 1.0, "k": 52}, ""),  # three
        (
            (DENSE, DENSE, GIVEN),
            {"alpha": 1.0, "columns_first": True},
            f"alpha is left out; and {COLUMN_MAJOR}",
        ),
        # of one element, no stride shows
        ((SINGLE, GIVEN), {"alpha": 1.0, **APART}, f"alpha is left out; and {LEFT_OUT}"),
        ((SINGLE, GIVEN, GIVEN), {"k": 1}, ""),  # most others do not explain the first
    ],
)
def test_two_mistakes_explain_together_what_neither_does_alone(problems, mistakes, words):
    diagnoses = []
    for problem in problems:
        own = {"alpha": mistakes.get("alpha", 7.0)} if problem is SINGLE else mistakes
        a, b, old, result = wrong(problem, **own)
        diagnoses.append(diagnose(problem, a, b, old, result, result.copy(), 0.0))
    assert likeliest(diagnoses[0], diagnoses[1:]) == words


def test_two_launches_that_differ_are_a_race():
    *given, result = wrong(GIVEN, k=50)
    again = result.copy()
    again[7] += 1
    ((guess, *_), *_) = diagnose(GIVEN, *given, result, again, 0.0).guesses
    assert guess.startswith("a race, or memory that nobody set")


def test_what_is_right_or_rounded_has_nothing_wrong():
    *given, result = wrong(GIVEN)
    assert diagnose(GIVEN, *given, result, result, 0.0) is None
    uniform = replace(GIVEN, distribution="uniform")
    result[3 * uniform.ldc + 5] *= 1 + 1e-5
    assert diagnose(uniform, *given, result, result, 1e-3) is None
    seen = diagnose(uniform, *given, result, result, 1e-9)
    assert (seen.row, seen.column, seen.wrong) == (3, 5, 1)


def test_of_a_large_problem_the_rows_to_the_first_wrong_one_are_looked_at(monkeypatch):
    monkeypatch.setattr("ladder.measuring.diagnosis.ROWS", 10 * 45 * 53)
    *given, result = wrong(GIVEN)
    result[25 * GIVEN.ldc + 4] += 1
    seen = diagnose(GIVEN, *given, result, result, 0.0)
    assert (seen.row, seen.column, seen.wrong, seen.elements) == (25, 4, 1, 450)
