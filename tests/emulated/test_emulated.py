"""Every CUDA rung, unmodified, on the CPU: right for awkward problems (PoCL), and free of races and stray accesses (Oclgrind)."""

from dataclasses import replace
from pathlib import Path

import emulator
import pytest
from ladder.kernels import Configuration, Kernel, discover
from problems import Problem, lower_kernel, tile_of, two_configurations

ROOT = Path(__file__).resolve().parents[2]
CASES = [
    pytest.param(kernel, configuration, id=f"{kernel.name}-{configuration.slug}")
    for kernel in discover(ROOT).values()
    if kernel.kind == "cuda"
    for element_type in kernel.element_types
    for configuration in two_configurations(kernel, element_type)
]


def awkward(bm: int, bn: int, bk: int) -> list[Problem]:
    """Problems at and off the edges of tiles; with rows and addresses that allow 128-bit accesses, and that do not."""
    return [
        Problem(1, 1, 1),
        Problem(1, bn + 1, 3, alpha=-0.5),
        Problem(bm + 1, 1, bk + 1, alpha=2.0, beta=-1.0),
        Problem(bm, bn, bk),
        Problem(bm, bn, 2 * bk, beta=0.5),
        Problem(bm + 4, bn + 4, 3 * bk + 4, alpha=0.5, beta=2.0, pad=(4, 8, 12)),
        Problem(4, 8, 4, pad=(4, 4, 4), start=(4, 8, 4)),
        Problem(2 * bm - 4, bn - 4, bk - 4, alpha=1.5),
        Problem(131, 127, 37, alpha=-1.0, beta=0.25, pad=(3, 5, 1), start=(1, 2, 3)),
        Problem(127, 132, 36, start=(1, 0, 0)),
        Problem(61, 132, 36, start=(0, 2, 0)),
        Problem(62, 132, 36, start=(0, 0, 3)),
        Problem(63, 68, 36, pad=(1, 0, 0)),
        Problem(65, 68, 36, beta=1.0, pad=(0, 2, 0)),
        Problem(66, 68, 36, beta=1.0, pad=(0, 0, 3)),
        Problem(67, 68, 35, pad=(1, 0, 0)),
        Problem(68, 67, 36, pad=(0, 1, 1)),
        Problem(17, 19, 257),
        Problem(18, 20, 515),
        Problem(bm + 4, bn + 4, bk, alpha=0.0, beta=0.0),
        Problem(bm + 3, bn + 2, bk, alpha=0.0, beta=3.0),
    ]


def small(bm: int, bn: int, bk: int) -> list[Problem]:
    """Several blocks and three tiles along K, with and without 128-bit accesses: enough to meet every barrier and every edge."""
    return [
        Problem(bm + 4, bn + 4, 2 * bk + 4, pad=(0, 4, 0)),
        Problem(bm + 1, 3, 2 * bk + 1, beta=0.5, pad=(1, 0, 2), start=(1, 0, 2)),
        Problem(2, bn + 3, bk - 1, pad=(0, 1, 0)),
        Problem(4, 8, 4, start=(1, 2, 3)),
    ]


@pytest.fixture(scope="module")
def lowered(tmp_path_factory: pytest.TempPathFactory):
    """Lower a kernel once for both tools."""
    known: dict[str, list[str]] = {}

    def lower(kernel: Kernel, configuration: Configuration) -> list[str]:
        key = f"{kernel.name}-{configuration.slug}"
        if key not in known:
            folder = tmp_path_factory.mktemp("lowered")
            known[key] = lower_kernel(kernel, configuration, kernel.source(configuration), ROOT / "kernels/include", folder)
        return known[key]

    return lower


def check(
    tool: emulator.Tool, kernel: Kernel, configuration: Configuration, programs: list[str], problems: list[Problem]
) -> None:
    problems = [replace(problem, element_type=configuration.element_type) for problem in problems]
    outcome = emulator.run(tool, [problem.launch(kernel, configuration, programs) for problem in problems])
    assert outcome.findings == []
    assert [problem.complaint(result) for problem, result in zip(problems, outcome.arrays, strict=True)] == [""] * len(problems)


@pytest.mark.parametrize(("kernel", "configuration"), CASES)
def test_right_for_awkward_problems(kernel: Kernel, configuration: Configuration, lowered) -> None:
    check("pocl", kernel, configuration, lowered(kernel, configuration), awkward(*tile_of(configuration)))


@pytest.mark.parametrize(("kernel", "configuration"), [case for case in CASES if case.values[1].element_type == "float32"])
def test_no_races_and_nothing_outside(kernel: Kernel, configuration: Configuration, lowered) -> None:
    check("oclgrind", kernel, configuration, lowered(kernel, configuration), small(*tile_of(configuration)))
