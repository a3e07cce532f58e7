"""The campaigns of 16-bit and 8-bit elements: the problems that nothing was tuned on are those that a
rule with a seed draws.
"""

import math
import random
from collections.abc import Collection, Sequence

import pytest
import yaml
from planted import HOME

STEPS, MOST = (8, 64, 1), 2**39
"""Of sizes; of products in a problem."""
TRIED = (*range(2027, 2034), *range(5001, 5009), *range(6001, 6030))
"""Seeds of earlier draws, which changes to the rungs were tried on."""
CAMPAIGNS = {
    "half-unseen": (7002, 44, 2**21),
    "headline": (7001, 8, 2**30),
    "layouts": (7003, 24, 2**21),
    "layouts-float32": (7004, 12, 2**26),
}
"""Seed, number of problems, and the fewest products of one."""
OF_MODELS = [[4096, 14336, 4096], [8192, 28672, 8192], [16, 4096, 4096], [1, 4096, 4096]]
"""Layers of language models, which earlier draws had."""


def size(generator, low: int, high: int, step: int) -> int:
    drawn = math.exp(generator.uniform(math.log(low), math.log(high)))
    return max(1, round(drawn / step)) * step


def drawn(
    seed: int,
    number: int = 44,
    least: int = 2**21,
    known: Collection[tuple[int, ...]] = (),
    steps: Sequence[int] = STEPS,
) -> list[tuple[int, ...]]:
    """Return problems: squares, few rows, a long K and anything in turn; sizes from 1 to 16384,
    multiples of the `steps` in turn.
    """
    generator, shapes = random.Random(seed), []
    while len(shapes) < number:
        step = steps[len(shapes) % len(steps)]
        kind = len(shapes) % 4
        if kind == 0:
            shape = (size(generator, 64, 8192, step),) * 3
        else:
            ranges = {
                1: [(1, 128, 1), (512, 16384, step), (512, 16384, step)],
                2: [(64, 1024, step), (64, 1024, step), (4096, 16384, step)],
                3: [(16, 16384, step)] * 3,
            }
            shape = tuple(size(generator, *limits) for limits in ranges[kind])
        if least <= math.prod(shape) <= MOST and shape not in {*known, *shapes}:
            shapes.append(shape)
    return shapes


def problems_of(campaign: str):
    return yaml.safe_load((HOME / "config" / f"{campaign}.yaml").read_text())["problems"]["cuda"]


def batches(seed: int) -> list[dict[str, int | str]]:
    """Return 24 batches: sizes from 64 to 512, multiples of 8, and 16 to 512 products, as they are
    and with B transposed in turn.
    """
    generator, problems = random.Random(seed), []
    for turn in range(24):
        sizes = {name: size(generator, 64, 512, 8) for name in "MNK"}
        own = {"batch": size(generator, 16, 512, 1), "layout": ("nn", "nt")[turn % 2]}
        problems.append(sizes | own)
    return problems


def test_the_unseen_batches_are_drawn_by_the_rule():
    entries = yaml.safe_load((HOME / "config" / "batch.yaml").read_text())["problems"]["cuda"]
    assert entries[4:] == batches(7001)


@pytest.mark.parametrize("campaign", CAMPAIGNS)
def test_the_unseen_problems_are_drawn_by_the_rule(campaign):
    """They are those that no rung was tuned on, and that earlier draws did not have. Some have
    padded rows.
    """
    squares, *others = problems_of("half")
    known = {(n, n, n) for n in squares["square"]} | set(map(tuple, [*others, *OF_MODELS]))
    known = known.union(*map(drawn, TRIED))
    known = known.union(drawn(2034, known=known))  # as it is published
    expected = [
        dict(zip("MNK", shape, strict=True)) for shape in drawn(*CAMPAIGNS[campaign], known)
    ]
    for problem in expected[4::5]:
        problem["padding"] = [8, 8, 8]
    assert [each for each in problems_of(campaign) if "M" in each] == expected


def test_the_problems_of_8_bits_have_rows_at_16_bytes_as_cublas_needs_them():
    campaign = yaml.safe_load((HOME / "config" / "fp8.yaml").read_text())
    squares, *others = campaign["problems"]["cuda"]
    unseen = [list(shape) for shape in drawn(8_128, number=24, steps=(16, 64))]
    assert squares == {"square": [2048, 4096, 8192]}
    assert others == [*OF_MODELS, *unseen]
    assert all(n % 8 == k % 16 == 0 for _, n, k in others)
