"""The rungs for GPUs, and problems on a real GPU that a test holds open."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ladder.model.problem import Problem
from rungs import ALL

KERNELS = [kernel for kernel in ALL.values() if kernel.kind == "cuda"]
UNUSUAL: list[dict[str, Any]] = [
    {},
    {"padding": 4, "alpha": -1.5, "beta": 0.5},
    {"padding": "16,32,8", "alpha": -1.5, "beta": 0.5},
    {"padding": "1,4,2", "offset": "0,1,3", "alpha": 0.0, "beta": 1.0},
]


@contextmanager
def given(gpu: Any, problem: Problem) -> Iterator[Any]:
    """The operands of a problem, in use."""
    operands = gpu.operands(problem)  # whose reference is checked against the host's arithmetic
    try:
        yield operands
    finally:
        gpu.stream.synchronize()
        gpu.free(operands)


def use(gpu: Any, problem: Problem) -> None:
    """The same of small ones, which are kept."""
    if problem not in gpu.made:
        gpu.made[problem] = gpu.operands(problem)
    gpu.use(gpu.made[problem])
