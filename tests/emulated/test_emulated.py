"""Every CUDA rung, unmodified, on the CPU: through the gauntlet (PoCL), and free of races and stray
accesses (Oclgrind).

But those written for one architecture, whose instructions nothing emulates.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import documented
import emulator
import numpy as np
import pytest
from host import inside
from ladder.cli.new_kernel import TEXT
from ladder.devices.operands import places
from ladder.measuring.gauntlet import describe, problems
from ladder.model.kernel import Configuration, Kernel
from ladder.model.kernel_file import discover, parse
from ladder.model.problem import Problem
from planted import written
from problems import complaint, few, launch, lower_kernel, two_configurations

ROOT = Path(__file__).resolve().parents[2]
CASES = [
    pytest.param(kernel, configuration, id=f"{kernel.name}-{configuration.slug}")
    for kernel in discover(ROOT).values()
    if kernel.path.suffix == ".cu" and not kernel.architecture and not kernel.uses
    for element_type in kernel.element_types
    for configuration in two_configurations(kernel, element_type)[
        : 2 if element_type == "float32" else 1
    ]
]
DEFAULTS = [
    pytest.param(kernel, two_configurations(kernel, "float32")[0], id=kernel.name)
    for kernel in discover(ROOT).values()
    if kernel.path.suffix == ".cu" and not kernel.architecture and not kernel.uses
]
"""The other configurations differ in extents, not in where they wait: Oclgrind is slow."""


def check(
    tool: emulator.Tool,
    kernel: Kernel,
    configuration: Configuration,
    given: Sequence[Problem],
    folder: Path,
    overflow: bool = False,
) -> None:
    """No findings, and the correct C of each problem; with `overflow` also of matrices whose
    products overflow.
    """
    programs = lower_kernel(
        tool, kernel, configuration, kernel.source(configuration), ROOT / "kernels/include", folder
    )
    launches = [launch(problem, kernel, configuration, programs) for problem in given]
    if overflow:
        launches.append(overflowing(launch(HUGE, kernel, configuration, programs)))
    outcome = emulator.run(tool, launches)
    assert outcome.findings == []
    assert len(outcome.arrays) == len(launches)
    complaints = {
        describe(problem): complaint(problem, result)
        for problem, result in zip(given, outcome.arrays[: len(given)], strict=True)
    }
    assert {problem: message for problem, message in complaints.items() if message} == {}
    if overflow:
        (_, a, b, _), result = launches[-1], inside(outcome.arrays[-1], places(HUGE)[2])
        with np.errstate(over="ignore"):
            products = np.outer(a[:: HUGE.k].astype(np.float64), b[: HUGE.n])
            expected = (HUGE.k * products).astype(np.float32)
        assert len(set(expected[np.isinf(expected)])) == 2
        np.testing.assert_allclose(result, expected, rtol=1e-5)


HUGE = Problem(65, 63, 70)


def overflowing(
    given: tuple[emulator.Launch, np.ndarray, np.ndarray, np.ndarray],
) -> tuple[Any, ...]:
    """Matrices some of whose results are infinite, with the sign of their products, which are all
    1e60; others are finite.
    """
    shapes, a, b, c = given
    random = np.random.default_rng(5)
    rows, columns = (
        random.choice([-1e30, 1, 1e30], count).astype(np.float32) for count in (HUGE.m, HUGE.n)
    )
    a[:], b[:] = np.repeat(rows, HUGE.k), np.tile(columns, HUGE.k)
    return shapes, a, b, c


@pytest.mark.parametrize(("kernel", "configuration"), CASES)
def test_right_in_the_gauntlet(
    kernel: Kernel, configuration: Configuration, tmp_path: Path
) -> None:
    """And what certainly overflows is infinite."""
    overflow = configuration.element_type == "float32"
    check("pocl", kernel, configuration, problems(configuration.element_type), tmp_path, overflow)


def test_the_template_is_right_in_the_gauntlet(tmp_path: Path) -> None:
    path = written(
        tmp_path / "kernels" / "cuda" / "template.cu", TEXT[".cu"].format(title="Template")
    )
    kernel = parse(path)
    for index, configuration in enumerate(two_configurations(kernel, "float32")):
        check("pocl", kernel, configuration, problems("float32"), tmp_path / str(index))


def test_the_kernel_of_the_readme_is_right_in_the_gauntlet(tmp_path: Path) -> None:
    (block,) = (block for block in documented.blocks() if block.page == "README.md")
    kernel = parse(written(tmp_path / "kernels" / "cuda" / "90_mine.cu", block.text))
    for configuration, _ in kernel.expand({}, ["float32"]):
        check("pocl", kernel, configuration, problems("float32"), tmp_path / configuration.slug)


@pytest.mark.parametrize(("kernel", "configuration"), DEFAULTS)
def test_no_races_and_nothing_outside(
    kernel: Kernel, configuration: Configuration, tmp_path: Path
) -> None:
    check("oclgrind", kernel, configuration, few("float32"), tmp_path)
