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
        self.arrivals, self.pending, self.phase = arrivals, arrivals, 0

    def arrive(self) -> None:
        self.pending -= 1
        if self.pending == 0:
            self.phase, self.pending = self.phase + 1, self.arrivals

    def over(self, parity: int) -> bool:
        """`mbarrier.test_wait.parity`."""
        return self.phase % 2 != parity


class Ring:
    """The stages, and what goes wrong with them; a stage holds half a chunk, and two warps or more
    give it back.
    """

    def __init__(self, stages: int) -> None:
        self.full, self.empty = (
            [Barrier(1) for _ in range(stages)],
            [Barrier(WARPS) for _ in range(stages)],
        )
        self.holds: list[int | None] = [None] * stages
        self.reading, self.wrong = [0] * stages, False

    def halves(self, parity: int) -> Iterator[tuple[int, int]]:
        """Stage and parity of one half of a chunk after the other, as kernels count them."""
        stage = 0
        while True:
            yield stage, parity
            stage = (stage + 1) % len(self.full)
            parity ^= stage == 0

    def producer(self, team: int, teams: int) -> Iterator[tuple[Barrier, int] | None]:
        halves = self.halves(1)
        for chunk in range(CHUNKS):
            for stage, parity in (next(halves), next(halves)):
                if chunk % teams == team:
                    yield self.empty[stage], parity
                    self.wrong |= (
                        self.reading[stage] > 0 or self.full[stage].phase != self.empty[stage].phase
                    )
                    self.holds[stage] = chunk
                    yield None
                    self.full[stage].arrive()

    def consumer(self) -> Iterator[tuple[Barrier, int] | None]:
        halves = self.halves(0)
        for chunk in range(CHUNKS):
            mine = [next(halves), next(halves)]
            for stage, parity in mine:
                yield self.full[stage], parity
                self.reading[stage] += 1
            yield None
            for stage, _ in mine:
                self.wrong |= self.holds[stage] != chunk
                self.reading[stage] -= 1
                self.empty[stage].arrive()


def safe(stages: int, teams: int) -> bool:
    """Whether nothing is written over or read too early, nor waits for ever, in many orders."""
    for seed in range(ORDERS):
        chance, ring = random.Random(seed), Ring(stages)
        agents = [ring.producer(team, teams) for team in range(teams)] + [
            ring.consumer() for _ in range(WARPS)
        ]
        waits: dict[int, tuple[Barrier, int] | None] = dict.fromkeys(range(len(agents)))
        speed = [chance.choice([1, 30]) for _ in agents]
        while waits and not ring.wrong:
            ready = [at for at, wait in waits.items() if wait is None or wait[0].over(wait[1])]
            if not ready:
                return False
            (at,) = chance.choices(ready, [speed[at] for at in ready])
            try:
                waits[at] = next(agents[at])
            except StopIteration:
                del waits[at]
        if ring.wrong:
            return False
    return True


@pytest.mark.parametrize("stages", range(3, 10))
def test_as_many_teams_are_safe_as_the_ring_has_chunks(stages):
    assert [teams for teams in range(1, 7) if safe(stages, teams)] == list(
        range(1, (stages + 1) // 2 + 1)
    )


def test_the_kernel_asks_for_that():
    kernel = discover(ROOT)["cuda/21_tensor_split"]
    swept = {
        "BM": [64],
        "BN": [64],
        "STAGES": list(range(3, 10)),
        "SLICES": [1],
        "DIRECT": [1, 2, 3],
    }
    allowed = {
        (names["STAGES"], names["DIRECT"]): not objection
        for configuration, objection in kernel.expand(swept, ["float32"])
        for names in [dict(configuration.parameters)]
    }
    assert allowed == {(stages, teams): teams <= (stages + 1) // 2 for stages, teams in allowed}
    assert not all(allowed.values())
