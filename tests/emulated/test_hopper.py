"""The rungs for Hopper, on the CPU: right on what the gauntlet has for them and on several
waves, without a hang.
"""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import hopper
import pytest
import yaml
from ladder.core.types import LAYOUTS, OF_8_BITS
from ladder.measuring.gauntlet import describe, problems_for
from ladder.model.kernel import Configuration, Kernel
from ladder.model.kernel_file import parse
from ladder.model.problem import Problem
from problems import DEVICE, complaint
from rungs import ALL

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "kernels" / "include"
KERNELS = [
    replace(kernel, configurations=own)
    for kernel in ALL.values()
    if kernel.architecture == "sm_90a" and kernel.path.suffix == ".cu" and not kernel.uses
    for form in (False, True)
    if (own := [each for each in kernel.configurations if ("EXCHANGED" in each) == form])
    or not form
]
"""Rung 42 is here twice: with configurations that exchange the operands, and with those that do
not.
"""
IN_LAYOUTS = [kernel for kernel in KERNELS if len(kernel.layouts) > 1]
BATCHED = [kernel for kernel in KERNELS if kernel.batch]
MOST_PRODUCTS = 30_000_000
"""Of a problem: more take too long here."""


def legal(kernel: Kernel, layout: str, batched: bool = False) -> list[Configuration]:
    """Return the legal configurations in a layout, of all element types."""
    every = kernel.expand({}, kernel.element_types, layouts=[layout], batched=[batched])
    return [configuration for configuration, objection in every if not objection]


def cases() -> list[tuple[Kernel, Configuration]]:
    """Of each kernel the first configuration, in its first element type, or the last, in its last,
    in turns: in other layouts it is compiled in both.
    """
    return [
        (kernel, legal(kernel, kernel.layouts[0])[-(place % 2)])
        for place, kernel in enumerate(KERNELS)
    ]


def beyond(element_type: str) -> int:
    """What makes a multiple of 8 elements one of 16, which rows of 8 bits need."""
    return 8 if element_type in OF_8_BITS else 0


def given(kernel: Kernel, configuration: Configuration) -> list[Problem]:
    """The gauntlet as the kernel is asked it, and problems of several tiles, which on few SMs are
    several waves.
    """
    element_type = configuration.element_type
    more = beyond(element_type)
    unusual = {
        "padding": f"{8 + more},{4 * more},1",
        "alpha": -0.75,
        "beta": 0.5,
        "distribution": "mixed",
    }
    chosen = problems_for(kernel, configuration, DEVICE)
    for problem in (
        Problem(330, 264, 136 + more, element_type, padding="0,0,8"),
        Problem(261, 264, 200 + more, element_type, **unusual),
        Problem(24, 344, 1288 + more, element_type, alpha=0.0),
    ):
        lying = replace(problem, layout=configuration.layout, batch=1 + 2 * configuration.batched)
        if not kernel.unmet_need(configuration, lying.names() | DEVICE):
            chosen.append(lying)
    return [
        problem
        for problem in chosen
        if problem.flops <= 2 * MOST_PRODUCTS and max(problem.m, problem.n) < 2**16
    ]


def wrong(
    kernel: Kernel, configuration: Configuration, include: Path, folder: Path, seeds: int = 1
) -> Iterator[tuple[str, str]]:
    """Run one problem after the other. Yield those with a wrong result, and what is wrong with
    it.
    """
    library = hopper.build(kernel.source(configuration), include, folder)
    asked = given(kernel, configuration)
    if configuration.layout != kernel.layouts[0]:
        asked = asked[1::2]
    layout = configuration.layout
    if configuration.batched:
        tiles = (
            Problem(
                m,
                264,
                136 + beyond(configuration.element_type),
                configuration.element_type,
                padding=padding if layout[0] == "t" else 0,
                layout=layout,
                batch=3,
            )
            for m, padding in ((261, "3,0,0"), (330, "6,0,0"))
        )
        asked = [*asked[::4], *tiles]
    for problem in asked:
        for seed in range(seeds):
            result = hopper.run(library, kernel, configuration, problem, DEVICE, seed)
            if not isinstance(result, str):
                result = complaint(problem, result, kernel.precision)
            if result:
                yield describe(problem), result


@pytest.mark.parametrize(
    ("kernel", "configuration"),
    cases(),
    ids=lambda given: given.name if isinstance(given, Kernel) else given.slug,
)
def test_right_whatever_the_order_of_warps_and_copies(
    kernel: Kernel, configuration: Configuration, tmp_path: Path
) -> None:
    assert len(given(kernel, configuration)) >= 40
    assert list(wrong(kernel, configuration, INCLUDE, tmp_path / "build")) == []


@pytest.mark.parametrize(
    ("kernel", "layout"),
    [
        pytest.param(kernel, layout, id=f"{kernel.name}-{layout}")
        for kernel in IN_LAYOUTS
        # a batch has the last one
        for layout in (LAYOUTS[1:-1] if kernel.batch else LAYOUTS[1:])
    ],
)
def test_right_in_every_layout(kernel: Kernel, layout: str, tmp_path: Path) -> None:
    every = legal(kernel, layout)
    configuration = every[{"nt": 0, "tn": len(every) // 2, "tt": -1}[layout]]
    assert list(wrong(kernel, configuration, INCLUDE, tmp_path / "build")) == []


@pytest.mark.parametrize("last", (False, True))
@pytest.mark.parametrize("kernel", BATCHED, ids=lambda kernel: kernel.name)
def test_a_batch_is_right(kernel: Kernel, last: bool, tmp_path: Path) -> None:
    every = legal(kernel, kernel.layouts[-last], batched=True)
    configuration = every[-1 if last else len(every) // 2]
    assert list(wrong(kernel, configuration, INCLUDE, tmp_path / "build")) == []


FAULTS = [
    (given, {right: wrong})
    for given in yaml.safe_load((Path(__file__).parent / "hopper_faults.yaml").read_text())
    for right, wrong in given["texts"].items()
]
ARRIVAL = "  cluster_arrive();  "
LOOP = "    for (int step = 0; step < steps; ++step) ring.multiply_step"


@pytest.mark.parametrize(("given", "fault"), FAULTS)
def test_a_planted_fault_is_found(
    given: dict[str, Any], fault: dict[str, str], tmp_path: Path
) -> None:
    assert is_found(given, fault, tmp_path)


def test_an_arrival_at_the_barrier_of_the_cluster_before_the_ring_is_read_is_found(
    tmp_path: Path,
) -> None:
    given = {"kernel": "36_half_cluster_k", "file": "include/half_slices.cuh"}
    assert is_found(given, {ARRIVAL: "", LOOP: ARRIVAL + LOOP}, tmp_path)


def is_found(given: dict[str, Any], faults: dict[str, str], folder: Path) -> bool:
    """Replace texts in a file, and return whether any result of the kernel is wrong."""
    kernels = folder / "kernels"
    shutil.copytree(ROOT / "kernels", kernels)
    text = (kernels / given["file"]).read_text()
    for right, planted in faults.items():
        assert right in text
        text = text.replace(right, planted)
    (kernels / given["file"]).write_text(text)
    kernel = parse(kernels / "cuda" / f"{given['kernel']}.cu")
    parameters = kernel.parameters | given.get("parameters", {})
    assignment, layout = tuple(parameters.items()), given.get("layout", kernel.layouts[0])
    batched = given.get("batched", False)
    configuration = Configuration(kernel.element_types[0], assignment, (), layout, batched)
    return any(wrong(kernel, configuration, kernels / "include", folder / "build", 2))
