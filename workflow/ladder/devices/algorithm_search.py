"""Search the algorithms of a vendor's library for the fastest one on a problem.

An algorithm is an assignment of its parameters. The search times the library's own proposals, then
those that are one change away from the fastest, until its budget is used. It times the fastest
few once more, in rounds.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from statistics import median

from ladder.core import clock

Algorithm = tuple[tuple[str, int], ...]
"""The values of an algorithm's parameters by name; `ID` is that of the algorithm itself."""
Spaces = Mapping[int, Sequence[dict[str, int]]]
"""By `ID`, what an algorithm may change: a parameter, or several that belong together."""

TIMED = 300
"""The most algorithms that are timed: more than the configurations of all rungs on a problem."""
TRIED = 20_000
"""The most that are tried. Most of them the library does not run on the problem."""
SECONDS, MOST = 10.0, 3
"""The longest time of the search, without the first proposals and the rounds; and after how many
times that no other round begins.
"""
PROPOSED = 0.5
"""The share of the budget after which no proposal is tried."""
FIRST = 8
"""The library's first proposals, which are timed whatever the budget is."""
LAST = 8
"""The algorithms that are timed in rounds, and those whose neighbors are tried."""
STEP = 8
"""The neighbors that are tried before those of an algorithm that is now the fastest."""
ROUNDS = 9


def fastest(
    proposals: Iterable[Algorithm],
    spaces: Spaces,
    us: Callable[[Algorithm], float | None],
    random: Random,
) -> Algorithm | None:
    """Return the fastest algorithm that was found; None if the library runs none.

    `us` returns the microseconds of a launch, or None for an algorithm that the library refuses.
    """
    start, took, tried = clock.now(), dict[Algorithm, float](), set[Algorithm]()

    def attempt(algorithms: Iterable[Algorithm], share: float = 1.0) -> bool:
        """Try algorithms until a share of the budget is used; return whether some is left."""
        for algorithm in algorithms:
            used = len(took) / TIMED, len(tried) / TRIED, (clock.now() - start) / SECONDS
            if max(used) >= share:
                return False
            tried.add(algorithm)
            if (time := us(algorithm)) is not None:
                took[algorithm] = time
        return True

    proposed = list(dict.fromkeys(proposals))
    attempt(proposed[:FIRST], math.inf)
    attempt(proposed[FIRST:], PROPOSED)
    left = True
    while left:
        bases = sorted(took, key=took.__getitem__)[:LAST]
        untried = ([each for each in _near(base, spaces) if each not in tried] for base in bases)
        near = next(filter(None, untried), [])  # of the fastest that has some
        left = bool(near) and attempt(random.sample(near, min(STEP, len(near))))
    last = sorted(took, key=took.__getitem__)[:LAST]
    times: dict[Algorithm, list[float]] = {algorithm: [] for algorithm in last}
    for turn in range(ROUNDS):
        if turn and clock.now() - start > MOST * SECONDS:
            break
        random.shuffle(last)
        for algorithm in last:
            times[algorithm].append(us(algorithm) or math.inf)
    return min(times, key=lambda algorithm: median(times[algorithm]), default=None)


def _near(algorithm: Algorithm, spaces: Spaces) -> list[Algorithm]:
    """Return the algorithms that are a change away from one."""
    values = dict(algorithm)
    changes = [{"ID": id} for id in spaces] + [*spaces.get(values["ID"], ())]
    near = (tuple((values | change).items()) for change in changes)
    return [each for each in near if each != algorithm]
