"""The changes of the upper rungs that `studies/beside.py tried` times: what an idea brings, by leaving it out, and what did not help.

What is changed is the rung in its best configuration on the problem, by a published dataset. A change is another configuration, or an edit of
the text of a kernel or header.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ladder.analysis.dataset import Dataset
from ladder.core.errors import InputError
from ladder.core.files import ROOT
from ladder.model.kernel import Configuration, Kernel
from ladder.model.kernel_file import parse
from ladder.model.problem import Problem
from ladder.storage.dataset_layout import PUBLISHED
from ladder.storage.published_index import HEADLINE, featured

SMALL, MIDDLE, SQUARE, LARGE = ((size, size, size) for size in (1024, 2048, 4096, 8192))
DEEP, THIN, TALL, ODD = (256, 256, 16384), (64, 4096, 4096), (8192, 128, 8192), (2049, 2047, 2051)
Edits = tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Change:
    """What is changed of a rung in its best configuration on a problem: parameters, and texts that are replaced, by file below `kernels/`; or
    another rung in its place."""

    kernel: str
    what: str
    problem: tuple[int, int, int]
    parameters: Mapping[str, int] = field(default_factory=dict)
    edits: Edits = ()
    other: str = ""
    """The other rung, of which `parameters` are then, beside its defaults."""


SNAKE, CUDA_15, CUDA_16, CUDA_21 = "include/snake.cuh", "cuda/15_last_wave.cu", "cuda/16_thin_edge.cu", "cuda/21_tensor_split.cu"
ELECTED, THROUGH_REGISTERS = "one lane of each warp arrives, after the others", "through registers and two buffers: rung 10"
ROWS: Edits = ((SNAKE, "turn = line % 2 ? LINE - 1 - i % LINE : i % LINE", "turn = i % LINE"),)
ONE_ARRIVES: Edits = (
    (SNAKE, "barrier.begin(THREADS);", "barrier.begin(THREADS / 32);"),
    (SNAKE, "            barrier.arrive();", "            __syncwarp();\n            if (lane == 0) barrier.arrive();"),
)
ONE_SUM: Edits = (
    (CUDA_21, ", long_sum[WN / 2];", ";"),
    (CUDA_21, "sum[i] = long_sum[i] = 0;", "sum[i] = 0;"),
    (CUDA_21, "long_sum[i] += sum[i], sum[i] = 0;", "{}"),
    (CUDA_21, "sum[i] = long_sum[i];", "{}"),
)
CHANGES = [
    Change("12_async_copies", THROUGH_REGISTERS, SQUARE, {"BN": 256, "TM": 16}, other="10_block_tile_128"),
    Change("12_async_copies", "tiles of 128 x 128", SQUARE, {"BN": 128, "TM": 8}),
    Change("12_async_copies", f"tiles of 128 x 128, {THROUGH_REGISTERS}", SQUARE, other="10_block_tile_128"),
    Change("12_async_copies", THROUGH_REGISTERS, DEEP, {"BM": 64}, other="10_block_tile_128"),
    Change("12_async_copies", "two stages", DEEP, {"STAGES": 2}),
    Change("13_snake_order", "along the rows", SQUARE, edits=ROWS),
    Change("13_snake_order", "8 x 8 a thread", SQUARE, {"BN": 128, "TM": 8, "STAGES": 5, "LEAD": 6, "B_FIRST": 1}),
    Change("13_snake_order", "8 x 8 a thread, along the rows", SMALL, edits=ROWS),
    Change("13_snake_order", "BK = 16", SQUARE, {"BK": 16, "STAGES": 5}),
    Change(
        "13_snake_order", "a branch round the copies at the end of K", SQUARE,
        edits=((SNAKE, "copy(free, tile + STAGES - 1 < tiles);", "if (tile + STAGES - 1 < tiles) copy(free, true);"),),
    ),
    Change(
        "13_snake_order", "tiles row after row, not in bands", LARGE,
        edits=((SNAKE, "ROWS = BM < 1024 ? 1024 / BM : 1;", "ROWS = 1;"),),
    ),
    Change("13_snake_order", "the barrier split", SQUARE, {"SPLIT": 2}),
    Change("13_snake_order", f"the barrier split, {ELECTED}", SQUARE, {"SPLIT": 2}, ONE_ARRIVES),
    Change("14_cluster_split_k", "K not split in a cluster", DEEP, {"SLICES": 1}),
    Change("14_cluster_split_k", "K not split in a cluster", THIN, {"SLICES": 1}),
    Change("14_cluster_split_k", "no groups, tiles twice as high", DEEP, {"GROUPS": 1, "BM": 32}),
    Change("14_cluster_split_k", "no groups, tiles twice as high, clusters of four", DEEP, {"GROUPS": 1, "BM": 32, "SLICES": 4}),
    Change("14_cluster_split_k", "no groups", THIN, {"GROUPS": 1}),
    Change("14_cluster_split_k", "clusters of four", DEEP, {"SLICES": 4}),
    Change("14_cluster_split_k", "clusters of eight", DEEP, {"SLICES": 8}),
    Change(
        "14_cluster_split_k", "tiles of 64 x 64, eight groups", THIN,
        {"BM": 64, "BN": 64, "TM": 16, "GROUPS": 8, "STAGES": 4, "SPREAD": 12, "LEAD": 1},
    ),
    Change("14_cluster_split_k", "one barrier, not split", TALL, {"SPLIT": 0}),
    Change("14_cluster_split_k", ELECTED, TALL, edits=ONE_ARRIVES),
    Change("15_last_wave", "one barrier, not split", DEEP, {"SPLIT": 0}),
    Change("15_last_wave", ELECTED, DEEP, edits=ONE_ARRIVES),
    Change("15_last_wave", "one sum, not by chunks of K", DEEP, {"CHUNK": 0}),
    Change("15_last_wave", "one sum, not by chunks of K", THIN, {"CHUNK": 0}),
    Change("15_last_wave", "132 SMs a wave, not 128", THIN, {"IDLE": 0}),
    Change(
        "15_last_wave", "a full wave shared out with the rest", SQUARE,
        edits=(
            (CUDA_15, "  rest: tiles % wave ", "  rest: tiles % wave + (wave if tiles > wave else 0) "),
            (
                CUDA_15, "    tiles = (M + BM - 1) / BM * ((N + BN - 1) / BN) % gridDim.x;\n",
                "    tiles = (M + BM - 1) / BM * ((N + BN - 1) / BN);\n"
                "    tiles = tiles % gridDim.x + (tiles > gridDim.x ? gridDim.x : 0);\n",
            ),
            (
                CUDA_15, "    end = step + shares.steps;\n",
                "    end = step + shares.steps;\n"
                "    if (step >= (long long)((M + BM - 1) / BM) * ((N + BN - 1) / BN) * shares.steps) return;\n",
            ),
        ),
    ),
    Change("16_thin_edge", "no thin tiles", ODD, {"THIN": 0}),
    Change("16_thin_edge", "one barrier, not split", ODD, {"SPLIT": 0}),
    Change("16_thin_edge", ELECTED, ODD, edits=ONE_ARRIVES),
    Change(
        "16_thin_edge", "C from registers, not through shared memory", ODD,
        edits=((SNAKE, "if (GROUPS == 1 && vector) return put_own(to, ld, rows, cols, alpha, beta, true);",
                "if (GROUPS == 1) return put_own(to, ld, rows, cols, alpha, beta, vector);"),),
    ),
    Change(
        "16_thin_edge", "B by single elements, as on odd rows", MIDDLE,
        edits=((CUDA_16, "tile<Block, true>(edge,", "tile<Block, false>(edge,"),),
    ),
    Change("21_tensor_split", "B split by a launch of its own", THIN, {"DIRECT": 0}),
    Change("21_tensor_split", "K not split in a cluster", DEEP, {"SLICES": 1}),
    Change(
        "21_tensor_split", "columns share no scale", SQUARE,
        edits=((CUDA_21, "scales = (alike ? ALIKE : 0) | (same ? SAME : 0);", "scales = 0;"),),
    ),
    Change("21_tensor_split", "one sum, not by chunks of K", SQUARE, edits=ONE_SUM),
    Change(
        "21_tensor_split", "tiles of 192 columns, one sum", LARGE, {"BN": 192, "STAGES": 5},
        (
            *ONE_SUM,
            (CUDA_21, "or BN == 128 or", "or BN == 128 or BN == 192 or"),
            (CUDA_21, "BM * BN <= 16384\n", "BM * BN <= 24576\n"),
            (CUDA_21, "auto& into = WN == 128 ?", "auto& into = WN >= 128 ?"),
            (CUDA_21, "      if (WN != 128)\n", "      if (WN < 128)\n"),
        ),
    ),
    Change(
        "21_tensor_split", "warpgroups take turns, one multiplying while the other adds up", SQUARE,
        edits=(
            (
                CUDA_21, "    int stage = 0, place = 0, parity = 0;\n",
                '    int stage = 0, place = 0, parity = 0;\n    if (consumer >= 128) asm volatile("bar.arrive 8, 256;" ::: "memory");\n',
            ),
            (CUDA_21, "        if (verdict & TENSOR) {\n", "        some_sync<256>(8 + consumer / 128);\n        if (verdict & TENSOR) {\n"),
            (
                CUDA_21, "        barrier_arrive(freed[0]);\n",
                '        asm volatile("bar.arrive %0, 256;" ::"r"(9 - consumer / 128) : "memory");\n        barrier_arrive(freed[0]);\n',
            ),
            (
                CUDA_21, "  }\n  if (SLICES > 1) {  // every block",
                "    if (consumer < 128) some_sync<256>(8);\n  }\n  if (SLICES > 1) {  // every block",
            ),
        ),
    ),
    Change(
        "21_tensor_split", ELECTED, SQUARE,
        edits=(
            (CUDA_21, "barrier_init(empty + i * 8, CONSUMERS);", "barrier_init(empty + i * 8, CONSUMERS / 32);"),
            (
                CUDA_21, "barrier_init(at + READY, TEAM), barrier_init(at + READ, CONSUMERS);",
                "barrier_init(at + READY, TEAM / 32), barrier_init(at + READ, CONSUMERS / 32);",
            ),
            (
                CUDA_21, "          barrier_arrive(at + READY);\n",
                "          __syncwarp();\n          if (thread % 32 == 0) barrier_arrive(at + READY);\n",
            ),
            (
                CUDA_21, "        barrier_arrive(freed[0]);\n        barrier_arrive(freed[1]);\n",
                "        __syncwarp();\n        if (lane == 0) barrier_arrive(freed[0]), barrier_arrive(freed[1]);\n",
            ),
            (
                CUDA_21, "        barrier_arrive(here + READ);\n",
                "        __syncwarp();\n        if (lane == 0) barrier_arrive(here + READ);\n",
            ),
        ),
    ),
]  # fmt: skip


@cache
def best() -> dict[tuple[str, str], Configuration]:
    """Every kernel's best published configuration, which is what is changed, by its name and a problem's label."""
    rows = Dataset.open(featured(ROOT / PUBLISHED)[HEADLINE]).best
    rows = rows[(rows["state"] == "warm") & (rows["element_type"] == "float32")]
    return {
        (row["kernel"], str(row["problem"])): Configuration.of("float32", row["configuration"]) for row in rows.to_dict("records")
    }


def as_it_is(change: Change) -> Configuration:
    """What is changed: the best published configuration of the rung on the problem."""
    return best()[change.kernel, Problem(*change.problem).label]


def changed(change: Change, folder: Path) -> tuple[Kernel, Configuration]:
    """The kernel with its edits, in a copy of `kernels/` in a folder, and the configuration.

    Raises `InputError` if an edit does not fit exactly one text, or the configuration is not legal.
    """
    shutil.copytree(ROOT / "kernels", folder)
    for name, old, new in change.edits:
        text = (folder / name).read_text()
        if text.count(old) != 1:
            raise InputError(f"{name}: {old!r} is there {text.count(old)} times; expected once")
        (folder / name).write_text(text.replace(old, new))
    kernel = parse(folder / "cuda" / f"{change.other or change.kernel}.cu")
    base = {} if change.other else dict(as_it_is(change).parameters)
    values = {**kernel.parameters, **base, **change.parameters}
    ((configuration, objection),) = kernel.expand({name: [value] for name, value in values.items()}, ["float32"])
    if objection:
        raise InputError(f"{kernel.id}: {configuration.label}: {objection}")
    return kernel, configuration
