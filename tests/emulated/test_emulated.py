"""Every CUDA rung, unmodified, on the CPU: through the gauntlet (PoCL), and free of races and stray accesses (Oclgrind).

But those written for one architecture, whose instructions nothing emulates.
"""

from collections.abc import Sequence
from pathlib import Path

import emulator
import pytest
from ladder.campaign import Problem
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
def test_no_races_and_nothing_outside(kernel: Kernel, configuration: Configuration, tmp_path: Path) -> None:
    check("oclgrind", kernel, configuration, few("float32"), tmp_path)
