"""Whether a configuration of a rung is incorrect on random problems: sizes, layouts, batches, scalars and values.

    .venv/bin/python studies/random_problems.py [--seconds 600] [--kernels 'cuda/*'] [--configurations 24] [--seed 0]

A problem has sizes from 1 to 2048 and alpha and beta of every kind. Rows begin at multiples of 16 bytes in half of them, and anywhere in the
others. Several configurations compute it, each verified as in a campaign. So many configurations of each kernel and type take part at most.
Measured are how many problems and launches there were, and what was incorrect. The answer is written every minute, so a search that is killed
leaves one, with the seconds that it covers. Exit status 1 where something was incorrect.
"""

import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import answer
from answer import command_line, first_gpu
from ladder.compiling.compile import compile_kernel, compile_support
from ladder.core.places import HOME
from ladder.core.types import ELEMENT_TYPES, LAYOUTS, OF_8_BITS
from ladder.measuring.gauntlet import describe
from ladder.measuring.verify import Verdict, judge
from ladder.measuring.worker import opener
from ladder.model.kernel import Configuration, Kernel
from ladder.model.kernel_file import discover
from ladder.model.problem import Problem

AT_ONCE = 12
"""Configurations that compute one problem."""
SAVE_SECONDS = 60
Verify = Callable[[Problem], Verdict]


def drawn(dice: Random, element_type: str) -> Problem:
    """Return a random problem: a third of the sizes are small or beside a tile's. Half of the
    problems have rows at multiples of 16 bytes; in 8 bits all, in the layout nt.
    """
    few = element_type in OF_8_BITS
    aligned = few or dice.random() < 0.5
    layout, step = ("nt", 16) if few else (dice.choice(LAYOUTS), 8)

    def size(aligned: bool) -> int:
        least = dice.choice((1, 2, 3, 7, 15, 17, 31, 33, 63, 65, 127, 129))
        whole = step * (
            math.ceil(least / step) if dice.random() < 1 / 3 else round(2 ** dice.uniform(0, 8))
        )
        return whole if aligned else dice.choice((least, round(2 ** dice.uniform(0, 11)), whole))

    any_three = ",".join(str(dice.randrange(20)) for _ in range(3))
    return Problem(
        size(aligned and layout[0] == "t"),
        size(aligned),
        size(aligned),
        element_type,
        alpha=dice.choice((1.0, 1.0, -0.75, 0.0)),
        beta=dice.choice((0.0, 0.0, 0.5, 1.0)),
        padding=dice.choice((0, step, "16,0,8") if aligned else (0, 8, 1, any_three)),
        offset=0 if aligned else dice.choice((0, 0, 1, 4)),
        distribution=dice.choice(("uniform", "mixed")),
        seed=dice.randrange(1000),
        layout=layout,
        batch=1 if ELEMENT_TYPES[element_type].block else dice.choice((1, 1, 2, 5)),
    )


def search(
    ways: Sequence[tuple[Kernel, Configuration, Verify]],
    use: Callable[[Problem], Mapping[str, Any]],
    seconds: float,
    seed: int,
    now: Callable[[], float] = time.monotonic,
) -> Iterator[dict[str, Any]]:
    """Draw problems until the time is over, at least one. Yield what was measured so far, every
    minute and at the end.

    `use` gives a problem to the device, and returns the names that it and the device have.
    """
    dice, start = Random(seed), now()
    types = sorted({configuration.element_type for _, configuration, _ in ways})
    launches = dict.fromkeys((kernel.name for kernel, _, _ in ways), 0)
    problems, yielded, passed = 0, 0.0, 0.0
    incorrect: list[dict[str, str]] = []
    while passed < seconds or not problems:
        problem = drawn(dice, dice.choice(types))
        names = use(problem)
        able = [
            (kernel, configuration, verify)
            for kernel, configuration, verify in ways
            if configuration.element_type == problem.element_type
            and not kernel.unmet_need(configuration, names)
        ]
        for kernel, configuration, verify in dice.sample(able, min(AT_ONCE, len(able))):
            verdict = verify(problem)
            launches[kernel.name] += 1
            if verdict.status != "correct":
                by = f"{kernel.name} {configuration.label}"
                incorrect.append({"by": by, "on": describe(problem), "reason": verdict.reason})
        problems += 1
        passed = now() - start
        if passed - yielded >= SAVE_SECONDS or passed >= seconds:
            yielded = passed
            yield {
                "problems": problems,
                "launches": dict(launches),
                "seconds": passed,
                "seed": seed,
                "incorrect": len(incorrect),
                "examples": incorrect[:10],
            }


def compiled(
    kernels: Sequence[Kernel], arch: str, folder: Path, most: int, dice: Random
) -> list[tuple[Kernel, Configuration, bytes, str]]:
    """Return at most so many configurations of each kernel and element type, each with its
    binary and the SHA-256 of that.
    """
    built = []
    types = [(kernel, each) for kernel in kernels for each in kernel.element_types]
    for kernel, element_type in types:
        expanded = kernel.expand({}, [element_type], layouts=kernel.layouts, batched=(False, True))
        legal = [(configuration, "") for configuration, objection in expanded if not objection]
        chosen = dice.sample(legal, min(most, len(legal)))
        place = folder / f"{kernel.name}.{element_type}"
        rows = compile_kernel(kernel, chosen, arch, place, os.cpu_count() or 1)
        for (configuration, _), row in zip(chosen, rows, strict=True):
            if row.status == "compiled":
                built.append((kernel, configuration, (place / row.binary).read_bytes(), row.sha256))
    return built


def short(measured: Mapping[str, Any]) -> str:
    """Return how many launches were incorrect."""
    if measured["incorrect"]:
        return f"Yes: {measured['incorrect']} launches are"
    return f"No: none of {sum(measured['launches'].values()):,} launches is"


def long(measured: Mapping[str, Any]) -> str:
    """Return how many problems and launches there were, the fewest launches of a kernel, and how
    many were incorrect.
    """
    launches = measured["launches"].values()
    return (
        f"{measured['problems']:,} problems, {sum(launches):,} launches of {len(launches)} kernels "
        "(at least "
        f"{min(launches):,} of each) in {measured['seconds']:.0f} s: {measured['incorrect']} "
        "incorrect"
    )


def main() -> None:
    """Search on a GPU, and write the answer."""
    parser = command_line(__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--kernels", default="cuda/*")
    parser.add_argument("--configurations", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    gpu = first_gpu()
    kernels = [
        kernel
        for kernel in discover(HOME).values()
        if fnmatch(kernel.id, given.kernels) and kernel.kind == "cuda" and not kernel.rival
    ]
    with tempfile.TemporaryDirectory() as scratch:
        support = Path(scratch) / "support.bin"
        support.write_bytes(compile_support("cuda", gpu.arch))
        built = compiled(kernels, gpu.arch, Path(scratch), given.configurations, Random(given.seed))
        if not built:
            sys.exit(
                f"--kernels: got {given.kernels}; expected kernels that compile for {gpu.arch}"
            )
        device = opener("cuda")(gpu.uuids[0], support)

        held: list[Any] = []

        def use(problem: Problem) -> dict[str, Any]:
            if held:
                device.free(held.pop())
            held.append(device.operands(problem))
            return {**problem.names(), **device.names}

        def verified(
            kernel: Kernel, configuration: Configuration, binary: bytes, problem: Problem
        ) -> Verdict:
            return judge(
                device.check(device.kernel(kernel, configuration, binary)),
                problem,
                kernel.precision,
            )

        ways = [
            (kernel, configuration, partial(verified, kernel, configuration, binary))
            for kernel, configuration, binary, _ in built
        ]
        sha256 = {
            f"{kernel.name}.{configuration.element_type} {configuration.label}": digest
            for kernel, configuration, _, digest in built
        }
        for measured in search(ways, use, given.seconds, given.seed):
            answer.write(
                "random_problems",
                "Is any rung incorrect on random problems?",
                short(measured),
                long(measured),
                gpu,
                measured,
                {kernel.id: kernel for kernel, *_ in built}.values(),
                uuids=[gpu.uuids[0]],
                binaries=sha256,
            )
        device.close()
    sys.exit(int(measured["incorrect"] > 0))


if __name__ == "__main__":
    main()
