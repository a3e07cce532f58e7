"""The search over random problems draws what it says, and reports a kernel that is incorrect on
some of them.
"""

import math
from itertools import count
from random import Random

import pytest
import random_problems
from ladder.measuring.verify import Verdict
from ladder.model.kernel import Configuration
from ladder.model.kernel_file import discover
from planted import ROOT

RUNG = discover(ROOT)["cuda/41_half_shifted_rows"]
TENSOR_MAPS = discover(ROOT)["cuda/30_half_tensor_maps"]
NAMES = {"sm_count": 132, "shared_memory_per_block": 232448, "clusters_of_4": 30}
CORRECT = Verdict("correct")


def search(ways, seed=0, seconds=300):
    clock = count()
    return random_problems.search(
        ways,
        lambda problem: {**problem.names(), **NAMES},
        seconds,
        seed,
        lambda: float(next(clock)),
    )


def searched(ways, seed=0):
    return list(search(ways, seed))[-1]


def way(kernel, element_type="bfloat16"):
    return kernel, Configuration(element_type, tuple(kernel.parameters.items()))


@pytest.fixture(scope="module")
def problems():
    dice = Random(5)
    return [random_problems.drawn(dice, "float16") for _ in range(3000)]


def test_sizes_divide_tiles_and_do_not(problems):
    sizes = [size for problem in problems for size in (problem.m, problem.n, problem.k)]
    assert min(sizes) == 1
    assert max(sizes) >= 2000
    assert {7, 17, 65, 64, 128} <= set(sizes)
    assert 0.3 < sum(size % 8 == 0 for size in sizes) / len(sizes) < 0.7


def test_rows_begin_anywhere_and_distances_between_rows_differ(problems):
    assert {problem.lda % 8 for problem in problems} == set(range(8))
    assert (
        len({problem.ldb - problem.n for problem in problems})
        == len({problem.lda - problem.k for problem in problems})
        == 20
    )
    assert {problem.offset for problem in problems} == {0, 1, 4}


def test_half_of_the_problems_have_rows_at_multiples_of_16_bytes(problems):
    aligned = [it for it in problems if math.gcd(it.lda, it.ldb, it.ldc, it.offset, 8) == 8]
    assert 0.45 < len(aligned) / len(problems) < 0.6
    assert {it.m % 8 for it in aligned} == set(range(8))


def test_scalars_are_of_every_kind(problems):
    assert {(problem.alpha, problem.beta) for problem in problems} == {
        (a, b) for a in (1.0, -0.75, 0.0) for b in (0.0, 0.5, 1.0)
    }


def test_what_is_incorrect_on_some_problems_is_reported_with_one_of_them():
    def incorrect(problem):
        return Verdict("incorrect", "off") if problem.k > 1000 else CORRECT

    measured = searched([(*way(RUNG), incorrect), (*way(RUNG, "float16"), lambda problem: CORRECT)])
    assert 0 < measured["incorrect"] < measured["launches"][RUNG.name]
    assert measured["examples"][0]["by"].startswith(f"{RUNG.name} BM=64")
    assert all(
        int(example["on"].split("K=")[1].split()[0]) > 1000 for example in measured["examples"]
    )


def test_the_search_ends_with_the_time_and_draws_the_same_for_a_seed():
    seen = {}

    def noted(key):
        return lambda problem: seen.setdefault(key, []).append(problem) or CORRECT

    assert searched([(*way(RUNG), noted("first"))])["seconds"] == pytest.approx(300, abs=2)
    searched([(*way(RUNG), noted("again"))])
    searched([(*way(RUNG), noted("other"))], seed=1)
    assert seen["first"] == seen["again"] != seen["other"]


def test_what_is_measured_is_told_every_minute_and_at_the_end():
    so_far = list(search([(*way(RUNG), lambda problem: CORRECT)]))
    assert [it["seconds"] for it in so_far] == [60, 120, 180, 240, 300]
    launches = [it["launches"][RUNG.name] for it in so_far]
    assert launches == sorted(set(launches))
    assert [it["problems"] for it in so_far] == [60, 120, 180, 240, 300]


def test_the_last_minute_may_be_shorter():
    assert [
        it["seconds"] for it in search([(*way(RUNG), lambda problem: CORRECT)], seconds=90)
    ] == [60, 90]
    assert [
        it["problems"] for it in search([(*way(RUNG), lambda problem: CORRECT)], seconds=0)
    ] == [1]


def test_no_kernel_gets_a_problem_that_it_does_not_support():
    def aligned(problem):
        assert math.gcd(problem.lda, problem.ldb) % 8 == 0
        return CORRECT

    measured = searched([(*way(TENSOR_MAPS), aligned)])
    assert measured["problems"] > 250
    assert 0 < measured["launches"][TENSOR_MAPS.name] < 100
