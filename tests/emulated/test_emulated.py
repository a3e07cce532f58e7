"""Every CUDA rung, unmodified, on the CPU: through the gauntlet (PoCL), and free of races and stray accesses (Oclgrind).

But those written for one architecture, whose instructions nothing emulates.
"""

from collections.abc import Sequence
from pathlib import Path

import emulator
import numpy as np
import pytest
from host import inside
from ladder.campaign import Problem
from ladder.devices import places
from ladder.gauntlet import describe, problems
from ladder.kernels import Configuration, Kernel, discover, parse
from ladder.templates import TEXT
from problems import complaint, few, launch, lower_kernel, two_configurations

ROOT = Path(__file__).resolve().parents[2]
CASES = [
    pytest.param(kernel, configuration, id=f"{kernel.name}-{configuration.slug}")
    for kernel in discover(ROOT).values()
    if kernel.kind == "cuda" and not kernel.architecture
    for element_type in kernel.element_types
    for configuration in two_configurations(kernel, element_type)[: 2 if element_type == "float32" else 1]
]
DEFAULTS = [
    pytest.param(kernel, two_configurations(kernel, "float32")[0], id=kernel.name)
    for kernel in discover(ROOT).values()
    if kernel.kind == "cuda" and not kernel.architecture
]
"""The other configurations differ in extents, not in where they wait: Oclgrind is slow."""


def check(tool: emulator.Tool, kernel: Kernel, configuration: Configuration, given: Sequence[Problem], folder: Path) -> None:
    programs = lower_kernel(tool, kernel, configuration, kernel.source(configuration), ROOT / "kernels/include", folder)
    outcome = emulator.run(tool, [launch(problem, kernel, configuration, programs) for problem in given])
    assert outcome.findings == []
    told = {describe(problem): complaint(problem, result) for problem, result in zip(given, outcome.arrays, strict=True)}
    assert {problem: said for problem, said in told.items() if said} == {}


@pytest.mark.parametrize(("kernel", "configuration"), CASES)
def test_right_in_the_gauntlet(kernel: Kernel, configuration: Configuration, tmp_path: Path) -> None:
    check("pocl", kernel, configuration, problems(configuration.element_type), tmp_path)


def test_the_template_is_right_in_the_gauntlet(tmp_path: Path) -> None:
    path = tmp_path / "kernels" / "cuda" / "template.cu"
    path.parent.mkdir(parents=True)
    path.write_text(TEXT["cuda"].format(title="Template"))
    kernel = parse(path)
    for index, configuration in enumerate(two_configurations(kernel, "float32")):
        check("pocl", kernel, configuration, problems("float32"), tmp_path / str(index))


@pytest.mark.parametrize(("kernel", "configuration"), DEFAULTS)
def test_what_overflows_for_certain_is_infinite(kernel: Kernel, configuration: Configuration, tmp_path: Path) -> None:
    """With the sign of its products, which are all 1e60; beside it others, which are finite."""
    problem, random = Problem(65, 63, 70), np.random.default_rng(5)
    programs = lower_kernel("pocl", kernel, configuration, kernel.source(configuration), ROOT / "kernels/include", tmp_path)
    given, a, b, c = launch(problem, kernel, configuration, programs)
    rows, columns = (random.choice([-1e30, 1, 1e30], count).astype(np.float32) for count in (problem.m, problem.n))
    a[:], b[:] = np.repeat(rows, problem.k), np.tile(columns, problem.k)
    (result,) = emulator.run("pocl", [(given, a, b, c)]).arrays
    with np.errstate(over="ignore"):
        expected = (problem.k * np.outer(rows.astype(np.float64), columns)).astype(np.float32)
    assert len(set(expected[np.isinf(expected)])) == 2
    np.testing.assert_allclose(inside(result, places(problem)[2]), expected, rtol=1e-5)


@pytest.mark.parametrize(("kernel", "configuration"), DEFAULTS)
def test_no_races_and_nothing_outside(kernel: Kernel, configuration: Configuration, tmp_path: Path) -> None:
    check("oclgrind", kernel, configuration, few("float32"), tmp_path)
