"""The search of a library's algorithms keeps to its budget and finds the fastest one."""

from collections import Counter
from random import Random

import pytest
from ladder.core import clock
from ladder.devices.algorithm_search import FIRST, LAST, ROUNDS, SECONDS, TIMED, TRIED, fastest

VALUES = {"TILE": range(40), "STAGES": range(9), "SPLITK": (1, 2, 4), "CLUSTER": (0, 1)}
CHANGES = [{name: value} for name, values in VALUES.items() for value in values]
SPACES = dict.fromkeys(range(5), CHANGES)
BEST = (("ID", 3), ("TILE", 31), ("STAGES", 7), ("SPLITK", 4), ("CLUSTER", 1))
PROPOSED = [
    (("ID", 1), ("TILE", n), ("STAGES", 0), ("SPLITK", 1), ("CLUSTER", 0)) for n in range(12)
]


class Library:
    """Algorithms that are slower the more they differ from the best, and take a while to time."""

    def __init__(self, seconds=0.001, refuses=lambda values: False):
        self.seconds, self.refuses, self.times = seconds, refuses, Counter()

    def us(self, algorithm):
        clock.sleep(self.seconds)
        if self.refuses(dict(algorithm)):
            return None
        self.times[algorithm] += 1
        off = sum(abs(value - best) for (_, value), (_, best) in zip(algorithm, BEST, strict=True))
        return 100.0 + off

    def search(self, seed=0, proposals=PROPOSED, spaces=SPACES):
        return fastest(proposals, spaces, self.us, Random(seed))


@pytest.mark.parametrize("seed", range(5))
def test_it_finds_one_of_the_fastest_of_thousands_in_a_few_hundred(virtual_clock, seed):
    library = Library(refuses=lambda values: values["STAGES"] == 8)
    found = library.search(seed)
    assert library.us(found) <= 104 < min(map(library.us, PROPOSED)) - 20
    assert set(PROPOSED) <= set(library.times)
    assert len(library.times) <= TIMED < 5 * 40 * 9 * 3 * 2 / 10


def test_the_fastest_are_timed_in_rounds(virtual_clock):
    library = Library()
    library.search()
    again = [count for count in library.times.values() if count > 1]
    assert again == [1 + ROUNDS] * LAST


def test_a_budget_ends_it_and_the_first_proposals_are_timed_whatever_it_is(virtual_clock):
    library = Library(seconds=SECONDS)  # of one launch
    start = clock.now()
    assert library.search() in PROPOSED[:FIRST]
    assert set(library.times) == set(PROPOSED[:FIRST])
    assert clock.now() - start == pytest.approx(SECONDS * 8 * 2)  # one round, not all


def test_a_library_that_refuses_nearly_everything_is_asked_so_often_and_no_more(virtual_clock):
    library, asked = Library(seconds=0), Counter()

    def us(algorithm):
        asked[algorithm] += 1
        return None if algorithm != PROPOSED[0] else library.us(algorithm)

    assert fastest(PROPOSED, SPACES, us, Random(0)) == PROPOSED[0]
    assert sum(asked.values()) <= TRIED + ROUNDS


def test_without_an_algorithm_nothing_is_found(virtual_clock):
    assert Library().search(proposals=[], spaces={}) is None
    assert Library(refuses=lambda values: True).search() is None
