"""The 16-bit rungs for Hopper, on the CPU: right on what the gauntlet has for them and on several
waves, without a hang.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import hopper
import numpy as np
import pytest
from ladder.measuring.gauntlet import describe, problems_for
from ladder.model.kernel import Configuration, Kernel
from ladder.model.kernel_file import parse
from ladder.model.problem import Problem
from layouts import LAYOUTS, source, with_layouts
from problems import DEVICE, complaint
from rungs import ALL

ROOT = Path(__file__).resolve().parents[2]
KERNELS = [
    kernel
    for kernel in ALL.values()
    if kernel.architecture == "sm_90a" and "bfloat16" in kernel.element_types and not kernel.uses
]
MOST_PRODUCTS = 30_000_000
"""Of a problem: more take too long here."""


def cases() -> list[tuple[Kernel, Configuration]]:
    """Of each kernel the first configuration, in its first element type, and the last, in its
    last.
    """
    pairs = []
    for kernel in KERNELS:
        every = kernel.expand({}, kernel.element_types)
        legal = [configuration for configuration, objection in every if not objection]
        pairs += [(kernel, configuration) for configuration in dict.fromkeys((legal[0], legal[-1]))]
    return pairs


def given(kernel: Kernel, configuration: Configuration) -> list[Problem]:
    """The gauntlet as the kernel is asked it, and problems of several tiles, which on few SMs are
    several waves.
    """
    element_type = configuration.element_type
    layout = {"padding": "8,0,1", "alpha": -0.75, "beta": 0.5, "distribution": "mixed"}
    chosen = problems_for(kernel, configuration, DEVICE)
    for problem in (
        Problem(330, 264, 136, element_type, padding="0,0,8"),
        Problem(261, 264, 200, element_type, **layout),
        Problem(24, 344, 1288, element_type, alpha=0.0),
    ):
        if not kernel.unmet_need(configuration, problem.names() | DEVICE):
            chosen.append(problem)
    return [
        problem
        for problem in chosen
        if problem.m * problem.n * problem.k <= MOST_PRODUCTS and max(problem.m, problem.n) < 2**16
    ]


def wrong(
    kernel: Kernel,
    configuration: Configuration,
    include: Path,
    folder: Path,
    seeds: int = 1,
    layout: str = "nn",
) -> Iterator[tuple[str, str]]:
    """Run one problem after the other. Yield those with a wrong result, and what is wrong with
    it.
    """
    library = hopper.build(source(kernel, configuration, layout), include, folder)
    asked = given(kernel, configuration)
    if layout != "nn":
        kernel = with_layouts(kernel)
        asked = asked[1::2]
    for problem in asked:
        for seed in range(seeds):
            result = hopper.run(library, kernel, configuration, problem, DEVICE, seed, layout)
            message = complaint(problem, result) if isinstance(result, np.ndarray) else result
            if message:
                yield describe(problem), message


@pytest.mark.parametrize(
    ("kernel", "configuration"),
    cases(),
    ids=lambda given: given.name if isinstance(given, Kernel) else given.slug,
)
def test_right_whatever_the_order_of_warps_and_copies(
    kernel: Kernel, configuration: Configuration, tmp_path: Path
) -> None:
    assert len(given(kernel, configuration)) >= 40
    assert (
        list(wrong(kernel, configuration, ROOT / "kernels" / "include", tmp_path / "build")) == []
    )


@pytest.mark.parametrize("layout", LAYOUTS[1:])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_right_in_every_layout(kernel: Kernel, layout: str, tmp_path: Path) -> None:
    every = kernel.expand({}, kernel.element_types)
    legal = [configuration for configuration, objection in every if not objection]
    configuration = legal[{"nt": 0, "tn": len(legal) // 2, "tt": -1}[layout]]
    include = ROOT / "kernels" / "include"
    assert list(wrong(kernel, configuration, include, tmp_path / "build", 1, layout)) == []


FAULTS: list[tuple[str, str, dict[str, int], dict[str, str]]] = [
    (
        "31_half_ring",
        "include/half_ring.cuh",
        {},
        {"wgmma_wait<1>();": "", "turn.parity ^ 1);": "0);"},
    ),
    (
        "33_half_tile_order",
        "include/half_leave.cuh",
        {},
        {
            "stores_read<SLOTS - 1>();": "stores_read<SLOTS>();",
            "beta == 0 && (ldc % 8 | N % 8 |": "beta == 0 && (ldc % 8 |",
        },
    ),
    (
        "35_half_multicast",
        "include/half_ring.cuh",
        {},
        {"CONSUMERS / 32 * sharing.PEERS": "CONSUMERS / 32"},
    ),
    ("35_half_multicast", "include/half_operand.cuh", {}, {" + part * ROWS, full": ", full"}),
    ("35_half_multicast", "include/half_tiles.cuh", {}, {"      ring.finish_filling();\n": ""}),
    (
        "36_half_cluster_k",
        "include/half_slices.cuh",
        {},
        {
            "  barrier_wait(come, 0);": "",
            "some_sync<CONSUMERS>(1);  // all have read": "// all have read",
            "  cluster_wait();  // the other": "  // the other",
            "  cluster_arrive();  ": "  ",
            "  if (SLICES > 1) leave_cluster();": "",
        },
    ),
    (
        "40_half_fitted_tile",
        "cuda/40_half_fitted_tile.cu",
        {},
        {
            "if (++slot == SLOTS) slot = 0;": "slot = piece % 2 ^ 1;",
            "i < STAGES; ++i, next())": "i < 0; ++i, next())",
            "AT_BARRIERS, group}": "AT_BARRIERS, warp_index() / 4}",
            "      some_arrive<CONSUMERS>(4);\n": "",
        },
    ),
    (
        "41_half_shifted_rows",
        "cuda/41_half_shifted_rows.cu",
        {},
        {"wait<AHEAD>();": "wait<AHEAD + 1>();", "step += TEAMS": "step += TEAMS + 1"},
    ),
    (
        "41_half_shifted_rows",
        "include/half_shifted.cuh",
        {},
        {
            "      __syncwarp();": "",
            "there = row + i % HIGH * APART < rows ?": "there = true ?",
            "all % 16 != 0": "all % 16 == 0",
            "bytes = still ? 0": "bytes = still ? 8",
            "min(4, there - at)": "min(4, there)",
            "APART < rows) *": "APART + 8 < rows) *",
            "copy_part<WIDTH>(to, from, bytes)": "copy_part<WIDTH>(to, from, WIDTH)",
        },
    ),
    ("38_half_any_rows", "cuda/38_half_any_rows.cu", {}, {"(K + 63) / 64 * 8": "(K + 7) / 8"}),
    (
        "42_half_one_wave",
        "include/half_leave.cuh",
        {},
        {
            "high = M - row - i * 16": "high = M - row",
            "some_sync<128>(1 + warp_index() / 4);\n  const": "__syncwarp();\n  const",
            "(ldc % 8 | N % 8 |": "(ldc % 8 |",
        },
    ),
    (
        "42_half_one_wave",
        "include/half_store.cuh",
        {},
        {"threadIdx.x % 4 * 2 + i % 2, x": "threadIdx.x % 4 * 2, x"},
    ),
    (
        "43_half_staggered_ends",
        "cuda/43_half_staggered_ends.cu",
        {},
        {
            "some_sync<256>(4 + group)": "some_sync<256>(5 + group)",
            "int s = together; s < steps": "int s = together + 1; s < steps",
        },
    ),
    (
        "36_half_cluster_k",
        "include/half_share.cuh",
        {"SLICES": 2, "CM": 2},
        {"first + peer": "peer", "1 << (first + i + CM * cn)": "1 << (i + CM * cn)"},
    ),
    (
        "36_half_cluster_k",
        "include/half_slices.cuh",
        {"BN": 64, "SLICES": 3},
        {"if (p >= mine) break;": "", "(SLICES - 1) * mine": "(SLICES - 1) * PART"},
    ),
    (
        "42_half_one_wave",
        "include/half_slices.cuh",
        {"BM": 64, "CM": 4},
        {"      ring.finish_filling();\n": ""},
    ),
    (
        "42_half_one_wave",
        "include/half_slices.cuh",
        {"SLICES": 2},
        {"row + first + p * 8": "row + p * 8"},
    ),
    (
        "40_half_fitted_tile",
        "cuda/40_half_fitted_tile.cu",
        {"CM": 2, "CN": 2},
        {"CONSUMERS / 32 * (CM + CN - 1)": "CONSUMERS / 32 * 2"},
    ),
    (
        "41_half_shifted_rows",
        "include/half_shifted.cuh",
        {"BN": 64, "STAGES": 5, "SLICES": 2},
        {"AHEAD = (STAGES - 2) / TEAMS;": "AHEAD = (STAGES - 1) / TEAMS;"},
    ),
    (
        "41_half_shifted_rows",
        "cuda/41_half_shifted_rows.cu",
        {"SLICES": 1, "PARTS": 64},
        {"part_at(blockIdx.z)": "part_at(0)", "j += gridDim.z": "j += gridDim.z + 1"},
    ),
]
"""A rung, the file of its kernel or header, the parameters in which faults are seen, and the texts
that are replaced there, one at a time.
"""
ARRIVAL = "  cluster_arrive();  "
LOOP = "    for (int step = 0; step < steps; ++step) ring.multiply_step"


@pytest.mark.parametrize(
    ("name", "file", "parameters", "fault"),
    [(*given, {right: faults[right]}) for *given, faults in FAULTS for right in faults],
)
def test_a_planted_fault_is_found(
    name: str, file: str, parameters: dict[str, int], fault: dict[str, str], tmp_path: Path
) -> None:
    assert is_found(name, file, fault, tmp_path, parameters)


def test_an_arrival_at_the_barrier_of_the_cluster_before_the_ring_is_read_is_found(
    tmp_path: Path,
) -> None:
    faults = {ARRIVAL: "", LOOP: ARRIVAL + LOOP}
    assert is_found("36_half_cluster_k", "include/half_slices.cuh", faults, tmp_path, {})


IN_LAYOUTS: list[tuple[str, str, str, dict[str, int], dict[str, str]]] = [
    (
        "tn",
        "34_half_late_stores",
        "include/half_operand.cuh",
        {"BN": 128, "STAGES": 6},
        {
            "(MN_MAJOR ? STRIP >> 4 : 1)": "(1)",
            "(MN_MAJOR ? 16 * 128 : 16 * 2)": "(16 * 2)",
            "x = MN_MAJOR ? first + i * 64 : k": "x = MN_MAJOR ? first : k",
            "A::MN_MAJOR, B::MN_MAJOR": "A::MN_MAJOR, A::MN_MAJOR != TRANS_A",
        },
    ),
    (
        "nt",
        "35_half_multicast",
        "include/half_operand.cuh",
        {"BN": 128, "STAGES": 6},
        {"(MN_MAJOR ? DEPTH : SIZE) / PARTS": "DEPTH / PARTS"},
    ),
    (
        "tt",
        "36_half_cluster_k",
        "include/half_ring.cuh",
        {},
        {
            "Operand<BM, TRANS_A>": "Operand<BM, false>",
            "Operand<BN, !TRANS_B>": "Operand<BN, true>",
        },
    ),
    (
        "tn",
        "42_half_one_wave",
        "include/half_operand.cuh",
        {},
        {"MN_MAJOR ? STRIPS * STRIP : SIZE * 128": "SIZE * 128"},
    ),
    (
        "tt",
        "38_half_any_rows",
        "cuda/38_half_any_rows.cu",
        {"BN": 128, "STAGES": 6},
        {"width_a = TRANS_A ? M : K": "width_a = K", "(TRANS_B ? N : K) * wide_b": "K * wide_b"},
    ),
    (
        "tt",
        "41_half_shifted_rows",
        "cuda/41_half_shifted_rows.cu",
        {},
        {
            "TRANS_A ? size_t(TEAMS * shares) * DEPTH * lda :": "",
            "TRANS_B ? N - column : left": "left",
            "TRANS_A ? left : M - row": "M - row",
            "TRANS_B ? N - column : DEPTH": "DEPTH",
            "TRANS_B ? B + size_t(N - 1) * ldb + K :": "TRANS_B ? B + size_t(N - 2) * ldb + K :",
        },
    ),
]
"""A layout before them."""


@pytest.mark.parametrize(
    ("layout", "name", "file", "parameters", "fault"),
    [(*given, {right: faults[right]}) for *given, faults in IN_LAYOUTS for right in faults],
)
def test_a_planted_fault_is_found_in_its_layout(
    layout: str,
    name: str,
    file: str,
    parameters: dict[str, int],
    fault: dict[str, str],
    tmp_path: Path,
) -> None:
    assert is_found(name, file, fault, tmp_path, parameters, layout)


def is_found(
    name: str,
    file: str,
    faults: dict[str, str],
    folder: Path,
    parameters: dict[str, int],
    layout: str = "nn",
) -> bool:
    """Replace texts in a file, and return whether any result of the kernel is wrong."""
    kernels = folder / "kernels"
    shutil.copytree(ROOT / "kernels", kernels)
    text = (kernels / file).read_text()
    for right, planted in faults.items():
        assert right in text
        text = text.replace(right, planted)
    (kernels / file).write_text(text)
    kernel = parse(kernels / "cuda" / f"{name}.cu")
    configuration = Configuration(
        kernel.element_types[0], tuple((kernel.parameters | parameters).items())
    )
    return any(wrong(kernel, configuration, kernels / "include", folder / "build", 2, layout))
