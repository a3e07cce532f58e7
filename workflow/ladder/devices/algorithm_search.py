"""Search the algorithms of a vendor's library for the fastest one on a problem.

An algorithm is an assignment of its parameters. The search times the library's own proposals first,
then random algorithms, then those that differ from the fastest in one parameter. It ends at a
budget, and times the fastest few once more in rounds.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from statistics import median

from ladder.core import clock

Algorithm = tuple[tuple[str, int], ...]
"""The values of an algorithm's parameters by name; `ID` is that of the algorithm itself."""
Spaces = Mapping[int, Mapping[str, Sequence[int]]]
"""By `ID`, the values that each other parameter may have, its default first."""

TIMED = 300
"""The most algorithms that are timed: more than the configurations of all rungs on a problem."""
TRIED = 20_000
"""The most that are tried. Most of them the library does not run on the problem."""
SECONDS = 10.0
"""The longest time of the search. The proposals that come first, and the rounds, are not cut off."""
PROPOSED, DRAWN = 0.3, 0.6
"""The shares of the budget after which no proposal, and no random algorithm, is tried."""
PROPOSALS = 8
"""The library's first proposals, which are timed whatever the budget is."""
LAST = 8
"""The algorithms that are timed in rounds, and those whose neighbors are tried."""
STEP = 8
"""The neighbors that are tried before those of an algorithm that is now the fastest."""
ROUNDS = 9
USUAL = 0.5
"""The probability that a random algorithm has a parameter's default."""
OFTEN_CHANGED = ("TILE", "STAGES")
"""Parameters whose default seldom means anything."""


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
    tries = 0

    def attempt(algorithms: Iterable[Algorithm], share: float) -> bool:
        """Try algorithms until a share of the budget is used; return whether some is left."""
        nonlocal tries
        for algorithm in algorithms:
            used = len(took) / TIMED, tries / TRIED, (clock.now() - start) / SECONDS
            if max(used) >= share:
                return False
            tries += 1
            if algorithm not in tried:
                tried.add(algorithm)
                if (time := us(algorithm)) is not None:
                    took[algorithm] = time
        return True

    proposed = list(dict.fromkeys(proposals))
    attempt(proposed[:PROPOSALS], math.inf)
    attempt(proposed[PROPOSALS:], PROPOSED)
    attempt(iter(lambda: _drawn(spaces, random), None) if spaces else (), DRAWN)
    left = bool(took)
    while left:
        bases = sorted(took, key=took.__getitem__)[:LAST]
        untried = ([each for each in _near(base, spaces) if each not in tried] for base in bases)
        near = next(filter(None, untried), [])  # of the fastest that has some
        left = bool(near) and attempt(random.sample(near, min(STEP, len(near))), 1.0)
    last = sorted(took, key=took.__getitem__)[:LAST]
    times: dict[Algorithm, list[float]] = {algorithm: [] for algorithm in last}
    for _ in range(ROUNDS):
        random.shuffle(last)
        for algorithm in last:
            times[algorithm].append(us(algorithm) or math.inf)
    return min(times, key=lambda algorithm: median(times[algorithm]), default=None)


def _drawn(spaces: Spaces, random: Random) -> Algorithm:
    id = random.choice(list(spaces))
    values = {
        name: known[0]
        if name not in OFTEN_CHANGED and random.random() < USUAL
        else random.choice(known)
        for name, known in spaces[id].items()
    }
    return (("ID", id), *values.items())


def _near(algorithm: Algorithm, spaces: Spaces) -> list[Algorithm]:
    """Return the algorithms that differ from one in a parameter."""
    values = dict(algorithm)
    changes = {"ID": list(spaces), **spaces.get(values["ID"], {})}
    return [
        tuple((values | {name: value}).items())
        for name, known in changes.items()
        for value in known
        if value != values[name]
    ]
