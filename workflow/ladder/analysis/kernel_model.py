"""Compute what a kernel asks of its machine: operations, traffic, bank conflicts, occupancy, and
the bounds that follow.

Shared memory has 32 banks of four bytes. In one wavefront, a bank serves one word, to any number of
threads that want this word. An access of eight or sixteen bytes per thread is split into halves or
quarters of the warp (CUDA C++ Best Practices Guide, "Shared Memory and Memory Banks").
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any

from ladder.core.expressions import Number, ceil_div, evaluate, names_in
from ladder.core.types import ELEMENT_TYPES, OF_CUDA
from ladder.model.hardware_limits import measured_peak
from ladder.model.kernel import Configuration, Kernel, LaunchShape
from ladder.model.kernel_file import device_names
from ladder.model.problem import Problem

WARP, BANKS, WORD_BYTES, SECTOR_BYTES = 32, 32, 4, 32
L1_BYTES = BANKS * WORD_BYTES
"""Bytes per cycle and SM that the L1 cache, which is also the shared memory, can return."""
PARTITIONS = 4
"""Parts of an SM that have their own registers and warps."""
REGISTER_UNIT = 256
"""A warp gets registers in units of this many, so a thread gets them in units of eight."""
MAX_BLOCKS = {
    "7.5": 16,
    "8.6": 16,
    "8.7": 16,
    "8.9": 24,
    "10.1": 24,
    "11.0": 24,
    "12.0": 24,
    "12.1": 24,
}
"""The most blocks per SM by compute capability; 32 if not listed.

These numbers and the granularities are those of the toolkit's `cuda_occupancy.h` (CUDA C++
Programming Guide, "Technical Specifications per Compute Capability").
"""

KEY = [
    "kernel",
    "configuration",
    "element_type",
    "m",
    "n",
    "k",
    "alpha",
    "beta",
    "padding",
    "batch",
]


@lru_cache(maxsize=4096)
def wavefronts(addresses: tuple[int, ...], width: int, read: bool = True) -> tuple[int, int]:
    """Return the wavefronts that one shared-memory access of a warp takes, and how many of them
    bank conflicts add.

    `addresses` are in bytes, one per thread; `width` is the number of bytes that each thread moves
    (1 to 16). A read needs half the parts if threads i and i ^ 1 share an address for all i, or
    threads i and i ^ 2
    (https://forums.developer.nvidia.com/t/unexpected-shared-memory-bank-conflict/77228/2, for
    compute capability 7.x).
    """
    parts = max(1, width // WORD_BYTES)
    if read and any(
        all(addresses[i ^ pair] == a for i, a in enumerate(addresses) if i ^ pair < len(addresses))
        for pair in (1, 2)
    ):
        parts = max(1, parts // 2)
    needed = []
    for i in range(0, len(addresses), WARP // parts):
        words = _touched(addresses[i : i + WARP // parts], width, WORD_BYTES)
        needed.append(max(Counter(word % BANKS for word in words).values()))
    return sum(needed), sum(needed) - len(needed)


@lru_cache(maxsize=4096)
def sectors(addresses: tuple[int, ...], width: int) -> int:
    """Return the sectors (32 bytes) of global memory that one access of a warp touches; `addresses`
    and `width` are in bytes.
    """
    return len(_touched(addresses, width, SECTOR_BYTES))


def _touched(addresses: Sequence[int], width: int, unit: int) -> set[int]:
    """Return the numbers of the units of memory that accesses of `width` bytes touch."""
    return {number for a in addresses for number in range(a // unit, (a + width - 1) // unit + 1)}


@lru_cache(maxsize=4096)
def _warp(
    expression: str, block: tuple[int, int, int], names: tuple[tuple[str, Number], ...]
) -> tuple[int, ...]:
    """Return the value of an address expression for every thread of a block's first warp."""
    values = []
    for i in range(min(WARP, prod(block))):
        place = {"thread": i, "x": i % block[0], "y": i // block[0] % block[1]}
        values.append(int(evaluate(expression, dict(names) | place)))
    return tuple(values)


def traffic(
    shapes: Sequence[LaunchShape], element_type: str, names: Mapping[str, Number]
) -> dict[str, float]:
    """Return the totals of the declared `accesses` of all launches: elements, sectors, wavefronts
    and conflicts.

    `names` are a kernel's, as in `Kernel.names`. `l1_cycles` is the least time, in cycles of one SM,
    in which the L1 cache and shared memory can serve the accesses: in a cycle one register per
    thread of a warp, or four sectors. Threads beyond the matrix count like all others. The result
    is empty if the kernel declares no accesses.
    """
    size = ELEMENT_TYPES[element_type].size
    if not any(shape.accesses for shape in shapes):
        return {}
    counts = dict.fromkeys(
        (
            "global_sectors",
            "shared_reads",
            "shared_writes",
            "shared_wavefronts",
            "bank_conflicts",
            "l1_cycles",
        ),
        0.0,
    )
    for shape in shapes:
        blocks, threads = prod(shape.grid), prod(shape.block)
        for access in shape.accesses:
            width = int(evaluate(access.get("width", 1), names))
            elements = evaluate(access["per_k"], names) * names["K"]
            times = elements / width * ceil_div(threads, WARP) * blocks
            kind = next(
                name for name in ("global_read", "shared_read", "shared_write") if name in access
            )
            used = tuple(
                sorted((name, names[name]) for name in names_in(access[kind]) & set(names))
            )
            indices = _warp(str(access[kind]), shape.block, used)
            addresses = tuple(size * index for index in indices)
            cycles: float
            if kind == "global_read":
                touched = sectors(addresses, size * width)
                cycles = max(size * width / WORD_BYTES, touched * SECTOR_BYTES / L1_BYTES)
                counts["global_sectors"] += touched * times
            else:
                cycles, conflicts = wavefronts(addresses, size * width, kind == "shared_read")
                counts[f"{kind}s"] += elements * threads * blocks
                counts["shared_wavefronts"] += cycles * times
                counts["bank_conflicts"] += conflicts * times
            counts["l1_cycles"] += cycles * times
    return counts


def occupancy(
    threads: int, registers: int, shared: int, attributes: Mapping[str, Any]
) -> tuple[int, float, str]:
    """Return the blocks that an SM holds at a time, their share of its warps, and what limits them.

    `threads` and `shared` (bytes) are per block, `registers` per thread. `attributes` are the
    device's, from `environment.json`.
    """
    modern = float(attributes["compute_capability"]) >= 8
    reserved, unit = (1024, 128) if modern else (0, 256)
    warps = ceil_div(threads, WARP)
    of_warp = ceil_div(max(registers, 1) * WARP, REGISTER_UNIT) * REGISTER_UNIT
    of_block = max(ceil_div(shared + reserved, unit) * unit, 1)
    limits = {
        "threads": attributes["threads_per_sm"] // WARP // warps,
        "blocks": MAX_BLOCKS.get(attributes["compute_capability"], 32),
        "registers": attributes["registers_per_sm"] // PARTITIONS // of_warp * PARTITIONS // warps,
        "shared memory": attributes["shared_memory_per_sm_bytes"] // of_block,
    }
    blocks = min(limits.values())
    share = blocks * warps / (attributes["threads_per_sm"] // WARP)
    return blocks, share, next(name for name, limit in limits.items() if limit == blocks)


def l1_tb_s(environment: Mapping[str, Any]) -> float | None:
    """Return the bandwidth of a GPU's L1 caches at its highest clock, in TB/s; None if the clock is
    not known.
    """
    attributes = environment["attributes"]
    clock = attributes.get("max_sm_clock_mhz")
    return attributes["sm_count"] * L1_BYTES * clock * 1e-6 if clock else None


def model(
    kernel: Kernel,
    configuration: Configuration,
    problem: Problem,
    resource: Mapping[str, Any],
    environment: Mapping[str, Any],
    tensor_cores: bool = False,
    given: Mapping[str, Number] | None = None,
) -> dict[str, Any]:
    """Return a row of the table: counts for one GEMM, bounds in TFLOP/s, intensities in FLOP/byte.

    `intensity` counts every element that a thread reads, wherever it is found.
    `compulsory_intensity` counts every element of A, B and C once. The bounds are the measured peak
    (float32 and 16 bits), the copy bandwidth at the compulsory intensity, and the rate at which L1
    and shared memory can deliver. The lowest bound is empty if the kernel uses the tensor cores
    (`tensor_cores`) where their peak is not measured, as in float32.

    `issue_tflops` is a prediction and not a bound: the peak times the multiply-adds per clock that
    the main loop can issue by
    `issue_model`, as if the loop were the whole kernel. Threads, shared memory and occupancy are
    those of the launch of
    `function`, the function with the most registers.

    `given` has the names of the problem and the device, if they are known already.
    """
    (size, _, size_c), peaks = problem.sizes, environment["peaks"]
    given = given or problem.names() | device_names(environment)
    names = kernel.names(configuration, given)
    shapes = kernel.launches(configuration, given)
    # the elements of C that every kernel reads if beta is not 0
    old = problem.batch * problem.m * problem.n * (problem.beta != 0)
    row: dict[str, Any] = {"flops": problem.flops}
    row["compulsory_intensity"] = problem.flops / (problem.least_bytes + size_c * old)
    if kernel.global_reads and kernel.global_writes:
        reads, writes = (
            evaluate(each, names) for each in (kernel.global_reads, kernel.global_writes)
        )
        row |= {"global_reads": reads + old, "global_writes": writes}
        row["intensity"] = problem.flops / (size * reads + size_c * (old + writes))
    row["memory_tflops"] = peaks["copy_tb_s"] * row["compulsory_intensity"]
    bounds = {"memory": row["memory_tflops"]}
    peak = measured_peak(environment, configuration.element_type)
    if peak:
        bounds["arithmetic"] = peak
    row |= traffic(shapes, configuration.element_type, names)
    cycles, rate = row.pop("l1_cycles", 0), l1_tb_s(environment)
    if cycles and rate:
        bounds["l1"] = row["l1_tflops"] = problem.flops / (cycles * L1_BYTES) * rate
    if not tensor_cores or (peak and configuration.element_type in OF_CUDA):
        row["bound"] = min(bounds, key=lambda name: bounds[name])
        row["bound_tflops"] = bounds[row["bound"]]
    # 0 for datasets published before that model existed
    rate_of_loop = float(resource.get("multiply_adds_per_clock") or 0)
    if configuration.element_type == "float32" and rate_of_loop:
        row["issue_tflops"] = rate_of_loop * peaks["fp32_tflops"]
    if kernel.kind == "cuda":
        for shape in shapes:
            if shape.function == resource.get("function"):
                threads, registers = prod(shape.block), int(resource["registers"])
                shared = int(resource["static_shared"]) + shape.dynamic_shared
                blocks, share, limit = occupancy(
                    threads, registers, shared, environment["attributes"]
                )
                row |= {
                    "function": shape.function,
                    "threads": threads,
                    "registers": registers,
                    "shared_bytes": shared,
                    "blocks_per_sm": blocks,
                    "occupancy": share,
                    "occupancy_limit": limit,
                }
    return row
