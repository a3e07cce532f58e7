"""The 16-bit rungs for Hopper, on the CPU: right on what the gauntlet has for them and on several
waves, without a hang.
"""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import hopper
import numpy as np
import pytest
from ladder.measuring.gauntlet import describe, problems_for
from ladder.model.kernel import Configuration, Kernel
from ladder.model.kernel_file import discover, parse
from ladder.model.problem import Problem
from problems import DEVICE, complaint

ROOT = Path(__file__).resolve().parents[2]
KERNELS = [
    kernel
    for kernel in discover(ROOT).values()
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
        legal = [
            configuration
            for configuration, objection in kernel.expand({}, kernel.element_types)
            if not objection
        ]
        pairs += [(kernel, configuration) for configuration in dict.fromkeys((legal[0], legal[-1]))]
    return pairs


def given(kernel: Kernel, configuration: Configuration) -> list[Problem]:
    """The gauntlet as the kernel is asked it, and problems of several tiles, which on few SMs are
    several waves.
    """
    element_type = configuration.element_type
    several = [
        Problem(330, 264, 136, element_type, padding="0,0,8"),
        Problem(
            261,
            264,
            200,
            element_type,
            padding="8,0,1",
            alpha=-0.75,
            beta=0.5,
            distribution="mixed",
        ),
        Problem(24, 344, 1288, element_type, alpha=0.0),
    ]
    suitable = [
        problem
        for problem in several
        if not kernel.unmet_need(configuration, problem.names() | DEVICE)
    ]
    return [
        problem
        for problem in [*problems_for(kernel, configuration, DEVICE), *suitable]
        if problem.m * problem.n * problem.k <= MOST_PRODUCTS
    ]


def wrong(
    kernel: Kernel, configuration: Configuration, include: Path, folder: Path, seeds: int = 1
) -> Iterator[tuple[str, str]]:
    """Run one problem after the other. Yield those with a wrong result, and what is wrong with
    it.
    """
    library = hopper.build(kernel.source(configuration), include, folder)
    for problem in given(kernel, configuration):
        for seed in range(seeds):
            result = hopper.run(library, kernel, configuration, problem, DEVICE, seed)
            message = complaint(problem, result) if isinstance(result, np.ndarray) else result
            if message:
                yield describe(problem), message


@pytest.mark.parametrize(
    ("kernel", "configuration"),
    cases(),
    ids=lambda it: it.name if isinstance(it, Kernel) else it.slug,
)
def test_right_whatever_the_order_of_warps_and_copies(
    kernel: Kernel, configuration: Configuration, tmp_path: Path
) -> None:
    assert len(given(kernel, configuration)) >= 40
    assert (
        list(wrong(kernel, configuration, ROOT / "kernels" / "include", tmp_path / "build")) == []
    )


@pytest.mark.parametrize(
    ("name", "file", "right", "planted"),
    [
        ("31_half_ring", "include/half_ring.cuh", "wgmma_wait<1>();", ""),
        ("31_half_ring", "include/half_ring.cuh", "turn.parity ^ 1);", "0);"),
        (
            "33_half_tile_order",
            "include/half_leave.cuh",
            "stores_read<SLOTS - 1>();",
            "stores_read<SLOTS>();",
        ),
        (
            "33_half_tile_order",
            "include/half_leave.cuh",
            "beta == 0 && (ldc % 8 | N % 8 |",
            "beta == 0 && (ldc % 8 |",
        ),
        (
            "35_half_multicast",
            "include/half_ring.cuh",
            "CONSUMERS / 32 * sharing.PEERS",
            "CONSUMERS / 32",
        ),
        ("35_half_multicast", "include/half_share.cuh", "k + cm * PART", "k"),
        ("35_half_multicast", "include/half_tiles.cuh", "      ring.finish_filling();\n", ""),
        ("36_half_cluster_k", "include/half_slices.cuh", "  barrier_wait(come, 0);", ""),
        (
            "36_half_cluster_k",
            "include/half_slices.cuh",
            "some_sync<CONSUMERS>(1);  // all have read",
            "// all have read",
        ),
        (
            "36_half_cluster_k",
            "include/half_slices.cuh",
            "  cluster_wait();  // the other",
            "  // the other",
        ),
        ("36_half_cluster_k", "include/half_slices.cuh", "  cluster_arrive();  ", "  "),
        (
            "40_half_fitted_tile",
            "cuda/40_half_fitted_tile.cu",
            "if (++slot == SLOTS) slot = 0;",
            "slot = piece % 2 ^ 1;",
        ),
        (
            "40_half_fitted_tile",
            "cuda/40_half_fitted_tile.cu",
            "i < STAGES; ++i, next())",
            "i < 0; ++i, next())",
        ),
        (
            "40_half_fitted_tile",
            "cuda/40_half_fitted_tile.cu",
            "AT_BARRIERS, group}",
            "AT_BARRIERS, warp_index() / 4}",
        ),
        (
            "41_half_shifted_rows",
            "cuda/41_half_shifted_rows.cu",
            "wait<AHEAD>();",
            "wait<AHEAD + 1>();",
        ),
        (
            "41_half_shifted_rows",
            "cuda/41_half_shifted_rows.cu",
            "step += TEAMS",
            "step += TEAMS + 1",
        ),
        ("41_half_shifted_rows", "include/half_shifted.cuh", "      __syncwarp();", ""),
        (
            "41_half_shifted_rows",
            "include/half_shifted.cuh",
            "there = row + i % HIGH * APART < rows ?",
            "there = true ?",
        ),
        ("41_half_shifted_rows", "include/half_shifted.cuh", "all % 16 != 0", "all % 16 == 0"),
        (
            "41_half_shifted_rows",
            "include/half_shifted.cuh",
            "bytes = still ? 0",
            "bytes = still ? 8",
        ),
        ("41_half_shifted_rows", "include/half_shifted.cuh", "min(4, there - at)", "min(4, there)"),
        (
            "41_half_shifted_rows",
            "include/half_shifted.cuh",
            "APART < rows) *",
            "APART + 8 < rows) *",
        ),
        ("38_half_any_rows", "cuda/38_half_any_rows.cu", "(K + 63) / 64 * 8", "(K + 7) / 8"),
        ("36_half_cluster_k", "include/half_slices.cuh", "  if (SLICES > 1) leave_cluster();", ""),
        ("42_half_one_wave", "include/half_leave.cuh", "high = M - row - i * 16", "high = M - row"),
        (
            "42_half_one_wave",
            "include/half_leave.cuh",
            "some_sync<128>(1 + warp_index() / 4);\n  const",
            "__syncwarp();\n  const",
        ),
        ("42_half_one_wave", "include/half_leave.cuh", "(ldc % 8 | N % 8 |", "(ldc % 8 |"),
        (
            "42_half_one_wave",
            "include/half_store.cuh",
            "threadIdx.x % 4 * 2 + i % 2, x",
            "threadIdx.x % 4 * 2, x",
        ),
        (
            "40_half_fitted_tile",
            "cuda/40_half_fitted_tile.cu",
            "      some_arrive<CONSUMERS>(4);\n",
            "",
        ),
        (
            "41_half_shifted_rows",
            "include/half_shifted.cuh",
            "copy_part<WIDTH>(to, from, bytes)",
            "copy_part<WIDTH>(to, from, WIDTH)",
        ),
        (
            "43_half_staggered_ends",
            "include/half_ring.cuh",
            "some_sync<256>(4 + group)",
            "some_sync<256>(5 + group)",
        ),
        (
            "43_half_staggered_ends",
            "include/half_ring.cuh",
            "int s = together; s < steps",
            "int s = together + 1; s < steps",
        ),
    ],
)
def test_a_planted_fault_is_found(
    name: str, file: str, right: str, planted: str, tmp_path: Path
) -> None:
    assert is_found(name, [(file, right, planted)], tmp_path)


def test_an_arrival_at_the_barrier_of_the_cluster_before_the_ring_is_read_is_found(
    tmp_path: Path,
) -> None:
    loop, arrival = (
        "    for (int step = 0; step < steps; ++step) ring.multiply_step",
        "  cluster_arrive();  ",
    )
    faults = [
        ("include/half_slices.cuh", arrival, ""),
        ("include/half_slices.cuh", loop, arrival + loop),
    ]
    assert is_found("36_half_cluster_k", faults, tmp_path)


@pytest.mark.parametrize(
    ("right", "planted"),
    [("first + peer", "peer"), ("1 << (first + i + CM * cn)", "1 << (i + CM * cn)")],
)
def test_blocks_of_one_slice_that_share_b_with_another_are_found(
    right: str, planted: str, tmp_path: Path
) -> None:
    assert is_found(
        "36_half_cluster_k", [("include/half_share.cuh", right, planted)], tmp_path, SLICES=2, CM=2
    )


@pytest.mark.parametrize(
    ("right", "planted"),
    [("if (p >= mine) break;", ""), ("(SLICES - 1) * mine", "(SLICES - 1) * PART")],
)
def test_slices_of_unlike_parts_that_add_up_as_much_are_found(
    right: str, planted: str, tmp_path: Path
) -> None:
    assert is_found(
        "36_half_cluster_k",
        [("include/half_slices.cuh", right, planted)],
        tmp_path,
        BN=64,
        SLICES=3,
    )


def test_blocks_that_end_before_others_have_given_stages_back_are_found(tmp_path: Path) -> None:
    assert is_found(
        "42_half_one_wave",
        [("include/half_slices.cuh", "      ring.finish_filling();\n", "")],
        tmp_path,
        BM=64,
        CM=4,
    )


def test_slices_of_exchanged_operands_that_lose_a_part_are_found(tmp_path: Path) -> None:
    faults = [("include/half_slices.cuh", "row + first + p * 8", "row + p * 8")]
    assert is_found("42_half_one_wave", faults, tmp_path, SLICES=2)


def test_clusters_that_share_both_operands_give_a_stage_back_to_all_who_sent_it(
    tmp_path: Path,
) -> None:
    faults = [
        ("cuda/40_half_fitted_tile.cu", "CONSUMERS / 32 * (CM + CN - 1)", "CONSUMERS / 32 * 2")
    ]
    assert is_found("40_half_fitted_tile", faults, tmp_path, CM=2, CN=2)


def test_a_stage_that_is_copied_before_it_can_come_back_is_found(tmp_path: Path) -> None:
    faults = [
        (
            "include/half_shifted.cuh",
            "AHEAD = (STAGES - 2) / TEAMS;",
            "AHEAD = (STAGES - 1) / TEAMS;",
        )
    ]
    assert is_found("41_half_shifted_rows", faults, tmp_path, BN=64, STAGES=5, SLICES=2)


@pytest.mark.parametrize(
    ("right", "planted"),
    [("part_at(blockIdx.z)", "part_at(0)"), ("j += gridDim.z", "j += gridDim.z + 1")],
)
def test_parts_of_k_that_are_lost_are_found(right: str, planted: str, tmp_path: Path) -> None:
    assert is_found(
        "41_half_shifted_rows",
        [("cuda/41_half_shifted_rows.cu", right, planted)],
        tmp_path,
        SLICES=1,
        PARTS=64,
    )


def is_found(
    name: str, faults: Sequence[tuple[str, str, str]], folder: Path, **parameters: int
) -> bool:
    """Replace texts in the kernel's files, each a file, the text and another, and return whether
    any result is wrong.
    """
    kernels = folder / "kernels"
    shutil.copytree(ROOT / "kernels", kernels)
    for file, right, planted in faults:
        text = (kernels / file).read_text()
        assert right in text
        (kernels / file).write_text(text.replace(right, planted))
    kernel = parse(kernels / "cuda" / f"{name}.cu")
    configuration = Configuration(
        kernel.element_types[0], tuple((kernel.parameters | parameters).items())
    )
    return any(wrong(kernel, configuration, kernels / "include", folder / "build", 2))
