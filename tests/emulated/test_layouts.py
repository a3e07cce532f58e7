"""The CPU rungs that support all layouts, in each of them: compiled here, through the gauntlet."""

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from ladder.compiling.toolchain import FLAGS
from ladder.devices.operands import scalars
from ladder.measuring.gauntlet import describe, problems
from ladder.model.kernel import Configuration
from ladder.model.problem import Problem
from layouts import LAYOUTS, source, stored
from problems import complaint
from rungs import ALL

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ("03_blocked", "04_vectorized_parallel")
FAULTS = (
    ("tn", "03_blocked", "A[(size_t)k * lda + m]", "A[(size_t)k * M + m]"),
    ("nt", "03_blocked", "TRANS_B ? B[(size_t)n * ldb + k] :", ""),
    ("tn", "04_vectorized_parallel", "TRANS_A ? (size_t)k0 * lda + m :", ""),
    ("nt", "04_vectorized_parallel", "B[(size_t)j * ldb + k]", "B[(size_t)j * kc + k]"),
)
SQUARE = Problem(300, 300, 300, padding=3, distribution="exact")
"""On which a kernel that leaves a transpose out reads nothing else than A and B."""


def complaints(
    name: str, layout: str, text: str, folder: Path, given: Sequence[Problem]
) -> dict[str, str]:
    """What is wrong with the results of a kernel with this text."""
    (folder / "kernel.c").write_text(text)
    include = ROOT / "kernels" / "include"
    made = folder / "kernel.so"
    command = ["gcc", *FLAGS["cc"], f"-I{include}", folder / "kernel.c", "-o", made]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(made))
    found = {problem: complaint(problem, run(library, problem, layout)) for problem in given}
    return {describe(problem): message for problem, message in found.items() if message}


def run(library: ctypes.CDLL, problem: Problem, layout: str):
    arrays, where = stored(problem, layout)
    arrays = [array.copy() for array in arrays]
    a, b, c = (
        ctypes.c_void_p(array.ctypes.data + array.itemsize * place.first)
        for array, place in zip(arrays, where, strict=True)
    )
    alpha, beta = (ctypes.c_float(float(factor)) for factor in scalars(problem))
    lda, ldb, ldc = (place.ld for place in where)
    library.gemm(problem.m, problem.n, problem.k, alpha, a, lda, b, ldb, beta, c, ldc)
    return arrays[2]


def text_of(name: str, layout: str) -> str:
    kernel = ALL[f"cpu/{name}"]
    return source(kernel, Configuration("float32", tuple(kernel.parameters.items())), layout)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", KERNELS)
def test_a_cpu_rung_is_right_in_every_layout(name: str, layout: str, tmp_path: Path) -> None:
    assert complaints(name, layout, text_of(name, layout), tmp_path, problems("float32")) == {}


@pytest.mark.parametrize(("layout", "name", "right", "wrong"), FAULTS)
def test_a_planted_fault_is_found(
    layout: str, name: str, right: str, wrong: str, tmp_path: Path
) -> None:
    text = text_of(name, layout)
    assert right in text
    assert complaints(name, layout, text.replace(right, wrong), tmp_path, [SQUARE])
