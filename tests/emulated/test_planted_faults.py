"""Tests of the tests: a fault planted in a real kernel is found, by the means that ought to find
it.
"""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import emulator
import pytest
from ladder.measuring.gauntlet import problems
from ladder.model.kernel import Configuration, Kernel
from ladder.model.problem import Problem
from layouts import source as text_of
from layouts import with_layouts
from problems import complaint, few, launch, lower_kernel
from rungs import ALL
from test_emulated import ROOT

Symptom = Literal["race", "outside", "divergence", "result"]
"""A data race, an access outside a buffer, a barrier that not all threads reach (all by Oclgrind);
a wrong C (by PoCL).
"""

FINDINGS = {"race": "data race", "outside": "Invalid", "divergence": "divergence"}
"""What Oclgrind's complaint contains."""

FAULTS: dict[Symptom, list[tuple[str, str, str, str]]] = {
    "race": [
        # no barrier before the tile is read
        ("03_shared_tile", "", "__syncthreads();  // the tiles are complete", ""),
        # no barrier before the tile is overwritten
        ("04_shared_tile_unrolled", "", "__syncthreads();  // nobody", "// nobody"),
        # no barrier with register tiles
        ("05_register_tile", "", "__syncthreads();  // the tiles are complete", ""),
        # no barrier with vector loads
        ("06_vectorized_loads", "", "__syncthreads();  // nobody", "// nobody"),
        # no barrier with two buffers
        ("07_double_buffer", "", "__syncthreads();  // the next", "// the next"),
        # one buffer taken for two
        ("08_padded_shared", "", "tileB.put(sB[now ^ 1]", "tileB.put(sB[now]"),
        # buffers not exchanged
        ("09_register_reuse", "", "now ^= 1;", ""),
        # no barrier between buffers
        ("10_block_tile_128", "", "        __syncthreads();\n", ""),
        # no barrier between buffers of a slice
        ("11_split_k", "", "        __syncthreads();\n", ""),
        # no barrier in the ring of stages
        ("12_async_copies", "", "        __syncthreads();     //", "        //"),
    ],
    "divergence": [
        # barrier in a branch
        (
            "03_shared_tile",
            "",
            "  const int row = ",
            "  if (thread < 16) __syncthreads();\n  const int row = ",
        ),
        # return before a barrier
        (
            "05_register_tile",
            "",
            "  Acc sum[TM]",
            "  if (row0 + threadIdx.y >= M) return;\n  Acc sum[TM]",
        ),
    ],
    "outside": [
        # a column too many read
        ("02_naive_coalesced", "", "col >= N) return", "col > N) return"),
        # a tile's last column not guarded
        ("06_vectorized_loads", "", "k0 + k < K ? count - first - c : 0", "count - first - c"),
        # an element too many in a row's end
        ("07_double_buffer", "vector.cuh", "left > 3", "left > 2"),
        # alignment not tested
        ("10_block_tile_128", "vector.cuh", "addresses % 16 == 0", "true"),
        # lda for ldb
        ("01_naive_uncoalesced", "", "size_t(k) * ldb", "size_t(k) * lda"),
        # a row beyond the matrix is read
        (
            "13_snake_order",
            "snake.cuh",
            "(min(row0 + ra + i * ROWS_A, M - 1) - top)",
            "(i * ROWS_A)",
        ),
    ],
    "result": [
        # a row too many written
        ("05_register_tile", "", "if (row < M && col < N) store", "if (row <= M && col < N) store"),
        # a column too many written
        ("01_naive_uncoalesced", "", "col >= N) return", "col > N) return"),
        # two elements exchanged
        ("09_register_reuse", "tile.cuh", "[c + 1][r] = part[i].y", "[c + 1][r] = part[i].z"),
        # a warp's columns exchanged
        ("10_block_tile_128", "", "n / 4 * 32", "n / 4 * 16"),
        # a whole tile too few
        ("04_shared_tile_unrolled", "", "k0 < K && alpha", "k0 + BK <= K && alpha"),
        # C read where beta is 0
        ("03_shared_tile", "store.cuh", "beta == 0 ? 0 :", ""),
        # C read four at a time where beta is 0
        ("10_block_tile_128", "vector.cuh", "beta == 0 ?", "false ?"),
        # a slice too few added
        ("11_split_k", "", "slice < SLICES", "slice < SLICES - 1"),
        # slices that overlap
        ("11_split_k", "", "begin + length, K)", "begin + length + 1, K)"),
        # slices in one place
        ("11_split_k", "", "workspace + size_t(blockIdx.z) * M * N", "workspace"),
        # the snake does not turn
        (
            "13_snake_order",
            "snake.cuh",
            "const int m = TM < TN ? turn : line",
            "const int m = line / 2",
        ),
        # k invented
        ("13_snake_order", "snake.cuh", ": ka) < first", ": ka) < BK"),
        # a group's sums forgotten
        ("14_cluster_split_k", "", "part < SLICES * GROUPS", "part < SLICES * GROUPS - 1"),
        # a share too few added
        ("15_last_wave", "", "block <= last - first", "block < last - first"),
        # the parts of a block in one place
        ("15_last_wave", "", "2 * blockIdx.x + (k0 == 0)", "2 * blockIdx.x"),
        # a share that begins a step too late
        (
            "15_last_wave",
            "",
            "step = shares.begin(blockIdx.x),",
            "step = shares.begin(blockIdx.x) + 1,",
        ),
        # thin tiles that begin a row too low
        ("16_thin_edge", "", "M / BM * BM : M;", "M / BM * BM + 1 : M;"),
        # beta forgotten
        ("10_block_tile_128", "vector.cuh", "alpha * sum[3] + beta * v.w", "alpha * sum[3]"),
    ],
}
"""What finds faults, and for each the kernel, the header that it is planted in (or the kernel's own
file), the text replaced (its first occurrence), and the text put there.
"""


@pytest.mark.parametrize(
    ("symptom", "name", "header", "right", "wrong"),
    [(symptom, *fault) for symptom, faults in FAULTS.items() for fault in faults],
)
def test_planted_fault_is_found(
    symptom: Symptom, name: str, header: str, right: str, wrong: str, tmp_path: Path
) -> None:
    kernel = ALL[f"cuda/{name}"]
    assert is_found(symptom, kernel, header, right, wrong, tmp_path)


IN_LAYOUTS = [
    # rows of B as many elements apart as they have
    ("nt", "result", "05_register_tile", "", "c) * ldb + k0 + k", "c) * K + k0 + k"),
    # rows of A as many elements apart as they have
    ("tn", "result", "05_register_tile", "", "k) * lda + row0 + r", "k) * M + row0 + r"),
    # a transpose left out
    ("tn", "result", "06_vectorized_loads", "", "move<BM, TRANS_A>", "move<BM, false>"),
    # M and K exchanged
    ("tn", "outside", "10_block_tile_128", "", "MN_MAJOR ? K : count", "MN_MAJOR ? count : K"),
    # steps along rows where K runs down
    ("tn", "result", "12_async_copies", "", "TRANS_A ? size_t(BK) * lda : BK", "BK"),
    # K beyond its end
    ("tt", "result", "12_async_copies", "", "cb + i < N && kb < left", "cb + i < N"),
    # the short tile's k of the other operand
    ("tt", "result", "13_snake_order", "snake.cuh", "TRANS_A ? ka + i * ROWS_A : ka", "ka"),
    # a row of B in shared memory without its padding
    ("nt", "result", "15_last_wave", "snake.cuh", "at_b + k * WIDTH_B", "at_b + k * BN"),
]
"""Layouts, and what is above."""


@pytest.mark.parametrize(("layout", "symptom", "name", "header", "right", "wrong"), IN_LAYOUTS)
def test_planted_fault_is_found_in_its_layout(
    layout: str, symptom: Symptom, name: str, header: str, right: str, wrong: str, tmp_path: Path
) -> None:
    kernel = with_layouts(ALL[f"cuda/{name}"])
    assert is_found(symptom, kernel, header, right, wrong, tmp_path, layout)


def is_found(
    symptom: Symptom,
    kernel: Kernel,
    header: str,
    right: str,
    wrong: str,
    tmp_path: Path,
    layout: str = "nn",
) -> bool:
    """Replace a text, and return whether that is found."""
    configuration = Configuration("float32", tuple(kernel.parameters.items()))
    source = text_of(kernel, configuration, layout)
    include = tmp_path / "include"
    shutil.copytree(ROOT / "kernels/include", include)
    text = (include / header).read_text() if header else source
    assert right in text, "the kernel has changed: plant the fault anew"
    text = text.replace(right, wrong, 1)
    if header:
        (include / header).write_text(text)
    else:
        source = text
    tool: emulator.Tool = "pocl" if symptom == "result" else "oclgrind"
    programs = lower_kernel(tool, kernel, configuration, source, include, tmp_path, layout)

    def run(given: Sequence[Problem]) -> emulator.Outcome:
        launches = [launch(problem, kernel, configuration, programs, layout) for problem in given]
        return emulator.run(tool, launches)

    if symptom == "result":
        given = problems("float32")
        return any(map(complaint, given, run(given).arrays))
    parts = [few("float32")[:2], few("float32")[2:]]  # small ones first: Oclgrind is slow
    if symptom == "race":
        # every single one counts: the problem with most tiles along K is enough, or three of them
        deep = max(few("float32"), key=lambda problem: problem.k)
        whole = {"STAGES", "SLICES"} & kernel.parameters.keys()
        parts = [[deep if whole else replace(deep, k=min(deep.k, 3 * kernel.parameters["BK"]))]]
    findings: list[str] = []
    for given in parts:
        findings += run(given).findings
        if any(FINDINGS[symptom] in finding for finding in findings):
            return True
    pytest.fail(f"not found; instead: {findings}")
