"""What changes of the upper rungs do, each timed beside the rung as it is, in the same rounds: what its idea brings, and what did not help.

    .venv/bin/python studies/tried.py        on a GPU of compute capability 9.0; about two minutes

A change is another configuration, or an edit of the text of a kernel or header. Base and change are both checked against float64.
Measured are the medians of their times in microseconds, of the ratio of base to change in every round, and its 95 % interval within the run.
"""

import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ladder import timing
from ladder.campaign import Limits, Problem
from ladder.compile import compile_kernel, compile_support
from ladder.devices import Device, Launch
from ladder.environment import ROOT
from ladder.environment import Device as Gpu
from ladder.kernels import Configuration, Kernel, discover, parse
from ladder.lock import first_gpu
from ladder.statistics import median_interval, paired_ratio
from ladder.study import Study
from ladder.verify import judge
from ladder.worker import open_device

LIMITS = Limits(min_samples=20, max_samples=20, target=1e-6, race=False)
SQUARE, DEEP, THIN, ODD = (4096, 4096, 4096), (256, 256, 16384), (64, 4096, 4096), (2049, 2047, 2051)
SNAKE = "include/snake.cuh"


@dataclass(frozen=True)
class Change:
    """What is changed of a rung: parameters, and texts that are replaced, by file below `kernels/`; or another rung in its place."""

    kernel: str
    what: str
    problem: tuple[int, int, int]
    base: Mapping[str, int] = field(default_factory=dict)
    """Parameters that are not the kernel's defaults."""
    parameters: Mapping[str, int] = field(default_factory=dict)
    edits: tuple[tuple[str, str, str], ...] = ()
    other: str = ""
    """The other rung, of which `parameters` are then."""


SMALL_13 = {"BN": 128, "TM": 8, "STAGES": 5, "LEAD": 6, "B_FIRST": 1}
SMALL_15 = {"BM": 64, "TM": 8, "STAGES": 4, "SPREAD": 4, "LEAD": 0, "B_FIRST": 1, "SPLIT": 0, "CHUNK": 256, "IDLE": 4}
DEEP_15 = {"BN": 128, "TM": 8, "STAGES": 5, "SPREAD": 20, "LEAD": 3, "B_FIRST": 1, "SPLIT": 3, "CHUNK": 256}
WIDE_14 = {"BM": 64, "BN": 256, "STAGES": 4, "SPREAD": 12, "LEAD": 2, "B_FIRST": 1, "SPLIT": 2}
CUDA_15 = "cuda/15_last_wave.cu"
ROWS = SNAKE, "turn = line % 2 ? LINE - 1 - i % LINE : i % LINE", "turn = i % LINE"
BELOW_12 = "through registers and two buffers: rung 10"
CHANGES = [
    Change("12_async_copies", BELOW_12, SQUARE, {"BN": 256, "TM": 16}, {"BN": 256, "TM": 16}, other="10_block_tile_128"),
    Change("12_async_copies", BELOW_12, SQUARE, other="10_block_tile_128"),
    Change("12_async_copies", BELOW_12, DEEP, {"BM": 64}, {"BM": 64}, other="10_block_tile_128"),
    Change("12_async_copies", "two stages", DEEP, {"BM": 64}, {"STAGES": 2}),
    Change("13_snake_order", "along the rows", SQUARE, edits=(ROWS,)),
    Change("13_snake_order", "8 x 8 a thread", SQUARE, parameters=SMALL_13),
    Change("13_snake_order", "8 x 8 a thread, along the rows", SQUARE, SMALL_13, edits=(ROWS,)),
    Change("13_snake_order", "BK = 16", SQUARE, parameters={"BK": 16, "STAGES": 5}),
    Change(
        "13_snake_order", "a branch round the copies at the end of K", SQUARE,
        edits=((SNAKE, "copy(free, tile + STAGES - 1 < tiles);", "if (tile + STAGES - 1 < tiles) copy(free, true);"),),
    ),
    Change("14_cluster_split_k", "clusters of four", DEEP, WIDE_14, {"SLICES": 4}),
    Change("14_cluster_split_k", "clusters of eight", DEEP, WIDE_14, {"SLICES": 8}),
    Change("14_cluster_split_k", "tiles of 64 x 64, eight groups", THIN, WIDE_14, {"BN": 64, "GROUPS": 8, "LEAD": 1, "SPLIT": 0}),
    Change("14_cluster_split_k", "one barrier, not split", THIN, WIDE_14, {"SPLIT": 0}),
    Change("15_last_wave", "one barrier, not split", SQUARE, parameters={"SPLIT": 0}),
    Change("15_last_wave", "one sum, not by chunks of K", DEEP, DEEP_15, {"CHUNK": 0}),
    Change("15_last_wave", "one sum, not by chunks of K", THIN, SMALL_15, {"CHUNK": 0}),
    Change("15_last_wave", "132 SMs a wave, not 128", THIN, SMALL_15, {"IDLE": 0}),
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
    Change("16_thin_edge", "no thin tiles", ODD, parameters={"THIN": 0}),
    Change("16_thin_edge", "one barrier, not split", ODD, parameters={"SPLIT": 0}),
]  # fmt: skip


def found(measured: Mapping[str, Any]) -> str:
    """How many changes there are, and how many of them are faster and slower than what was changed."""
    rows = measured["changes"]
    faster, slower = sum(row["low"] > 1 for row in rows), sum(row["high"] < 1 for row in rows)
    return f"{len(rows)} changes of configurations of rungs 12 to 16: {faster} are faster than what was changed, {slower} slower"


STUDY = Study("tried", "What do changes of the upper rungs bring?", found, ".venv/bin/python studies/tried.py")


def changed(change: Change, folder: Path) -> tuple[Kernel, Configuration]:
    """The kernel with its edits, in a copy of `kernels/` in a folder, and the configuration. Exits where an edit fits no text, or not one."""
    shutil.copytree(ROOT / "kernels", folder)
    for name, old, new in change.edits:
        text = (folder / name).read_text()
        if text.count(old) != 1:
            sys.exit(f"{name}: {old!r} is there {text.count(old)} times; expected once")
        (folder / name).write_text(text.replace(old, new))
    parameters = change.parameters if change.other else {**change.base, **change.parameters}
    return configured(parse(folder / "cuda" / f"{change.other or change.kernel}.cu"), parameters)


def configured(kernel: Kernel, parameters: Mapping[str, int]) -> tuple[Kernel, Configuration]:
    """A kernel in the configuration of its defaults and these parameters. Exits where it is not legal."""
    ((configuration, objection),) = kernel.expand(
        {name: [value] for name, value in {**kernel.parameters, **parameters}.items()}, ["float32"]
    )
    if objection:
        sys.exit(f"{kernel.id}: {configuration.label}: {objection}")
    return kernel, configuration


def launch(
    device: Device, gpu: Gpu, kernel: Kernel, configuration: Configuration, folder: Path, binaries: dict[str, str]
) -> Launch:
    """It compiled, and right on the present problem. Exits where it is not."""
    (row,) = compile_kernel(kernel, [(configuration, "")], gpu.arch, folder, 1)
    if row.status != "compiled":
        sys.exit(f"{kernel.id}: {configuration.label}: {row.status}: {row.reason}")
    made: Launch = device.kernel(kernel, configuration, (folder / row.binary).read_bytes())
    verdict = judge(device.check(made), device.given)
    if verdict.status != "correct":
        sys.exit(f"{kernel.id}: {configuration.label}: {verdict.status}: {verdict.reason}")
    binaries[f"{kernel.name} {configuration.label} {folder.name}"] = row.sha256
    return made


def main() -> None:
    """Measure every change, print and write."""
    gpu, kernels, rows = first_gpu(), discover(ROOT), []
    binaries: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as scratch:
        support = Path(scratch) / "support.bin"
        support.write_bytes(compile_support("cuda", gpu.arch))
        device = open_device("cuda", gpu.uuids[0], support)
        for number, change in enumerate(CHANGES):
            problem = Problem(*change.problem)
            operands = device.operands(problem)
            base = configured(kernels[f"cuda/{change.kernel}"], change.base)
            other = changed(change, Path(scratch) / f"kernels-{number}")
            launches = [
                launch(device, gpu, *which, Path(scratch) / f"{name}-{number}", binaries)
                for name, which in (("base", base), ("change", other))
            ]
            ((_, series),) = filter(None, timing.measure(device, {0: launches[1]}, launches[0], "warm", LIMITS, 0))
            if series.fault:
                sys.exit(f"{change.kernel}: {change.what}: {series.fault}")
            ratio, low, high = paired_ratio(series.reference, series.samples)
            rows.append({
                "kernel": change.kernel, "what": change.what, "problem": problem.label,
                "base": base[1].label, "configuration": other[1].label,
                "base_us": median_interval(series.reference)[0], "us": median_interval(series.samples)[0],
                "ratio": ratio, "low": low, "high": high,
            })  # fmt: skip
            print(f"{change.kernel} at {problem.label}: {change.what}: {ratio:.3f} ({low:.3f} to {high:.3f})", flush=True)
            device.free(operands)
        device.close()
    STUDY.write(gpu, {"changes": rows}, uuids=[gpu.uuids[0]], binaries=binaries)


if __name__ == "__main__":
    main()
