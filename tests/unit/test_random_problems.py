"""The search over random problems draws what it says, and reports a kernel that is incorrect on
some of them.
"""

import math
from itertools import count, product
from random import Random

import pytest
import random_problems
from ladder.core.types import LAYOUTS
from ladder.measuring.verify import Verdict
from ladder.model.kernel import Configuration
from rungs import ALL

RUNG = ALL["cuda/41_half_shifted_rows"]
TENSOR_MAPS = ALL["cuda/30_half_tensor_maps"]
NAMES = {"sm_count": 132, "shared_memory_per_block": 232448, "clusters_of_4": 30}
CORRECT = Verdict("correct")


def search(verify, kernel=RUNG, seed=0, seconds=300):
    """What is measured of a kernel in bfloat16, on a clock that ticks once a problem."""
    clock = count()
    way = kernel, Configuration("bfloat16", tuple(kernel.parameters.items())), verify
    return list(
        random_problems.search(
            [way],
            lambda problem: {**problem.names(), **NAMES},
            seconds,
            seed,
            lambda: float(next(clock)),
        )
    )


def test_problems_are_of_every_kind():
    dice = Random(5)
    problems = [random_problems.drawn(dice, "float16") for _ in range(3000)]
    sizes = [size for problem in problems for size in (problem.m, problem.n, problem.k)]
    assert min(sizes) == 1
    assert max(sizes) >= 2000
    assert {7, 17, 65, 64, 128} <= set(sizes)
    assert 0.3 < sum(size % 8 == 0 for size in sizes) / len(sizes) < 0.7
    assert {problem.form for problem in problems} == set(product(LAYOUTS, (False, True)))
    assert {problem.lda % 8 for problem in problems} == set(range(8))
    assert len({problem.ldb - problem.shapes[1][1] for problem in problems}) == 20
    assert {problem.offset for problem in problems} == {0, 1, 4}
    aligned = [
        problem
        for problem in problems
        if math.gcd(problem.lda, problem.ldb, problem.ldc, problem.offset, 8) == 8
    ]
    assert 0.45 < len(aligned) / len(problems) < 0.6
    assert {problem.m % 8 for problem in aligned} == set(range(8))
    scalars = {(problem.alpha, problem.beta) for problem in problems}
    assert scalars == {(a, b) for a in (1.0, -0.75, 0.0) for b in (0.0, 0.5, 1.0)}


def test_what_is_incorrect_on_some_problems_is_reported_with_one_of_them():
    def incorrect(problem):
        return Verdict("incorrect", "off") if problem.k > 1000 else CORRECT

    measured = search(incorrect)[-1]
    assert 0 < measured["incorrect"] < measured["launches"][RUNG.name]
    for example in measured["examples"]:
        assert example["by"].startswith(f"{RUNG.name} BM=64")
        assert int(example["on"].split("K=")[1].split()[0]) > 1000


@pytest.mark.parametrize(
    ("seconds", "times"), [(300, [60, 120, 180, 240, 300]), (90, [60, 90]), (0, [1])]
)
def test_what_is_measured_is_told_every_minute_and_at_the_end(seconds, times):
    so_far = search(lambda problem: CORRECT, seconds=seconds)
    assert [measured["problems"] for measured in so_far] == times
    assert [measured["seconds"] for measured in so_far] == times


def test_a_seed_draws_the_same_again():
    drawn = []
    for seed in (0, 0, 1):
        drawn.append([])
        search(lambda problem: drawn[-1].append(problem) or CORRECT, seed=seed)
    assert drawn[0] == drawn[1] != drawn[2]


def test_no_kernel_gets_a_problem_that_it_does_not_support():
    def aligned(problem):
        assert math.gcd(problem.lda, problem.ldb) % 8 == 0
        return CORRECT

    measured = search(aligned, TENSOR_MAPS)[-1]
    assert measured["problems"] > 250
    assert 0 < measured["launches"][TENSOR_MAPS.name] < 100
