"""The ring of stages of rung 21, whose producers take turns: its barriers, simulated in random
order.

A barrier knows no more of its phase than the parity. Who waits for a phase with the parity of the
one before the present one goes on at once: so a producer must never come to a stage while the
consumers have yet to give it back twice.
"""

import random
from collections.abc import Iterator

import pytest
from ladder.model.kernel_file import discover
from planted import ROOT

WARPS, CHUNKS, ORDERS = 3, 40, 60


class Barrier:
    """An mbarrier: a phase ends with the last arrival (PTX ISA, "mbarrier")."""

    def __init__(self, arrivals: int) -> None:
        self.arrivals, self.count = arrivals, 0

    @property
    def phase(self) -> int:
        return self.count // self.arrivals

    def arrive(self) -> None:
        self.count += 1

    def over(self, parity: int) -> bool:
        """`mbarrier.test_wait.parity`."""
        return self.phase % 2 != parity


class Wrong(Exception):
    """A stage was written over, or read too early."""


class Stage:
    """It holds half a chunk, and two warps or more give it back."""

    def __init__(self) -> None:
        self.full, self.empty = Barrier(1), Barrier(WARPS)
        self.holds, self.readers = -1, 0


Wait = tuple[Barrier, int] | None


def halves(ring: list[Stage], parity: int) -> Iterator[tuple[int, Stage, int]]:
    """Chunk, stage and parity of one half after the other, as kernels count them."""
    for half in range(2 * CHUNKS):
        turn, place = divmod(half, len(ring))
        yield half // 2, ring[place], parity ^ turn % 2


def producer(ring: list[Stage], team: int, teams: int) -> Iterator[Wait]:
    for chunk, stage, parity in halves(ring, 1):
        if chunk % teams == team:
            yield stage.empty, parity
            if stage.readers or stage.full.phase != stage.empty.phase:
                raise Wrong
            stage.holds = chunk
            yield None
            stage.full.arrive()


def consumer(ring: list[Stage]) -> Iterator[Wait]:
    parts = halves(ring, 0)
    for first, second in zip(parts, parts, strict=True):
        for _, stage, parity in (first, second):
            yield stage.full, parity
            stage.readers += 1
        yield None
        for chunk, stage, _ in (first, second):
            if stage.holds != chunk:
                raise Wrong
            stage.readers -= 1
            stage.empty.arrive()


def run(stages: int, teams: int, chance: random.Random) -> bool:
    """Return whether all agents come to their end in one order."""
    ring = [Stage() for _ in range(stages)]
    agents = [producer(ring, team, teams) for team in range(teams)]
    agents += [consumer(ring) for _ in range(WARPS)]
    waits: dict[Iterator[Wait], Wait] = dict.fromkeys(agents)
    speed = {agent: chance.choice([1, 30]) for agent in agents}
    while waits:
        ready = [agent for agent, wait in waits.items() if wait is None or wait[0].over(wait[1])]
        if not ready:
            return False
        (agent,) = chance.choices(ready, [speed[agent] for agent in ready])
        try:
            waits[agent] = next(agent)
        except StopIteration:
            del waits[agent]
        except Wrong:
            return False
    return True


@pytest.mark.parametrize("stages", range(3, 10))
def test_as_many_teams_are_safe_as_the_ring_has_chunks_and_the_kernel_asks_for_that(stages):
    safe = {
        teams: all(run(stages, teams, random.Random(seed)) for seed in range(ORDERS))
        for teams in range(1, 7)
    }
    assert safe == {teams: teams <= (stages + 1) // 2 for teams in safe}
    swept = {"BM": [64], "BN": [64], "STAGES": [stages], "SLICES": [1], "DIRECT": [1, 2, 3]}
    for configuration, objection in discover(ROOT)["cuda/21_tensor_split"].expand(
        swept, ["float32"]
    ):
        assert safe[dict(configuration.parameters)["DIRECT"]] == (not objection)
