"""Sums in 16 bits: kernels that keep sums over parts of K as elements, or do not round the result,
are told from those that keep them in float32. In NumPy, on what a device draws.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pytest
from host import buffers, compared, rounded, scales_of
from ladder.core.types import ELEMENT_TYPES, OF_8_BITS, OF_CUDA
from ladder.devices.operands import exactly, inside, places, scalars, spread, values
from ladder.measuring.gauntlet import LONG, problems
from ladder.measuring.verify import Verdict, judge
from ladder.model.problem import Problem

Sums = Callable[[Problem, Any, Any], Any]
"""A B in float32, from A and B in float64."""
SEEN = [name for name in OF_CUDA if name != "float8_e4m3_float16"]
"""Tensor cores add products of 8 bits with 14 digits, of which float16 keeps 11. The bounds cannot be
so narrow that a second rounding to float16 is seen.
"""
FULL = [Problem(64, 48, k) for k in (4096, 16384)]
"""Of sizes beyond the gauntlet's."""


def of_c(problem: Problem) -> str:
    return ELEMENT_TYPES[problem.element_type].of_c.name


def stored(problem: Problem, x: Any) -> Any:
    """Numbers rounded to the type of C's elements."""
    return values(rounded(np.float64(x), of_c(problem))).astype(np.float32)


def cut(problem: Problem, x: Any) -> Any:
    """Numbers whose last bits are cut off instead."""
    kept = {"bfloat16": 16, "float16": 13}[of_c(problem)]
    return (np.float32(x).view(np.uint32) & np.uint32(2**32 - 2**kept)).view(np.float32)


def plain(problem: Problem, a: Any, b: Any) -> Any:
    return (a @ b).astype(np.float32)


def parts(problem: Problem, a: Any, b: Any, count: int, keep: Any, step: int = 1) -> Any:
    """In `count` sums: of slices of K one after another, or of tiles of `step` in turns."""
    turn = np.arange(problem.k) * count // problem.k if step == 1 else np.arange(problem.k) // step
    total = np.float32(0)
    for part in range(count):
        mine = turn % count == part
        total = total + keep(problem, (a[:, mine] @ b[mine]).astype(np.float32))
    return total


def float32(problem: Problem, x: Any) -> Any:
    return np.float32(x)


def promoted(problem: Problem, a: Any, b: Any) -> Any:
    """As tensor cores with sums in 16 bits, which are added to float32 after each 128 of K."""
    total = np.float32(0)
    for chunk in range(0, problem.k, 128):
        inner = np.float32(0)
        for k in range(chunk, min(chunk + 128, problem.k), 16):
            end = min(k + 16, chunk + 128)
            inner = stored(problem, inner + (a[:, k:end] @ b[k:end]).astype(np.float32))
        total = total + inner
    return total


RIGHT: dict[str, Sums] = {
    "one sum": plain,
    "8 parts of K": partial(parts, count=8, keep=float32),
    "4 parts in turns": partial(parts, count=4, keep=float32, step=64),
}
SUMS: dict[str, Sums] = {
    "8 parts of K in 16 bits": partial(parts, count=8, keep=stored),
    "4 parts of K in 16 bits": partial(parts, count=4, keep=stored),
    "2 parts of K in 16 bits": partial(parts, count=2, keep=stored),
    "8 parts in turns, in 16 bits": partial(parts, count=8, keep=stored, step=32),
    "16 bits within 128 of K": promoted,
}
STORES = {
    "rounded": lambda p, sums, c: stored(p, _scaled(p, sums, c)),
    "cut off": lambda p, sums, c: cut(p, _scaled(p, sums, c)),
    "rounded before beta C is added": lambda p, sums, c: stored(
        p, _scaled(p, sums, None) * 0 + stored(p, _scaled(p, sums, None)) + _of_c(p, c)
    ),
    "alpha and beta rounded": lambda p, sums, c: stored(
        p, _scaled(replace(p, alpha=_rounded(p, p.alpha), beta=_rounded(p, p.beta)), sums, c)
    ),
}
"""What becomes of sums in float32 and the old C."""


def _rounded(problem: Problem, factor: float) -> float:
    return float(stored(problem, np.array([factor]))[0])


def _of_c(problem: Problem, c: Any) -> Any:
    return scalars(problem)[1] * c if problem.beta else np.float32(0)


def _scaled(problem: Problem, sums: Any, c: Any) -> Any:
    product = scalars(problem)[0] * sums if problem.alpha else np.zeros_like(sums)
    return product if c is None else product + _of_c(problem, c)


@lru_cache(maxsize=128)
def given(problem: Problem) -> tuple[list[Any], list[Any]]:
    """The buffers before a launch, and the matrices in them in float64, scaled; C in float32."""
    drawn = buffers(problem)
    a, b, c = (values(inside(x, place)) for x, place in zip(drawn, places(problem), strict=True))
    by_row, by_column = spread(problem, scales_of(problem))
    return drawn, [a * by_row, b * by_column, c.astype(np.float32)]


def verdict(problem: Problem, sums: Sums, store: Any, reduces: bool = False) -> Verdict:
    """The verdict on a kernel that sums and stores like this."""
    before, (a, b, c) = given(problem)
    result = before[2].copy()
    with np.errstate(all="ignore"):
        wide = store(problem, sums(problem, a, b), c)
    inside(result, places(problem)[2])[:] = rounded(np.float64(wide), of_c(problem))
    return judge(compared(problem, result, before), problem, reduces=reduces)


def wrong_on(asked: list[Problem], sums: Sums, store: Any) -> list[Problem]:
    return [problem for problem in asked if verdict(problem, sums, store).status != "correct"]


def test_bytes_are_numbers_in_e4m3():
    known = {0x01: 2.0**-9, 0x08: 2.0**-6, 0x38: 1.0, 0x7E: 448.0, 0xFE: -448.0}
    known |= {0x80: -0.0, 0x7F: np.nan, 0xFF: np.nan}
    np.testing.assert_array_equal(values(np.array([*known], np.uint8)), [*known.values()])


@pytest.mark.parametrize("k", [16, 1024, 16384])
def test_whole_numbers_of_8_bits_use_all_of_them_and_are_exact_in_sums_of_14(k):
    _, (a, b, _) = given(exactly(Problem(8, 8, k, "float8_e4m3")))
    assert np.array_equal(a, np.rint(a)) and 8 < abs(a).max() <= 16
    partial_sums = np.cumsum(a[:, :, None] * b, 1)
    assert 2**8 < abs(partial_sums).max() < 2**14 and abs(partial_sums[:, -1]).max() <= 256


@pytest.mark.parametrize("element_type", OF_CUDA)
@pytest.mark.parametrize("sums", list(RIGHT))
def test_sums_in_float32_are_right_in_any_order(sums, element_type):
    larger = [replace(problem, element_type=element_type) for problem in (*FULL, *LONG)]
    asked = [*problems(element_type), *larger, *map(exactly, larger)]
    assert wrong_on(asked, RIGHT[sums], STORES["rounded"]) == []


@pytest.mark.parametrize("element_type", SEEN)
@pytest.mark.parametrize("sums", list(SUMS))
def test_sums_in_16_bits_are_seen_on_whole_numbers_and_on_others(sums, element_type):
    assert wrong_on(problems(element_type), SUMS[sums], STORES["rounded"])
    for full in FULL:
        problem = replace(full, element_type=element_type)
        for asked in (problem, exactly(problem)):
            assert verdict(asked, SUMS[sums], STORES["rounded"]).status == "incorrect", asked


@pytest.mark.parametrize("element_type", SEEN)
@pytest.mark.parametrize("store", [store for store in STORES if store != "rounded"])
def test_a_result_that_is_not_rounded_once_is_seen(store, element_type):
    assert element_type in OF_8_BITS or wrong_on(problems(element_type), plain, STORES[store])
    full = replace(FULL[0], element_type=element_type, alpha=0.3, beta=0.7)
    assert verdict(full, plain, STORES[store]).status == "incorrect"


@pytest.mark.parametrize("element_type", SEEN)
def test_a_baseline_that_may_is_marked_for_16_bit_sums_and_for_no_others(element_type):
    full = replace(FULL[0], element_type=element_type)
    for problem in (full, exactly(full)):
        for sums, marked in ((plain, False), (SUMS["8 parts of K in 16 bits"], True)):
            found = verdict(problem, sums, STORES["rounded"], reduces=True)
            assert (found.status, found.sums_16_bit) == ("correct", marked)


MISTAKES = {
    "left out": lambda a, b: [np.ones_like(a), np.ones_like(b)],
    "those of A left out": lambda a, b: [np.ones_like(a), b],
    "those of B left out": lambda a, b: [a, np.ones_like(b)],
    "one for a matrix": lambda a, b: [a * 0 + a[0, 0], b * 0 + b[0, 0]],
    "those of the next step": lambda a, b: [np.roll(a, -1, 0), np.roll(b, -1, 1)],
    "those of the next row": lambda a, b: [np.roll(a, -1, 1), b],
    "those of the next block of columns": lambda a, b: [a, np.roll(b, -1, 0)],
    "of another place": lambda a, b: [a.T.reshape(a.shape), b.T.reshape(b.shape)],
    "cut to powers of two": lambda a, b: [2.0 ** np.floor(np.log2(each)) for each in (a, b)],
}
"""Which scales a kernel takes."""


@pytest.mark.parametrize("mistake", [None, *MISTAKES])
def test_mistaken_scales_are_seen(mistake):
    def sums(problem: Problem, a: Any, b: Any) -> Any:
        right = scales_of(problem)
        taken = MISTAKES[mistake](*right) if mistake else right
        by_row, by_column = (
            mine / true
            for mine, true in zip(spread(problem, taken), spread(problem, right), strict=True)
        )
        return plain(problem, a * by_row, b * by_column)

    wrong = wrong_on(problems("float8_e4m3_blocks"), sums, STORES["rounded"])
    assert bool(wrong) == bool(mistake)
