"""Which rungs remain on a GPU that is not Hopper: compiled with NVRTC, and held against the table
in docs/workstation.md.
"""

import math
from itertools import groupby

import pytest
from ladder.compiling.compile import compile_kernel
from ladder.model.kernel import Configuration
from ladder.model.kernel_file import discover
from ladder.model.problem import Problem
from planted import ROOT

PAGE = ROOT / "docs" / "workstation.md"
HEAD = (
    "| Compute capability | For example | Rungs that compile and fit | Too much shared memory | "
    "Not supported |\n|---|---|---|---|---|\n"
)
GPUS = {
    "7.5": (64, "RTX 20, T4"),
    "8.0": (163, "A100"),
    "8.6": (99, "RTX 30, A10"),
    "8.9": (99, "RTX 40, L4"),
    "10.0": (227, "B200"),
    "12.0": (99, "RTX 50"),
}
"""The KiB of shared memory that a block may have (CUDA C++ Programming Guide, "Technical
Specifications per Compute Capability").
"""
REGISTERS = 65536
"""The most that a block may have (same table)."""
NVRTC = (("compiler", "nvrtc"),)
RUNGS = [
    kernel for kernel in discover(ROOT).values() if kernel.path.suffix == ".cu" and not kernel.uses
]
PROBLEM = Problem(4096, 4096, 4096)


def remains(kernel, configuration, capability, folder):
    """What a rung's table entry is: "" if it compiles and fits."""
    (row,) = compile_kernel(
        kernel, [(configuration, "")], f"sm_{capability.replace('.', '')}", folder, 1
    )
    if row.status == "not_supported":
        return row.reason
    assert row.status == "compiled", (kernel.id, capability, row.reason)
    room = GPUS[capability][0] << 10
    clusters = 15 if float(capability) >= 9 else 0
    device = {"sm_count": 60, "shared_memory_per_block": room, "clusters_of_4": clusters}
    for shape in kernel.launches(configuration, PROBLEM.names() | device):
        assert row.registers * math.prod(shape.block) <= REGISTERS, (
            kernel.id,
            configuration.label,
            capability,
        )
        if (asked := shape.dynamic_shared + row.static_shared) > room:
            return f"{asked / 1024:.0f} KiB of {GPUS[capability][0]}"
    return ""


def default(kernel):
    return Configuration(kernel.element_types[0], tuple(kernel.parameters.items()), NVRTC)


def span(kernels):
    """Numbers of rungs: `01 to 11, 13`."""
    places = [RUNGS.index(kernel) for kernel in kernels]
    runs = [
        [place for _, place in run]
        for _, run in groupby(enumerate(places), lambda it: it[1] - it[0])
    ]
    number = [kernel.name[:2] for kernel in RUNGS]
    return ", ".join(
        number[run[0]] + (f" to {number[run[-1]]}" if len(run) > 1 else "") for run in runs
    )


@pytest.mark.slow
def test_the_table_of_other_gpus_is_what_compiles(tmp_path):
    lines = []
    for capability, (_, names) in GPUS.items():
        reasons = {
            kernel.id: remains(
                kernel, default(kernel), capability, tmp_path / capability / kernel.name
            )
            for kernel in RUNGS
        }
        by_reason = {
            why: [kernel for kernel in RUNGS if reasons[kernel.id] == why]
            for why in dict.fromkeys(reasons.values())
        }
        large = [f"{span(those)} ({why})" for why, those in by_reason.items() if "KiB" in why]
        needs = [
            f"{span(those)} ({why})" for why, those in by_reason.items() if why.startswith("needs")
        ]
        lines.append(
            f"| {capability} | {names} | {span(by_reason[''])} | {', '.join(large) or '–'} | "
            f"{', '.join(needs) or '–'} |\n"
        )
    table = HEAD + "".join(lines)
    assert table in PAGE.read_text(), f"expected in {PAGE}:\n{table}"


@pytest.mark.slow
def test_every_configuration_of_the_quick_rungs_fits_a_small_card(tmp_path):
    """Of compute capability 8.6, whose blocks have the least shared memory of those with
    asynchronous copies.
    """
    for kernel in RUNGS[:12]:
        for configuration, objection in kernel.expand({}, kernel.element_types[:1], [NVRTC]):
            assert objection or not remains(kernel, configuration, "8.6", tmp_path / kernel.name), (
                configuration.label
            )
