"""Kernels in Triton compile in the environment of envs/triton.lock, without a GPU."""

import re

import foreign_faults
import pytest
from ladder.compiling import compile, interface
from ladder.model.kernel_file import parse
from planted import written
from rungs import ALL

KERNELS = [kernel for kernel in ALL.values() if kernel.path.suffix == ".py"]
pytestmark = pytest.mark.triton


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_kernel_compiles_for_the_launch_of_its_header(kernel, tmp_path):
    usual = kernel.expand({}, kernel.element_types)
    others = list(kernel.expand({}, kernel.element_types, layouts=kernel.layouts[1:]))
    rows = compile.compile_kernel(kernel, [*usual, *others[::5]], "sm_90", tmp_path, 2)
    assert {(row.status, row.reason) for row in rows} == {("compiled", "")}
    for row in rows:
        assert row.version.startswith("triton 3.")
        (function,) = interface.functions((tmp_path / row.binary).read_bytes()).values()
        assert len(function.parameters) == 11


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "STAGES * (BM + BN) * BK * element_size + 1024",
            "16",
            r"^dynamic_shared: got 16 bytes; expected \d+ or more",
        ),
        (
            "block: [32 * WARPS]",
            "block: [64]",
            r"^gemm is compiled for blocks of \d+ x 1 x 1 threads; expected 64 x 1 x 1",
        ),
        (
            "GROUP: tl.constexpr",
            "EXTRA: tl.constexpr, GROUP: tl.constexpr",
            r"^gemm takes M, N, .*; expected M, N, .*, BK: tl\.constexpr, GROUP",
        ),
        ("tl.dot(x, y", "tl.dot(x, row", r"kernel|dot|line"),
    ],
)
def test_a_kernel_that_cannot_be_launched_is_a_compile_error(old, new, reason, tmp_path):
    path = written(
        tmp_path / "kernels" / "cuda" / "mine.py", KERNELS[0].path.read_text().replace(old, new, 1)
    )
    kernel = parse(path)
    (row,) = compile.compile_kernel(
        kernel, list(kernel.expand({}, ["float32"]))[:1], "sm_90", tmp_path / "build", 1
    )
    assert row.status == "compile_error"
    assert re.search(reason, row.reason), row.reason


@pytest.mark.parametrize(
    "planted",
    [p for p in foreign_faults.PLANTED if p.file == foreign_faults.TRITON],
    ids=lambda p: p.what,
)
def test_a_planted_fault_compiles(planted, tmp_path):
    """GPU tests show that it is found."""
    kernel = parse(planted.write(tmp_path))
    (row,) = compile.compile_kernel(
        kernel, list(kernel.expand({}, ["float32"]))[:1], "sm_90", tmp_path / "build", 1
    )
    assert row.status == "compiled", row.reason
