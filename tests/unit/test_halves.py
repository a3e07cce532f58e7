"""The proof of rung 21's bound, held against an exact simulation of the algorithm
(`tests/support/halves.py`), part by part.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

import halves
import numpy as np
import pytest
from halves import CHUNK, Half, U
from host import checked
from ladder.measuring import gauntlet
from ladder.measuring.verify import judge
from ladder.model.problem import Problem
from planted import ROOT

M, N = 16, 32
HEADER = (ROOT / "kernels" / "include" / "split_float.cuh").read_text()


def floats(x):
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(x, np.float32)


def powers(random, span, *shape):
    return np.ldexp(1.0, random.integers(-span, span + 1, shape))


def outliers(random, k, size, zeros):
    a, b = random.standard_normal((M, k)), random.standard_normal((k, N))
    at = np.arange(M) * 7 % k
    a[np.arange(M), at] = size
    if zeros:
        b[at] = 0
    return a, b


def cases(k: int, seed: int = 0) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Inputs of every kind that the page speaks of."""
    r = np.random.default_rng(seed)
    n, inner = r.standard_normal, powers(r, 20, 1, k)
    tiny, zeros = np.ldexp(1.0, -38) * r.integers(1, 16, (M, k)), n((k, N))
    tiny[:, ::16], zeros[::16] = 1, 0  # all but what meets zeros lies in FP16's denormals, exactly
    chosen = {
        "uniform": (r.uniform(-1, 1, (M, k)), r.uniform(-1, 1, (k, N))),
        "normal": (n((M, k)), n((k, N))),
        "positive": (r.uniform(0, 1, (M, k)), r.uniform(0, 1, (k, N))),
        "one to two": (r.uniform(1, 2, (M, k)), r.uniform(1, 2, (k, N))),
        "lognormal": (np.exp(1.5 * n((M, k))), np.exp(1.5 * n((k, N)))),
        "lognormal 2^20": (2 ** r.uniform(-20, 20, (M, k)), 2 ** r.uniform(-20, 20, (k, N))),
        "elements 2^10": (n((M, k)) * powers(r, 10, M, k), n((k, N)) * powers(r, 10, k, N)),
        "rows and columns 2^40": (n((M, k)) * powers(r, 40, M, 1), n((k, N)) * powers(r, 40, 1, N)),
        "inner 2^20": (n((M, k)) * inner, n((k, N)) / inner.T),
        "columns of A 2^10": (n((M, k)) * powers(r, 10, 1, k), n((k, N))),
        "outliers": outliers(r, k, 1e8, False),
        "small outliers": outliers(r, k, 1e4, False),
        "outliers that meet zeros": outliers(r, k, 1e6, True),
        "denormal halves": (tiny, zeros),
        "denormal": (n((M, k)) * 1e-40, n((k, N)) * 1e4),
        "near overflow": (n((M, k)) * 1e17, n((k, N)) * 1e17),
        "integers": (r.integers(-99, 100, (M, k)), r.integers(-99, 100, (k, N))),
        "sparse": (n((M, k)), n((k, N)) * (r.random((k, N)) < 0.03)),
        "very sparse": (n((M, k)) * (r.random((M, k)) < 0.1), n((k, N)) * (r.random((k, N)) < 0.1)),
        "Hilbert": (
            1 / (np.arange(M)[:, None] + np.arange(k) + 1),
            1 / (np.arange(k)[:, None] + np.arange(N) + 1),
        ),
    }
    for name, (a, b) in chosen.items():
        yield name, floats(a), floats(b)


def test_constants_are_the_header_s():
    for name in ("FEW", "FLAT", "LARGE", "MEDIUM", "SMALL", "TINY", "NEAR"):
        (text,) = re.findall(rf"\b{name} = ([\w.+-]+)[,;]", HEADER)
        value = (
            float.fromhex(text.removesuffix("f"))
            if text.startswith("0x")
            else float(text.removesuffix("f"))
        )
        assert getattr(halves, name) == value, name


@pytest.mark.parametrize("k", [1, 31, 64, 65, 200, 1000])
def test_every_element_keeps_the_bound(k):
    for name, a, b in cases(k):
        for long in (False, True):
            assert halves.off(a, b, halves.multiply(a, b, long)) <= halves.bound(k), (name, long)


def parts(a, b):
    """For every chunk that goes to the tensor cores: its halves, sum of |a| |b| in scaled numbers,
    and what is done with it.
    """
    for x, y, half_a, half_b in halves.chunks(a, b):
        verdict = halves.judge(half_a, half_b, a.shape[1])
        if verdict.tensor:
            u, v = x / half_a.scale[:, None], y / half_b.scale[:, None]
            yield half_a, half_b, u, v, np.abs(u) @ np.abs(v).T, verdict


def test_halves_and_the_three_products_lose_what_the_proof_says():
    seen = set()
    for name, a, b in cases(640):
        for half_a, half_b, u, v, size, _ in parts(a, b):
            kept = (
                half_a.high @ half_b.high.T
                + half_a.high @ half_b.low.T
                + half_a.low @ half_b.high.T
            )
            assert (np.abs(half_a.low) @ np.abs(half_b.low).T <= halves.DROPPED * U * size).all(), (
                name
            )
            assert (
                np.abs(kept + half_a.low @ half_b.low.T - u @ v.T) <= halves.LOST * U * size
            ).all(), name
            seen.add(name)
    assert len(seen) >= 8  # the others are multiplied in float32


def test_the_tensor_cores_cut_off_what_the_proof_says():
    for name, a, b in cases(640):
        for half_a, half_b, u, v, _, verdict in parts(a, b):
            for at in [slice(q, q + 1) for q in range(4)] if verdict.steep else [slice(None)]:
                k = slice(at.start * 16, at.stop * 16) if verdict.steep else slice(None)
                products = (
                    (half_a.high, half_b.high),
                    (half_a.high, half_b.low),
                    (half_a.low, half_b.high),
                )
                exact = sum(p[:, k] @ q[:, k].T for p, q in products)
                cut = np.abs(halves.on_tensor_cores(half_a, half_b, at) - exact)
                assert (cut <= halves.CUT * U * (np.abs(u[:, k]) @ np.abs(v[:, k]).T)).all(), name


def test_a_sum_is_cut_off_as_the_assumption_says():
    ones = np.ones((1, 16))
    for below, kept in ((24, True), (25, True), (26, False)):
        a = np.zeros((1, 16))
        a[0, :2] = 1, 2.0**-14
        b = np.zeros((1, 16))
        b[0, :2] = 1, 2.0 ** (14 - below)
        assert (halves.instruction(-np.ones((1, 1)), a, b)[0, 0] != 0) == kept, below
    denormal = np.zeros((1, 16))
    denormal[0, 0] = 2.0**-24
    assert halves.exponents(denormal).max() == -14
    # aligned as if it were 2^-14
    assert halves.instruction(np.full((1, 1), 2.0**-41), denormal, ones) == 2.0**-24
    assert halves.instruction(np.full((1, 1), 2.0**-39), denormal, ones) > 2.0**-24


def test_small_halves_count_as_losing_digits_though_they_are_exact(monkeypatch):
    k = 2 * CHUNK
    random = np.random.default_rng(1)
    a, b = random.standard_normal((M, k)), random.standard_normal((k, N))
    # beside a one that meets zeros, one that is a denormal half
    a[0], a[0, 0], a[0, 1], b[0] = (0, 1, 2.0**-38, 0)
    a, b = floats(a), floats(b)
    assert halves.off(a, b, halves.multiply(a, b)) < 4
    monkeypatch.setattr(halves, "TINY", 0.0)
    assert halves.off(a, b, halves.multiply(a, b)) > halves.bound(k)


def product(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


def frobenius(a, b, c):
    exact = product(a, b)
    return np.linalg.norm(c - exact) / np.linalg.norm(exact) / U


def test_long_sums_are_more_accurate_in_two_steps():
    for name, a, b in cases(8192, seed=3):
        if name in ("positive", "uniform", "lognormal"):
            once, twice = (frobenius(a, b, halves.multiply(a, b, long)) for long in (False, True))
            assert twice < (0.9 if name == "uniform" else 0.6) * once, name


def test_few_products_are_left_to_float32(monkeypatch):
    random = np.random.default_rng(2)
    a, b = (
        floats(random.standard_normal((M, 640))),
        floats(random.standard_normal((640, N)) * (random.random((640, N)) < 0.04)),
    )
    assert not any(halves.judge(x, y, 640).tensor for _, _, x, y in halves.chunks(a, b))
    plain = frobenius(a, b, halves.multiply(a, b))
    monkeypatch.setattr(halves, "FEW", 0)
    assert all(halves.judge(x, y, 640).tensor for _, _, x, y in halves.chunks(a, b))
    assert frobenius(a, b, halves.multiply(a, b)) > 1.2 * plain


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_is_multiplied_in_float32(value):
    random = np.random.default_rng(4)
    a, b = floats(random.standard_normal((M, 200))), floats(random.standard_normal((200, N)))
    a[3, 100] = value
    with np.errstate(invalid="ignore"):
        expected = product(a, b)
    actual = halves.multiply(a, b)
    assert np.array_equal(np.isnan(actual), np.isnan(expected))
    assert np.array_equal(np.isinf(actual), np.isinf(expected))
    assert (actual[np.isinf(actual)] == expected[np.isinf(expected)]).all()


def test_what_overflows_for_certain_is_infinite_with_the_sign_of_its_products():
    """Where all products of an element are 1e60 and of one sign; beside them others, which are
    finite.
    """
    random = np.random.default_rng(5)
    a, b = floats(np.ones((M, 200))), floats(np.ones((200, N)))
    a *= floats(random.choice([-1e30, 1, 1e30], (M, 1)))
    b *= floats(random.choice([-1e30, 1, 1e30], (1, N)))
    assert not any(halves.judge(x, y, 200).tensor for _, _, x, y in halves.chunks(a, b))
    actual, expected = halves.multiply(a, b), floats(product(a, b))
    assert len(set(expected[np.isinf(expected)])) == 2
    assert (actual[np.isinf(expected)] == expected[np.isinf(expected)]).all()
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


def one_real(a, b):
    """The integers A and B, but for one row and one column of real numbers; and which elements of C
    are sums of integers.
    """
    random, a, b = np.random.default_rng(7), floats(a), floats(b)
    a[3], b[:, 5] = random.standard_normal(a.shape[1]), random.standard_normal(len(b))
    whole = np.ones((len(a), b.shape[1]), bool)
    whole[3], whole[:, 5] = False, False
    return a, b, whole


@pytest.mark.parametrize(
    "k, of_a, of_b",
    [(64, 511, 511), (64, 60000, 3), (256, 255, 255), (1024, 127, 127), (4096, 63, 63)],
)
def test_integers_are_exact_whatever_shares_their_tile(k, of_a, of_b):
    """If one side has 11 bits at most, the other 23."""
    random = np.random.default_rng(6)
    a, b, whole = one_real(
        random.integers(-of_a, of_a + 1, (M, k)), random.integers(-of_b, of_b + 1, (k, N))
    )
    exact = product(a, b)
    assert any(
        halves.judge(x, y, k).tensor and x.lows.any() and y.lows.any()
        for _, _, x, y in halves.chunks(a, b)
    )
    assert (((halves.multiply(a, b) != exact) & whole).sum(), whole.sum()) == (0, 465)


def test_a_gain_by_the_tile_fails_in_the_gauntlet(monkeypatch):
    (problem,) = (
        problem for problem in gauntlet.problems("float32") if problem.distribution == "mixed"
    )

    def verdict():
        return judge(
            checked(problem, lambda p, a, b, c: c.__setitem__(slice(None), halves.multiply(a, b))),
            problem,
        )

    assert verdict().status == "correct"
    split = halves.split
    monkeypatch.setattr(
        halves,
        "split",
        lambda *given: replace(half := split(*given), lows=half.lows | half.lows.any()),
    )
    assert verdict().reason == "C[0][1] is not exact on whole numbers, of which all sums are"


@pytest.mark.parametrize("k", [1, 2, 3, 32, 33, 64, 65, 128, 200, 1000])
def test_the_launch_on_whole_numbers_is_exact(k):
    def multiply(p, a, b, c):
        c[:] = halves.multiply(a, b)

    problem = Problem(M, N, k, distribution="exact")
    assert judge(checked(problem, multiply), problem).status == "correct"


def test_counting_is_exact():
    """A row of zeros and ones times a column of ones, beside real numbers."""
    a, b, whole = one_real(np.random.default_rng(8).integers(0, 2, (M, 1024)), np.ones((1024, N)))
    assert (halves.multiply(a, b) == product(a, b))[whole].all()


@pytest.mark.parametrize("bits", [23, 24])
def test_a_unit_vector_selects_numbers_of_23_bits(bits):
    """Every eighth column of B is a unit vector e, the others are real: A e is a column of A, but
    for the last of 24 bits.
    """
    random = np.random.default_rng(9)
    a, b = random.standard_normal((M, 1024)), floats(random.standard_normal((1024, N)))
    kept, power = np.frexp(a)
    a, b[:, ::8] = (
        floats(np.ldexp(np.rint(np.ldexp(kept, bits)), power - bits)),
        np.eye(1024, N)[:, ::8],
    )
    off = np.abs(halves.multiply(a, b) - a[:, :N])[:, ::8] / np.spacing(np.abs(a[:, :N:8]))
    assert off.max() == (0 if bits == 23 else 1)


def test_sums_of_numbers_with_low_halves_get_the_gain():
    """Without it, sums of positive data would be 3 u too small on average. Half of the tile is
    integers.
    """
    random = np.random.default_rng(10)
    a, b = floats(random.uniform(0, 1, (M, 640))), floats(random.uniform(0, 1, (640, N)))
    a[: M // 2], b[:, : N // 2] = np.rint(9 * a[: M // 2]), np.rint(9 * b[:, : N // 2])
    exact = product(a, b)
    off = (halves.multiply(a, b) - exact) / exact / U
    assert (off[: M // 2, : N // 2] == 0).all()
    assert abs(off[M // 2 :, N // 2 :].mean()) < 2


def test_a_group_of_zeros_loses_nothing():
    zeros = halves.split(np.zeros((8, CHUNK), np.float32), 0, 1, False, 0)
    assert isinstance(zeros, Half)
    assert (zeros.fit == [64, 64, 64, 1]).all()
    assert (zeros.span == 255).all()
