"""Which rungs remain on a GPU that is not Hopper: compiled with NVRTC, and held against the table
in docs/workstation.md. Code for the table is not optimized, which changes neither what compiles nor
the shared memory, and takes a third of the time.
"""

import math

import pytest
from ladder.compiling import toolchain
from ladder.compiling.compile import compile_kernel
from ladder.model.kernel import Configuration
from ladder.model.problem import Problem
from planted import HOME
from rungs import ALL

PAGE = HOME / "docs" / "workstation.md"
HEAD = (
    "| Compute capability | For example | Rungs that compile and fit | Too much shared memory | "
    "Not supported |\n|---|---|---|---|---|\n"
)
GPUS = {
    "7.5": ("sm_75", 64, "RTX 20, T4"),
    "8.0": ("sm_80", 163, "A100"),
    "8.6": ("sm_86", 99, "RTX 30, A10"),
    "8.9": ("sm_86", 99, "RTX 40, L4"),
    "10.0": ("sm_100", 227, "B200"),
    "12.0": ("sm_100", 99, "RTX 50"),
}
"""The lowest architecture with all that rungs use of a compute capability, for which they are
compiled; and the KiB of shared memory that a block may have (CUDA C++ Programming Guide,
"Technical Specifications per Compute Capability").
"""
REGISTERS = 65536
"""The most that a block may have (same table)."""
NVRTC = (("compiler", "nvrtc"),)
RUNGS = [kernel for kernel in ALL.values() if kernel.path.suffix == ".cu" and not kernel.uses]
PROBLEM = Problem(4096, 4096, 4096)


def remains(kernel, configuration, capability, folder):
    """What a rung's table entry is: "" if it compiles and fits."""
    arch, kib, _ = GPUS[capability]
    (row,) = compile_kernel(kernel, [(configuration, "")], arch, folder, 1)
    if row.status == "not_supported":
        return row.reason
    assert row.status == "compiled", (kernel.id, capability, row.reason)
    room = kib << 10
    clusters = 15 if float(capability) >= 9 else 0
    device = {"sm_count": 60, "shared_memory_per_block": room, "clusters_of_4": clusters}
    for shape in kernel.launches(configuration, PROBLEM.names() | device):
        assert row.registers * math.prod(shape.block) <= REGISTERS, (
            kernel.id,
            configuration.label,
            capability,
        )
        if (asked := shape.dynamic_shared + row.static_shared) > room:
            return f"{asked / 1024:.0f} KiB of {kib}"
    return ""


def default(kernel):
    return Configuration(kernel.element_types[0], tuple(kernel.parameters.items()), NVRTC)


def span(kernels):
    """Numbers of rungs: `01 to 11, 13`."""
    runs = []
    for place, kernel in enumerate(RUNGS):
        if kernel not in kernels:
            continue
        number = kernel.name[:2]
        if runs and runs[-1][2] == place - 1:
            runs[-1][1:] = number, place
        else:
            runs.append([number, number, place])
    return ", ".join(first if first == last else f"{first} to {last}" for first, last, _ in runs)


@pytest.mark.slow
def test_the_table_of_other_gpus_is_what_compiles(tmp_path, monkeypatch):
    flags = (*toolchain.FLAGS["nvrtc"], "--Ofast-compile=max")
    monkeypatch.setitem(toolchain.FLAGS, "nvrtc", flags)
    table = HEAD
    for capability, (*_, names) in GPUS.items():
        by_reason = {}
        for kernel in RUNGS:
            folder = tmp_path / capability / kernel.name
            reason = remains(kernel, default(kernel), capability, folder)
            by_reason.setdefault(reason, []).append(kernel)
        fit = span(by_reason.pop(""))
        spans = {reason: f"{span(kernels)} ({reason})" for reason, kernels in by_reason.items()}
        large = ", ".join(text for reason, text in spans.items() if "KiB" in reason)
        needs = ", ".join(text for reason, text in spans.items() if "KiB" not in reason)
        table += f"| {capability} | {names} | {fit} | {large or '–'} | {needs or '–'} |\n"
    assert table in PAGE.read_text(), f"expected in {PAGE}:\n{table}"


@pytest.mark.slow
def test_the_largest_configuration_of_the_quick_rungs_fits_a_small_card(tmp_path):
    """Of compute capability 8.6, whose blocks have the least shared memory of those with
    asynchronous copies.
    """
    for kernel in RUNGS[:12]:
        every = kernel.expand({}, kernel.element_types[:1], [NVRTC])
        legal = [configuration for configuration, objection in every if not objection]
        largest = max(legal, key=lambda each: sum(dict(each.parameters).values()))
        assert not remains(kernel, largest, "8.6", tmp_path / kernel.name), largest.label
