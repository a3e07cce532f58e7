"""Every CUDA rung, unmodified, on the CPU: through the gauntlet (PoCL), and free of races and stray
accesses (Oclgrind).

But those written for Hopper, which `test_hopper.py` runs.
"""

from collections.abc import Sequence
from pathlib import Path

import documented
import emulator
import pytest
from ladder.cli.new_kernel import STARTS
from ladder.core.types import LAYOUTS
from ladder.measuring.gauntlet import describe, problems
from ladder.model.kernel import Configuration, Kernel
from ladder.model.kernel_file import parse
from ladder.model.problem import Problem
from planted import written
from problems import complaint, few, launch, lower_kernel, two_configurations
from rungs import ALL

ROOT = Path(__file__).resolve().parents[2]
KERNELS = [
    kernel
    for kernel in ALL.values()
    if kernel.path.suffix == ".cu" and not kernel.architecture and not kernel.uses
]
IN_LAYOUTS = [kernel for kernel in KERNELS if len(kernel.layouts) > 1]
CASES = [
    pytest.param(kernel, configuration, id=f"{kernel.name}-{configuration.slug}")
    for kernel in KERNELS
    for element_type in kernel.element_types
    for configuration in two_configurations(kernel, element_type)[
        : 2 if element_type == "float32" else 1
    ]
]


def check(
    tool: emulator.Tool,
    kernel: Kernel,
    configuration: Configuration,
    given: Sequence[Problem],
    folder: Path,
) -> None:
    """No findings, and the correct C of each problem."""
    text, include = kernel.source(configuration), ROOT / "kernels/include"
    programs = lower_kernel(tool, kernel, configuration, text, include, folder)
    outcome = emulator.run(
        tool, [launch(problem, kernel, configuration, programs) for problem in given]
    )
    assert outcome.findings == []
    results = zip(given, outcome.arrays, strict=True)
    complaints = {describe(problem): complaint(problem, result) for problem, result in results}
    assert {problem: message for problem, message in complaints.items() if message} == {}


@pytest.mark.parametrize(("kernel", "configuration"), CASES)
def test_right_in_the_gauntlet(
    kernel: Kernel, configuration: Configuration, tmp_path: Path
) -> None:
    check("pocl", kernel, configuration, problems(configuration.element_type), tmp_path)


@pytest.mark.parametrize("layout", LAYOUTS[1:])
@pytest.mark.parametrize("kernel", IN_LAYOUTS, ids=lambda kernel: kernel.name)
def test_right_in_every_layout(kernel: Kernel, layout: str, tmp_path: Path) -> None:
    configuration = two_configurations(kernel, "float32", layout)[layout == "tt"]
    check("pocl", kernel, configuration, problems("float32", "", layout), tmp_path)


@pytest.mark.parametrize("kernel", IN_LAYOUTS, ids=lambda kernel: kernel.name)
def test_no_races_and_nothing_outside_with_both_transposed(kernel: Kernel, tmp_path: Path) -> None:
    configuration, *_ = two_configurations(kernel, "float32", "tt")
    check("oclgrind", kernel, configuration, few("float32", "tt"), tmp_path)


def test_the_template_is_right_in_the_gauntlet(tmp_path: Path) -> None:
    path = written(tmp_path / "kernels" / "cuda" / "template.cu", STARTS[".cu"].read_text())
    kernel = parse(path)
    for index, configuration in enumerate(two_configurations(kernel, "float32")):
        check("pocl", kernel, configuration, problems("float32"), tmp_path / str(index))


def test_the_kernel_of_the_readme_is_right_in_the_gauntlet(tmp_path: Path) -> None:
    (block,) = (block for block in documented.blocks() if block.page == "README.md")
    kernel = parse(written(tmp_path / "kernels" / "cuda" / "90_mine.cu", block.text))
    for configuration, _ in kernel.expand({}, ["float32"]):
        check("pocl", kernel, configuration, problems("float32"), tmp_path / configuration.slug)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_no_races_and_nothing_outside(kernel: Kernel, tmp_path: Path) -> None:
    """In the default configuration: others differ in extents, not in where they wait, and Oclgrind
    is slow.
    """
    default, *_ = two_configurations(kernel, "float32")
    check("oclgrind", kernel, default, few("float32"), tmp_path)
