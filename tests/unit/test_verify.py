import numpy as np
import pytest
from ladder.campaign import Problem
from ladder.devices import CANARY, buffer_elements, host_operands, scalars
from ladder.devices.cpu import compare, inside
from ladder.verify import judge


class Case:
    """A problem, its float64 reference, and the verdict on any C."""

    def __init__(self, *shape: int, **given: object) -> None:
        self.problem = Problem(*shape, **given)
        self.a, self.b, self.c0 = host_operands(self.problem)
        p = self.problem
        alpha, beta = (float(x) for x in scalars(p))
        a, b, c = (x[:, :n].astype(float) for x, n in ((self.a, p.k), (self.b, p.n), (self.c0, p.n)))
        self.reference, self.scale = alpha * (a @ b), abs(alpha) * (np.abs(a) @ np.abs(b))
        if beta:
            self.reference, self.scale = self.reference + beta * c, self.scale + abs(beta) * np.abs(c)

    def verdict(self, c, stray=None, tf32=False):
        buffer = np.full(buffer_elements(self.problem) * self.a.itemsize // 4, CANARY, np.uint32).view(self.a.dtype)
        inside(buffer, self.problem)[:, : self.problem.n] = c
        if stray is not None:
            buffer[stray] = 1
        return judge(compare(buffer, self.problem, self.reference, self.scale), self.problem, tf32)

    def product(self, order):
        """alpha*A*B + beta*C in the element type, summed along K in the given order."""
        p, (alpha, beta) = self.problem, scalars(self.problem)
        total = np.zeros((p.m, p.n), self.a.dtype)
        for k in order:
            total += self.a[:, k : k + 1] * self.b[k : k + 1, : p.n]
        return alpha * total + (beta * self.c0[:, : p.n] if beta else 0)


CASES = [
    ((33, 17, 500), {}), ((64, 64, 64), {"alpha": -1.5, "beta": 0.5, "padding": 3}), ((1, 1, 1), {}),
    ((7, 5, 3000), {"distribution": "normal"}),
    ((33, 17, 50), {"element_type": "float64"}), ((1, 9, 2), {"beta": 1.0}), ((8, 8, 64), {"alpha": 0.0, "beta": 1.0}),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "given"), CASES)
@pytest.mark.parametrize("order", ["forward", "backward", "shuffled"])
def test_honest_arithmetic_passes_in_any_order(shape, given, order):
    case = Case(*shape, **given)
    ks = np.arange(case.problem.k)
    ks = {"forward": ks, "backward": ks[::-1], "shuffled": np.random.default_rng(3).permutation(ks)}[order]
    verdict = case.verdict(case.product(ks))
    assert (verdict.status, verdict.reason) == ("correct", "")
    assert verdict.component_error <= verdict.component_bound


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_nan_or_infinity_never_passes(value):
    case = Case(64, 64, 64)
    c = case.product(range(64))
    c[63, 63] = value
    verdict = case.verdict(c)
    assert verdict.status == "incorrect"
    assert verdict.reason.startswith("1 of 4096 elements are NaN")
    assert verdict.frobenius_error is None


def test_an_element_not_written_never_passes():
    case = Case(64, 64, 64)
    c = case.product(range(64))
    c.view(np.uint32)[5, 6] = CANARY
    assert case.verdict(c).status == "incorrect"


@pytest.mark.parametrize("padding", [0, 5])
def test_a_write_outside_c_never_passes(padding):
    case = Case(16, 16, 16, padding=padding)
    c = case.product(range(16))
    spots = [0, 1023, 1024 + 16 * (16 + padding), -1, *([1024 + 16] if padding else [])]
    for spot in spots:
        verdict = case.verdict(c, stray=spot)
        assert (verdict.status, verdict.reason) == ("incorrect", "1 elements outside C were overwritten")


@pytest.mark.parametrize("k", [16, 500, 4096])
def test_a_product_left_out_does_not_pass(k):
    case = Case(64, 64, k)
    assert case.verdict(case.product(range(k - 1))).status == "incorrect"


def test_a_transposed_product_does_not_pass():
    case = Case(64, 64, 64)
    wrong = (case.b[:, :64] @ case.a[:, :64]).astype(np.float32)
    assert case.verdict(wrong).status == "incorrect"


def test_operands_rounded_to_tf32_pass_only_as_tf32():
    case = Case(256, 256, 512)
    a, b = ((x.view(np.uint32) & 0xFFFFE000).view(np.float32).astype(float) for x in (case.a, case.b))
    c = (a @ b).astype(np.float32)
    assert case.verdict(c).status == "incorrect"
    assert case.verdict(c, tf32=True).status == "correct"


def test_operands_are_the_same_for_a_seed_and_never_zero():
    first, second, other = (host_operands(Problem(20, 30, 40, seed=seed))[0] for seed in (1, 1, 2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)
    assert np.count_nonzero(first) == first.size
    assert np.isnan(host_operands(Problem(4, 4, 4))[2]).all()  # beta == 0: a kernel that reads C gets NaN
