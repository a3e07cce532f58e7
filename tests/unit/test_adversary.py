"""The adversary finds what is wrong with multiplications that are wrong, and nothing in those that are right."""

import adversary
import halves
import numpy as np
import pytest

SMALL = ((8, 32, 64), (8, 32, 200))


def plain(a, b):
    with np.errstate(all="ignore"):
        return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)


def tf32(a, b):
    with np.errstate(all="ignore"):
        return plain(*((x.view(np.uint32) + 0x1000 & 0xFFFFE000).view(np.float32) for x in (a.copy(), b.copy())))


def without_low_halves_of_small_ones(a, b):
    """FP16 halves scaled by the largest of a whole row or column: wrong only where ranges are mixed."""

    def split(x, axis):
        with np.errstate(all="ignore"):
            largest = np.abs(x).max(axis=axis, keepdims=True)
            up = np.where(np.isfinite(largest) & (largest > 0), np.ldexp(1.0, 15 - np.frexp(largest)[1]), 1.0)
            high = (x * up).astype(np.float16).astype(np.float64)
            return high + (x * up - high).astype(np.float16), up

    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return plain(a, b)
    (x, of_a), (y, of_b) = split(a.astype(np.float64), 1), split(b.astype(np.float64), 0)
    with np.errstate(all="ignore"):
        return (x @ y / of_a / of_b).astype(np.float32)


def forgets_the_last_of_k(a, b):
    return plain(a[:, :-1], b[:-1]) if a.shape[1] > 64 else plain(a, b)


def loses_nan(a, b):
    return np.nan_to_num(plain(a, b), nan=0.0, posinf=np.inf, neginf=-np.inf)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(adversary, "SHAPES", SMALL)


@pytest.mark.parametrize("wrong", [tf32, without_low_halves_of_small_ones, forgets_the_last_of_k, loses_nan])
def test_what_is_wrong_is_found(wrong):
    measured = adversary.search({"right": plain, "wrong": wrong}, 60, most=600)
    assert measured["tried"] == 600
    assert measured["spoiled"] > 0
    assert {example["by"] for example in measured["examples"]} == {"wrong"}


def test_what_is_right_is_not_accused():
    measured = adversary.search({"right": plain}, 60, seed=1, most=600)
    assert measured["spoiled"] == 0
    assert measured["worst"]["units"] <= 1


def test_changing_the_worst_makes_it_worse(monkeypatch):
    def off_by_its_powers_of_two(a, b):
        with np.errstate(all="ignore"):
            count = (np.abs(np.frexp(a)[0]) == 0.5).sum(axis=1, keepdims=True)
            return (plain(a, b) * (1 + count * 2.0**-23)).astype(np.float32)

    def worst():
        units = [adversary.search({"": off_by_its_powers_of_two}, 60, seed, most=400)["worst"]["units"] for seed in range(3)]
        return float(np.median(units))

    monkeypatch.setattr(adversary, "bound", lambda k: 1e9)  # nothing of this is spoiled
    monkeypatch.setattr(adversary, "drawn", lambda random, *shape: random.standard_normal(shape).astype(np.float32))
    searched = worst()
    monkeypatch.setattr(adversary, "changed", lambda random, parent: (adversary.drawn(random, *parent.a.shape), parent.b))
    assert searched > 3 * worst()


@pytest.mark.slow
def test_the_simulation_of_rung_21_stands_up_to_it():
    measured = adversary.search({"halves": halves.multiply}, 40, seed=3, most=400)
    assert measured["spoiled"] == 0
    assert measured["tried"] > 100


@pytest.mark.slow
def test_without_the_check_of_chunks_the_simulation_does_not(monkeypatch):
    judge = halves.judge
    monkeypatch.setattr(halves, "judge", lambda a, b, k: halves.Verdict(True) if np.isfinite(a.high).all() and np.isfinite(b.high).all()
                                                         else judge(a, b, k))  # fmt: skip
    assert adversary.search({"halves": halves.multiply}, 60, seed=4, most=400)["spoiled"] > 0
