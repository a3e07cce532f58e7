"""Every CUDA rung, unmodified, on the CPU: through the gauntlet (PoCL), and free of races and stray
accesses (Oclgrind).

But those written for Hopper, which `test_hopper.py` runs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import documented
import emulator
import pytest
from ladder.cli.new_kernel import STARTS
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


def configurations(kernel: Kernel) -> Iterator[Configuration]:
    """Two in float32, one in each other type, and one in each layout."""
    for element_type in kernel.element_types:
        chosen = two_configurations(kernel, element_type)
        yield from chosen if element_type == "float32" else chosen[:1]
    for layout in kernel.layouts[1:]:
        yield two_configurations(kernel, "float32", layout)[layout == "tt"]


def check(
    tool: emulator.Tool,
    kernel: Kernel,
    chosen: Iterable[Configuration],
    given: Callable[[str, str, str], Sequence[Problem]],
    folder: Path,
) -> None:
    """No findings, and the correct C of each problem that is given for an element type, a precision
    and a layout.
    """
    asked, launches = [], []
    for each in chosen:
        into, include = folder / each.slug, ROOT / "kernels/include"
        programs = lower_kernel(tool, kernel, each, kernel.source(each), include, into)
        for problem in given(each.element_type, "", each.layout):
            asked.append((each, problem))
            launches.append(launch(problem, kernel, each, programs))
    outcome = emulator.run(tool, launches)
    assert outcome.findings == []
    complaints = [
        (each.label, describe(problem), complaint(problem, result))
        for (each, problem), result in zip(asked, outcome.arrays, strict=True)
    ]
    assert [found for found in complaints if found[-1]] == []


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_right_in_the_gauntlet(kernel: Kernel, tmp_path: Path) -> None:
    check("pocl", kernel, configurations(kernel), problems, tmp_path)


def test_the_template_is_right_in_the_gauntlet(tmp_path: Path) -> None:
    path = written(tmp_path / "kernels" / "cuda" / "template.cu", STARTS[".cu"].read_text())
    kernel = parse(path)
    check("pocl", kernel, two_configurations(kernel, "float32"), problems, tmp_path)


def test_the_kernel_of_the_readme_is_right_in_the_gauntlet(tmp_path: Path) -> None:
    (block,) = (block for block in documented.blocks() if block.page == "README.md")
    kernel = parse(written(tmp_path / "kernels" / "cuda" / "90_mine.cu", block.text))
    chosen = [configuration for configuration, _ in kernel.expand({}, ["float32"])]
    check("pocl", kernel, chosen, problems, tmp_path)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_no_races_and_nothing_outside(kernel: Kernel, tmp_path: Path) -> None:
    """In the default configuration, in the first layout and the last: others differ in extents, not
    in where they wait, and Oclgrind is slow.
    """
    layouts = dict.fromkeys([kernel.layouts[0], kernel.layouts[-1]])
    chosen = [two_configurations(kernel, "float32", layout)[0] for layout in layouts]
    check("oclgrind", kernel, chosen, few, tmp_path)
