"""Kernels with CuTe compile with the headers of envs/cutlass.lock."""

import pytest
from ladder.compiling import compile, interface
from ladder.core.places import HOME
from rungs import ALL

KERNELS = [kernel for kernel in ALL.values() if "cutlass" in kernel.uses]


@pytest.mark.cutlass
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_kernel_with_cute_compiles(kernel, tmp_path):
    """Each is one configuration, and `compile_kernel` compares the parameters and threads of `gemm`
    with those of the launch.

    NVRTC compiles one that is compiled quickly: CuTe's takes three times as long.
    """
    first = next(
        configuration
        for configuration, objection in kernel.expand({}, kernel.element_types[:1], [()])
        if not objection
    )
    compilers = ["nvcc", "nvrtc"] if kernel.name == "62_cutlass" else ["nvcc"]
    chosen = [
        (type(first)(first.element_type, first.parameters, (("compiler", compiler),)), "")
        for compiler in compilers
    ]
    rows = compile.compile_kernel(kernel, chosen, "sm_90", tmp_path, 2)
    assert [(row.status, row.reason) for row in rows] == [("compiled", "")] * len(compilers)
    version = next(
        line
        for line in (HOME / "envs" / "cutlass.lock").read_text().splitlines()
        if line.startswith("nvidia-cutlass==")
    )
    assert {row.version.split(", ")[1] for row in rows} == {
        version.split(" ;")[0].replace("==", " ")
    }
    assert {row.spill_loads for row in rows} == {0}
    for row in rows:
        assert set(interface.functions((tmp_path / row.binary).read_bytes())) == {"gemm"}
