"""The campaigns of 16-bit elements: the problems that nothing was tuned on are those that a rule
with a seed draws.
"""

import math
import random
from collections.abc import Collection

import yaml
from planted import HOME

STEPS, LEAST, MOST = (8, 64, 1), 2**21, 2**39
"""Of sizes; of products in a problem."""
TRIED = (*range(2027, 2034), *range(5001, 5009), *range(6001, 6030))
"""Seeds of earlier draws, which changes to the rungs were tried on."""
OF_MODELS = [[4096, 14336, 4096], [8192, 28672, 8192], [16, 4096, 4096], [1, 4096, 4096]]
"""Layers of a language model of 8 and of 70 billion parameters, and two that write one word each
for 16 readers and for one.
"""


def size(generator, low: int, high: int, step: int) -> int:
    drawn = math.exp(generator.uniform(math.log(low), math.log(high)))
    return max(1, round(drawn / step)) * step


def drawn(seed: int, known: Collection[tuple[int, ...]] = ()) -> list[tuple[int, ...]]:
    """Return 44 problems: squares, few rows, a long K and anything in turn; sizes from 1 to 16384,
    multiples of 8, of 64 and of nothing.
    """
    generator, shapes = random.Random(seed), []
    while len(shapes) < 44:
        step = STEPS[len(shapes) % len(STEPS)]
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
        if LEAST <= math.prod(shape) <= MOST and shape not in {*known, *shapes}:
            shapes.append(shape)
    return shapes


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


def test_the_unseen_problems_are_drawn_by_the_rule():
    """They are those that no rung was tuned on, and that earlier draws did not have. Some have
    padded rows.
    """
    (squares, *others), problems = (
        yaml.safe_load((HOME / "config" / name).read_text())["problems"]["cuda"]
        for name in ("half.yaml", "half-unseen.yaml")
    )
    known = {(n, n, n) for n in squares["square"]}
    known |= {tuple(problem) for problem in [*others, *OF_MODELS]}
    for earlier in TRIED:
        known |= {*drawn(earlier)}
    unseen = [dict(zip("MNK", shape, strict=True)) for shape in drawn(2034, known)]
    for problem in unseen[4::5]:
        problem["padding"] = [8, 8, 8]
    assert problems == [*OF_MODELS, *unseen]
