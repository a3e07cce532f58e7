"""What the operands are: of `exact` every sum is exact, and every other distribution is what the
page of keys says.
"""

import re
from dataclasses import replace

import numpy as np
import pytest
from host import buffers, drawn
from ladder.core.places import HOME
from ladder.core.types import DISTRIBUTIONS, ELEMENT_TYPES, LAYOUTS
from ladder.devices.operands import (
    REPEATED_ROWS,
    TF32_DIGITS,
    draws,
    exact_mask,
    exactly,
    inside,
    places,
    values,
)
from ladder.model.problem import Problem
from unseen import fewer_bits


def significant(x):
    """Bits of whole numbers from the first that is 1 to the last that is 1."""
    whole = np.abs(x).astype(np.int64)
    return np.frexp(whole.astype(float))[1] - np.log2(whole & -whole).astype(int)


BITS = {"float16": 11, "bfloat16": 8}
"""Significant bits of elements that have fewer than their sums."""
DEPTHS = [1, 2, 63, 64, 65, 127, 128, 300, 4096, 65_536, 131_071, 131_072, 200_000]


@pytest.mark.parametrize("element_type", ["float32", "float64"])
@pytest.mark.parametrize("k", DEPTHS)
def test_exact_sums_stay_far_below_where_counting_ends(k, element_type):
    a, b, c = (
        x.astype(np.float64)
        for x in drawn(Problem(9, 7, k, element_type=element_type, beta=1.0, distribution="exact"))
    )
    assert all((x == np.rint(x)).all() for x in (a, b, c))
    digits = {"float32": 24, "float64": 53}[element_type]
    # with alpha of 1/2 and beta of 2, too
    assert (np.abs(a) @ np.abs(b) + 4 * np.abs(c)).max() < 2.0**digits
    assert (c % 4 == 0).all()
    assert np.count_nonzero(a) == a.size  # no product can be left out unseen
    assert np.count_nonzero(b) == b.size
    # each second 64 of K is A's, or B's
    for x, other, turn in ((a, b.T, k % 2 == 0), (b.T, a, k % 2 == 1)):
        bits = significant(x)
        full = bits >= digits - 1
        assert (full.sum(axis=1) == (turn or k > 64)).all()  # one in each row of A and column of B
        assert (bits[full] == digits - 1).all()
        assert (np.abs(other[:, full.any(axis=0)]) == 1).all()
        wide = draws(Problem(9, 7, k, element_type=element_type, distribution="exact"))[0].wide
        assert bits[~full].max(initial=0) <= wide


@pytest.mark.parametrize("element_type", list(ELEMENT_TYPES))
@pytest.mark.parametrize("k", DEPTHS)
def test_exact_is_planned_within_its_budget_for_every_type(k, element_type):
    draw = draws(Problem(1, 1, k, element_type=element_type, distribution="exact"))[0]
    digits = 53 if element_type == "float64" else 24
    assert draw.full <= BITS.get(element_type, digits)
    assert (
        draw.small**2 * (k + 1) + (k // draw.period + 2) * draw.small * 2.0**draw.wide
        <= 2.0 ** (digits - 2) * 1.01
    )
    assert draw.wide <= BITS.get(element_type, digits)  # an element holds it


def test_the_pages_say_how_many_bits_exact_has():
    full = draws(Problem(9, 7, 300, distribution="exact"))[0].full
    for page in ("README.md", "docs/method.md", "docs/frauds.md", "docs/languages.md"):
        text = (HOME / page).read_text()
        assert set(re.findall(r"integers of up to (\d+) bits", text)) == {str(full)}, page


def exact(k):
    return (x.astype(np.float64) for x in drawn(Problem(9, 7, k, distribution="exact")))


@pytest.mark.parametrize("bits", [8, 11])  # bfloat16, tf32
@pytest.mark.parametrize("k", DEPTHS[6:])
def test_operands_rounded_to_fewer_bits_give_other_whole_numbers(k, bits):
    a, b, _ = exact(k)
    for left, right in ((fewer_bits(a, bits), b), (a, fewer_bits(b, bits))):
        assert np.abs(left @ right - a @ b).max() >= 1


@pytest.mark.parametrize("bits", [20, 21, 22])
@pytest.mark.parametrize("k", [*DEPTHS, *range(3, 40)])
def test_operands_of_a_few_bits_less_give_other_whole_numbers(k, bits):
    a, b, _ = exact(k)
    assert (np.abs(fewer_bits(a, bits) @ fewer_bits(b, bits) - a @ b) >= 1).mean() > 0.3
    for alone, turn in (
        (fewer_bits(a, bits) @ b, k % 2 == 0),
        (a @ fewer_bits(b, bits), k % 2 == 1),
    ):
        assert (alone != a @ b).all() == (turn or k > 64)


def test_what_rounds_to_tf32_has_whole_numbers_that_this_leaves():
    problem = exactly(Problem(9, 7, 300, alpha=-1.3, beta=0.75), "tf32")
    assert (problem.alpha, problem.beta) == (-1.0, 1.0)
    a, b, c = drawn(problem)
    for x in (a, b, c):
        assert (fewer_bits(x, TF32_DIGITS) == x).all()
    for left, right in ((fewer_bits(a, 8), b), (a, fewer_bits(b, 8))):  # bfloat16
        assert np.abs(left.astype(float) @ right - a.astype(float) @ b).max() >= 1
    assert np.count_nonzero(a) == a.size


@pytest.mark.parametrize("element_type", list(BITS))
@pytest.mark.parametrize("k", [*DEPTHS, 1_048_577])
def test_elements_of_16_bits_are_below_where_they_stop_counting_and_each_shows_what_is_left_out(
    k, element_type
):
    problem = Problem(20, 15, k, element_type=element_type, distribution="exact")
    drawn = (
        inside(buffer, place)
        for buffer, place in zip(buffers(problem), places(problem), strict=True)
    )
    a, b, _ = (values(x) for x in drawn)
    # where a wide one meets a large one
    assert np.mean(np.abs(a @ b) >= 2.0 ** BITS[element_type]) < 0.02
    assert np.count_nonzero(a) == a.size
    assert np.count_nonzero(b) == b.size
    alone = draws(problem)[0].alone
    assert (alone > 1) == (k > 2)
    # every order of summation is exact in float32
    assert (np.abs(a) @ np.abs(b)).max() < 2.0**24
    # a sum over an eighth of K is no element, but for infinities it is too small
    eighth = np.abs(a[:, : k // 8] @ b[: k // 8]).max()
    assert k < 63 or 2.0 ** (BITS[element_type] + 1) < eighth
    assert element_type == "bfloat16" or eighth < 65504
    # of a tile along K: without one of them, or the one that cancels it, C is another
    size = max(64, alone)
    for first in range(0, k // 2 - size, max(size, k // 16)):
        one, other = (a[:, at : at + size] @ b[at : at + size] for at in (first, k - first - size))
        assert min(np.mean(one != 0), np.mean(other != 0)) > 0.8
        assert np.mean(one + other != 0) > 0.4


@pytest.mark.parametrize(
    ("factor", "exact"), [(0, 0), (0.001, 0.5), (0.3, 0.5), (1, 1), (1.5, 2), (-7, -2)]
)
def test_factors_of_the_exact_launch_are_powers_of_two_near_by(factor, exact):
    problem = exactly(Problem(3, 5, 7, alpha=factor, beta=factor))
    assert problem.alpha == problem.beta == exact


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_seed_fixes_the_operands_and_another_gives_others(distribution):
    def of(seed):
        return drawn(Problem(20, 30, 600, beta=1.0, distribution=distribution, seed=seed))

    first, second, other = of(1), of(1), of(2)
    assert all(np.array_equal(x, y, equal_nan=True) for x, y in zip(first, second, strict=True))
    assert all(
        not np.array_equal(x, y, equal_nan=True) for x, y in zip(first, other, strict=True)
    ) != (distribution == "hilbert")
    if distribution != "hilbert":
        a, b, _ = first
        # no two rows of A, no two columns of B alike
        assert len(np.unique(a, axis=0)) == (REPEATED_ROWS if distribution == "repeated" else 20)
        assert len(np.unique(b, axis=1).T) == 30


def test_where_beta_is_zero_c_is_poisoned():
    assert np.isnan(drawn(Problem(4, 4, 4))[2]).all()


def _of(distribution):
    a, b, _ = drawn(Problem(64, 48, 2048, distribution=distribution))
    return a.astype(np.float64), b.astype(np.float64)


@pytest.mark.parametrize(
    ("distribution", "least", "most", "mean", "variance"),
    [("uniform", -1, 1, 0, 1 / 3), ("positive", 0, 1, 1 / 2, 1 / 12), ("normal", None, None, 0, 1)],
)
def test_uniform_normal_and_positive(distribution, least, most, mean, variance):
    for x in _of(distribution):
        assert x.mean() == pytest.approx(mean, abs=0.02)
        assert x.var() == pytest.approx(variance, rel=0.02)
        if most is None:
            assert np.mean(x**4) == pytest.approx(3, rel=0.1)
        else:
            assert least <= x.min() < least + 0.01
            assert most - 0.01 < x.max() <= most


def test_integers_are_all_from_minus_four_to_four():
    for x in _of("integers"):
        values, counts = np.unique(x, return_counts=True)
        assert values.tolist() == list(range(-4, 5))
        assert counts.min() > 0.9 * x.size / 9


def test_mixed_has_a_real_row_and_column_in_eleven_and_the_mask_says_which():
    problem = Problem(64, 48, 2048, beta=1.0, distribution="mixed")
    a, b, c = drawn(problem)
    real = [~(x == np.rint(x)).all(axis=axis) for x, axis in ((a, 1), (b, 0))]
    assert [np.flatnonzero(side).tolist() for side in real] == [
        [5, 16, 27, 38, 49, 60],
        [5, 16, 27, 38],
    ]
    assert (exact_mask(problem) == ~(real[0][:, None] | real[1][None, :])).all()
    assert np.abs(a[5]).max() < 1 < np.abs(a[0]).max() <= 4
    assert (c == np.rint(c)).all()
    assert not exact_mask(replace(problem, alpha=0.3)).any()
    assert exact_mask(replace(problem, distribution="integers")).all()


def test_lognormal_has_both_signs_and_three_sigma_at_two_to_twenty():
    for x in _of("lognormal"):
        assert np.log2(np.abs(x)).std() == pytest.approx(20 / 3, rel=0.02)
        assert np.mean(x > 0) == pytest.approx(0.5, abs=0.02)


def test_scaled_and_inner_have_powers_of_two_along_another_side():
    a, b = _of("scaled")
    rows, columns = np.log2(np.abs(a).max(axis=1)), np.log2(np.abs(b).max(axis=0))
    assert all(
        side.max() - side.min() > 50 and np.abs(side).max() <= 41 for side in (rows, columns)
    )
    a, b = _of("inner")
    of_a, of_b = np.log2(np.abs(a).max(axis=0)), np.log2(np.abs(b).max(axis=1))
    assert of_a.max() - of_a.min() > 30
    assert np.abs(of_a + of_b).max() < 1  # A D and D^-1 B


def test_outliers_masked_and_sparse():
    a, b = _of("outliers")
    assert (np.count_nonzero(np.abs(a) == 1e8, axis=1) == 1).all()
    assert np.abs(b).max() <= 1
    a, b = _of("masked")
    large = np.abs(a).max(axis=0) > 1e9
    assert 10 < np.count_nonzero(large) < 60  # one in 64
    assert (b[large] == 0).all()
    assert (b[~large] != 0).all()
    a, b = _of("sparse")
    assert np.count_nonzero(a) == a.size
    assert np.count_nonzero(b) == pytest.approx(0.01 * b.size, rel=0.15)


@pytest.mark.parametrize("distribution", ["cancelling", "alternating"])
def test_products_all_but_cancel_in_pairs(distribution):
    a, b = _of(distribution)
    products = a[:, :, None] * b[None]
    if distribution == "cancelling":
        first, second = products[:, :1024], products[:, 1024:]
    else:
        first, second = products[:, ::2], products[:, 1::2]
    assert (np.abs(first + second) <= 1.01e-4 * np.abs(first)).all()
    assert np.abs(first).max() > 0.5
    assert np.abs(first).min() < 0.1
    assert np.abs((first + second).sum(axis=1)).max() < 1e-3 * (np.abs(a) @ np.abs(b)).min()


def test_a_row_is_the_same_in_all_batches_layouts_and_places_if_it_is_repeated():
    usual = Problem(20, 16, 300, beta=0.5, distribution="repeated")
    a, b, c = drawn(usual)
    assert np.array_equal(a, a[np.arange(20) % REPEATED_ROWS])
    assert np.array_equal(c, c[np.arange(20) % REPEATED_ROWS])
    for other in (replace(usual, m=9), replace(usual, padding="1,2,3", offset="3,2,1")):
        for matrix, of_other in zip((a, b, c), drawn(other), strict=True):
            assert np.array_equal(matrix[: len(of_other)], of_other)


def test_denormal_huge_hilbert_and_nonfinite():
    a, b = _of("denormal")
    assert 0 < np.abs(a).max() < np.finfo(np.float32).tiny
    assert np.isfinite(b).all()
    assert 1e-5 < np.abs(a @ b).max() < 1e5
    a, b = _of("huge")
    assert np.abs(a).max() > 2.0**126
    assert 2.0**100 < np.abs(a @ b).max() < 2.0**120
    a, b = _of("hilbert")
    assert a[3, 4] == np.float32(1 / 8)
    assert b[0, 0] == 1
    a, b = _of("nonfinite")
    for x in (a, b):
        assert {"inf", "-inf", "nan"} == {str(value) for value in x[~np.isfinite(x)]}
    assert 0 < np.count_nonzero(~np.isfinite(a)) < 100


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_what_is_multiplied_is_the_same_in_every_layout(distribution):
    problem = Problem(9, 7, 66, padding="1,0,2", beta=0.5, distribution=distribution)
    usual = drawn(problem)
    for layout in LAYOUTS[1:]:
        for x, y in zip(usual, drawn(replace(problem, layout=layout)), strict=True):
            np.testing.assert_array_equal(x, y)
