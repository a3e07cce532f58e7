"""The gauntlet in an emulator: operands as a device draws them, and the verdict that it would
have.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from emulator import Launch, Tool, lower
from host import buffers, compared
from ladder.devices.operands import GUARD, Place, places
from ladder.measuring.gauntlet import problems
from ladder.measuring.verify import judge
from ladder.model.kernel import Configuration, Kernel
from ladder.model.kernel_file import PROBLEM_NAMES
from ladder.model.problem import Problem, transposes

DEVICE = {"sm_count": 3, "shared_memory_per_block": 227 << 10, "clusters_of_4": 1}
"""What headers' expressions know of the device: few SMs, so that few tiles make several waves."""
FEW = {(2, 3, 5), (36, 40, 12), (64, 32, 64), (65, 63, 15), (127, 129, 9)}
"""M, N, K of those of the gauntlet's problems that Oclgrind, which is slow, gets: several blocks
and tiles along K, whole ones and edges, operands on addresses of 4 bytes.
"""


@cache
def stored(problem: Problem) -> tuple[Sequence[np.ndarray], Sequence[Place]]:
    """The buffers of A, B and C before a launch and the places in them, drawn once a process:
    nobody writes to them.
    """
    return buffers(problem), places(problem)


def few(element_type: str, precision: str = "", layout: str = "nn") -> list[Problem]:
    """The problems for Oclgrind."""
    return [
        problem
        for problem in problems(element_type, precision, layout)
        if (problem.m, problem.n, problem.k) in FEW
    ]


def launch(
    problem: Problem, kernel: Kernel, configuration: Configuration, programs: dict[str, str]
) -> tuple[Launch, np.ndarray, np.ndarray, np.ndarray]:
    """What `emulator.run` takes: the arrays of A and B end with their last element, and that of C
    has canaries round it.
    """
    known = problem.names() | DEVICE
    shapes = kernel.launches(configuration, known)
    before, where = stored(problem)
    arrays = [buffer.copy() for buffer in before]
    for index, place in enumerate(where[:2]):
        arrays[index] = arrays[index][
            GUARD : place.first + (place.rows - 1) * place.ld + place.cols
        ]
    given = Launch(
        [programs[shape.function] for shape in shapes],
        [shape.grid for shape in shapes],
        [shape.block for shape in shapes],
        kernel.workspace_of(configuration, known) or 0,
        (problem.m, problem.n, problem.k),
        tuple(place.ld for place in where),
        (*problem.offsets[:2], GUARD + problem.offsets[2]),
        problem.alpha,
        problem.beta,
    )
    return given, *arrays


def complaint(problem: Problem, result: np.ndarray, precision: str = "") -> str:
    """What is wrong with the buffer of C after a launch, or ""."""
    return judge(compared(problem, result, stored(problem)[0]), problem, precision).reason


def two_configurations(
    kernel: Kernel, element_type: str, layout: str = "nn"
) -> Sequence[Configuration]:
    """The default configuration, and the legal one of its sweep that differs from it in the most
    parameters.

    Of a kernel with clusters with one slice, and so one block a cluster.
    """
    if "__cluster_dims__" in kernel.text:
        kernel = replace(
            kernel,
            parameters={**kernel.parameters, "SLICES": 1},
            configurations=[
                {**configuration, "SLICES": 1} for configuration in kernel.configurations
            ],
        )
    default = Configuration(element_type, tuple(kernel.parameters.items()), layout=layout)

    def differences(configuration: Configuration) -> int:
        return len({*configuration.parameters} - {*default.parameters})

    every = kernel.expand({}, [element_type], layouts=[layout])
    legal = [each for each, objection in every if not objection]
    return list(dict.fromkeys([default, max(legal, key=differences)]))


def lower_kernel(
    tool: Tool,
    kernel: Kernel,
    configuration: Configuration,
    source: str,
    include: Path,
    folder: Path,
) -> dict[str, str]:
    """The programs of a kernel's functions, from `source`, which a test may have changed."""
    # an alignment of 1: what an unaligned problem needs
    given = dict.fromkeys(PROBLEM_NAMES, 1) | DEVICE | transposes(configuration.layout)
    shapes = kernel.launches(configuration, given)
    functions = ["gemm", *(launch["function"] for launch in kernel.then)]
    shared = max(shape.dynamic_shared for shape in shapes)
    return lower(tool, source, include, folder, functions, bool(kernel.workspace), shared)
