"""Operands and kernels in the four layouts of `C <- alpha*op(A)*op(B) + beta*C`: `nt` has B
transposed in memory, N x K, `tn` A, K x M.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import yaml
from host import buffers, inside
from ladder.core.expressions import Number
from ladder.devices.operands import CANARY, GUARD, Place, places
from ladder.model.kernel import Configuration, Kernel
from ladder.model.problem import Problem

LAYOUTS = ("nn", "nt", "tn", "tt")
HEADERS = yaml.safe_load((Path(__file__).parent / "layouts.yaml").read_text())
"""What the headers of kernels say if they support all layouts: keys that differ from theirs."""


def with_layouts(kernel: Kernel) -> Kernel:
    """The kernel with a header whose expressions know TRANS_A and TRANS_B."""
    return replace(kernel, **HEADERS[kernel.name] or {})


def transposes(layout: str) -> dict[str, int]:
    """The constants of a layout."""
    return {"TRANS_A": int(layout[0] == "t"), "TRANS_B": int(layout[1] == "t")}


def source(kernel: Kernel, configuration: Configuration, layout: str, batch: bool = False) -> str:
    """The text for the compiler."""
    given = transposes(layout) | {"BATCH": int(batch)}
    constants = (f"#define {name} {value}" for name, value in given.items())
    return "\n".join((*constants, kernel.source(configuration)))


@cache
def stored(problem: Problem, layout: str = "nn") -> tuple[Sequence[np.ndarray], Sequence[Place]]:
    """The buffers of A, B and C before a launch, as they lie in memory, and the places in them,
    drawn once a process: nobody writes to them.

    A transposed matrix has the padding of the other, and rows that begin at multiples of as many
    bytes, up to 16.
    """
    arrays, where = list(buffers(problem)), list(places(problem))
    for index in range(2):
        place, array = where[index], arrays[index]
        if layout[index] == "n":
            continue
        step = min(place.ld & -place.ld, 16 // array.itemsize)
        ld = -(-(place.rows + place.ld - place.cols) // step) * step
        total = place.first + place.cols * ld + GUARD
        where[index] = Place(total + total % 2, place.first, place.cols, place.rows, ld)
        words = where[index].total * array.itemsize // 4
        arrays[index] = np.full(words, CANARY, np.uint32).view(array.dtype)
        inside(arrays[index], where[index])[:] = inside(array, place).T
    return arrays, where


def names(problem: Problem, layout: str) -> dict[str, Number]:
    """What a header's expressions know of the problem."""
    a, b, _ = stored(problem, layout)[1]
    return problem.names() | transposes(layout) | {"lda": a.ld, "ldb": b.ld}
