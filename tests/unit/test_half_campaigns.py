"""The campaigns of 16-bit elements: the problems that nothing was tuned on are those that a rule
with a seed draws.
"""

import math
import random
from collections.abc import Collection
from pathlib import Path

import yaml
from ladder.model import campaign_file
from ladder.model.kernel_file import discover
from planted import ROOT

STEPS, LEAST, MOST = (8, 64, 1), 2**21, 2**39
"""Of sizes; of products in a problem."""
TRIED = (*range(2027, 2034), *range(5001, 5009), *range(6001, 6030))
"""Seeds of earlier draws, which changes to the rungs were tried on."""
OF_MODELS = [[4096, 14336, 4096], [8192, 28672, 8192], [16, 4096, 4096], [1, 4096, 4096]]
"""Layers of a language model of 8 and of 70 billion parameters, and two that write one word each
for 16 readers and for one.
"""


def written(name: str) -> dict[str, object]:
    return yaml.safe_load((ROOT / "config" / f"{name}.yaml").read_text())


def drawn(seed: int, known: Collection[tuple[int, ...]] = ()) -> list[tuple[int, ...]]:
    """Return 44 problems: squares, few rows, a long K and anything in turn; sizes from 1 to 16384,
    multiples of 8, of 64 and of nothing.
    """
    generator, shapes = random.Random(seed), []

    def size(low: int, high: int, step: int) -> int:
        return (
            max(1, round(math.exp(generator.uniform(math.log(low), math.log(high))) / step)) * step
        )

    while len(shapes) < 44:
        step = STEPS[len(shapes) % len(STEPS)]
        kind = len(shapes) % 4
        if kind == 0:
            shape = (size(64, 8192, step),) * 3
        elif kind == 1:
            shape = size(1, 128, 1), size(512, 16384, step), size(512, 16384, step)
        elif kind == 2:
            shape = size(64, 1024, step), size(64, 1024, step), size(4096, 16384, step)
        else:
            shape = size(16, 16384, step), size(16, 16384, step), size(16, 16384, step)
        if LEAST <= math.prod(shape) <= MOST and shape not in {*known, *shapes}:
            shapes.append(shape)
    return shapes


def unseen(seed: int = 2034) -> list[dict[str, object]]:
    """Return problems that no rung was tuned on, and that earlier draws did not have. Some have
    padded rows.
    """
    squares, *others = written("half")["problems"]["cuda"]
    known = {(n, n, n) for n in squares["square"]} | {
        tuple(problem) for problem in [*others, *OF_MODELS]
    }
    for earlier in TRIED:
        known |= {*drawn(earlier)}
    problems = [dict(zip("MNK", shape, strict=True)) for shape in drawn(seed, known)]
    return [
        problem | ({"padding": [8, 8, 8]} if i % 5 == 4 else {})
        for i, problem in enumerate(problems)
    ]


def test_the_unseen_problems_are_drawn_by_the_rule():
    problems = written("half-unseen")["problems"]["cuda"]
    assert problems[:4] == OF_MODELS
    assert problems[4:] == unseen()


def test_both_campaigns_have_every_rung_of_16_bits_and_no_other():
    kernels = discover(Path(ROOT))
    rungs = {
        id
        for id, kernel in kernels.items()
        if "bfloat16" in kernel.element_types and not kernel.rival
    }
    for name in ("half", "half-unseen"):
        campaign = campaign_file.load(written(name), name, kernels)
        assert set(campaign.kernels) == rungs != set()
        assert list(campaign.element_types) == ["bfloat16", "float16"]
