"""What changes of the upper rungs do, each timed beside the rung as it is, in the same rounds: what its idea brings, and what did not help.

    .venv/bin/python studies/tried.py        on a GPU of compute capability 9.0; about four minutes

What is changed is the rung in its best configuration on the problem, by a published dataset. A change is another configuration, or an edit of
the text of a kernel or header. Base and change are both checked against float64. Measured are the medians of their times in microseconds, of
the ratio of base to change in every round, and its 95 % interval within the run.
"""

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ladder.analysis.dataset import Dataset
from ladder.claims.answers import STUDIES
from ladder.claims.study import command_line
from ladder.compiling.compile import compile_kernel, compile_support
from ladder.core.errors import InputError
from ladder.core.files import ROOT
from ladder.core.stats import median_interval, paired_ratio
from ladder.devices.base import Device, Launch
from ladder.devices.detect import Device as Gpu
from ladder.devices.lock import first_gpu
from ladder.measuring import timing
from ladder.measuring.verify import judge
from ladder.measuring.worker import open_device
from ladder.model.campaign import Limits
from ladder.model.kernel import Configuration, Kernel
from ladder.model.kernel_file import parse
from ladder.model.problem import Problem
from ladder.storage.dataset_layout import PUBLISHED

DATASET = "nvidia-h200"
"""The published one whose best configurations are what is changed."""
LIMITS = Limits(min_samples=20, max_samples=20, target=1e-6, race=False)
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
    """Every kernel's best published configuration by its name and a problem's label."""
    rows = Dataset.open(ROOT / PUBLISHED / DATASET).best
    rows = rows[(rows["state"] == "warm") & (rows["element_type"] == "float32")]
    return {
        (row["kernel"], str(row["problem"])): Configuration.of("float32", row["configuration"]) for row in rows.to_dict("records")
    }


STUDY = STUDIES["tried"]


def as_it_is(change: Change) -> Configuration:
    """What is changed: the best published configuration of the rung on the problem."""
    return best()[change.kernel, Problem(*change.problem).label]


def changed(change: Change, folder: Path) -> tuple[Kernel, Configuration]:
    """The kernel with its edits, in a copy of `kernels/` in a folder, and the configuration.

    Raises `InputError` where an edit fits no text, or not one.
    """
    shutil.copytree(ROOT / "kernels", folder)
    for name, old, new in change.edits:
        text = (folder / name).read_text()
        if text.count(old) != 1:
            raise InputError(f"{name}: {old!r} is there {text.count(old)} times; expected once")
        (folder / name).write_text(text.replace(old, new))
    base = {} if change.other else dict(as_it_is(change).parameters)
    return configured(parse(folder / "cuda" / f"{change.other or change.kernel}.cu"), {**base, **change.parameters})


def configured(kernel: Kernel, parameters: Mapping[str, int]) -> tuple[Kernel, Configuration]:
    """A kernel in the configuration of its defaults and these parameters. Raises `InputError` where it is not legal."""
    ((configuration, objection),) = kernel.expand(
        {name: [value] for name, value in {**kernel.parameters, **parameters}.items()}, ["float32"]
    )
    if objection:
        raise InputError(f"{kernel.id}: {configuration.label}: {objection}")
    return kernel, configuration


def launch(
    device: Device, gpu: Gpu, kernel: Kernel, configuration: Configuration, folder: Path, binaries: dict[str, str]
) -> Launch:
    """It compiled, and right on the present problem. Raises `InputError` where it is not."""
    (row,) = compile_kernel(kernel, [(configuration, "")], gpu.arch, folder, 1)
    if row.status != "compiled":
        raise InputError(f"{kernel.id}: {configuration.label}: {row.status}: {row.reason}")
    made: Launch = device.kernel(kernel, configuration, (folder / row.binary).read_bytes())
    verdict = judge(device.check(made), device.given)
    if verdict.status != "correct":
        raise InputError(f"{kernel.id}: {configuration.label}: {verdict.status}: {verdict.reason}")
    binaries[f"{kernel.name} {configuration.label} {folder.parent.name}/{folder.name}"] = row.sha256
    return made


def measure(device: Device, gpu: Gpu, change: Change, folder: Path, binaries: dict[str, str]) -> dict[str, Any]:
    """A change timed beside what was changed, both compiled in a folder. Raises `InputError` where one is not right."""
    base = parse(ROOT / "kernels" / "cuda" / f"{change.kernel}.cu"), as_it_is(change)
    other = changed(change, folder / "kernels")
    problem = Problem(*change.problem)
    operands = device.operands(problem)
    try:
        launches = [launch(device, gpu, *which, folder / name, binaries) for name, which in (("base", base), ("change", other))]
        ((_, series),) = filter(None, timing.measure(device, {0: launches[1]}, launches[0], "warm", LIMITS, 0))
    finally:
        device.free(operands)
    if series.fault:
        raise InputError(f"{change.kernel}: {change.what}: {series.fault}")
    ratio, low, high = paired_ratio(series.reference, series.samples)
    return {
        "kernel": change.kernel, "what": change.what, "problem": problem.label,
        "base": base[1].label, "configuration": other[1].label,
        "base_us": median_interval(series.reference)[0], "us": median_interval(series.samples)[0],
        "ratio": ratio, "low": low, "high": high,
    }  # fmt: skip


def main() -> None:
    """Measure every change, print and write. A change that is not right is named in the end, and loses nothing of the others."""
    command_line(__doc__).parse_args()
    gpu, rows, faults = first_gpu(), [], []
    binaries: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as scratch:
        support = Path(scratch) / "support.bin"
        support.write_bytes(compile_support("cuda", gpu.arch))
        device = open_device("cuda", gpu.uuids[0], support)
        for number, change in enumerate(CHANGES):
            try:
                row = measure(device, gpu, change, Path(scratch) / f"{number}", binaries)
            except InputError as fault:
                faults.append(f"{change.kernel}: {change.what}: {fault}")
                print(faults[-1], flush=True)
                continue
            rows.append(row)
            told = f"{row['ratio']:.3f} ({row['low']:.3f} to {row['high']:.3f})"
            print(f"{change.kernel} at {row['problem']}: {change.what}: {told}", flush=True)
        device.close()
    STUDY.write(gpu, {"changes": rows}, uuids=[gpu.uuids[0]], binaries=binaries)
    if faults:
        raise InputError("\n".join(faults))


if __name__ == "__main__":
    main()
