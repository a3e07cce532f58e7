"""What holds multiply-adds up on an SM: register numbers, reuse flags and loads, written straight into machine code, and long loops, timed.

    .venv/bin/python studies/registers.py      some seconds; compute capability 9.0

Two loops that nvcc makes are patched. In `sums`, which is multiply-adds alone, each gets the registers of a pattern; in `loads`, the
loads from shared memory become narrower, or idle. Measured are multiply-adds a clock and quarter of an SM, beside what the model
(`ladder.compiling.issue_model`) makes of the same patched code, and the clocks that a load of each width adds to an idle slot, where
nothing waits for
it (what is left is the writing back of what it brings, and what loads near each other hold up) and where multiply-adds do. And loops of
plain multiply-adds, as nvcc makes them, that are longer and longer: at some length the instruction cache holds them no more.
"""

import hashlib
import struct
import sys
import tempfile
from collections.abc import Sequence
from itertools import cycle, product
from pathlib import Path
from typing import Any

import numpy as np
from ladder.claims.answers import STUDIES
from ladder.claims.study import command_line
from ladder.compiling import compile as compiling
from ladder.compiling import compilers, issue_model
from ladder.compiling.compile import compile_support
from ladder.compiling.cubin import code
from ladder.compiling.issue_model import Instruction
from ladder.core import files
from ladder.devices.lock import first_gpu
from ladder.measuring.worker import open_device

SOURCE = """
template <int TM, int TN, int LOADS> __device__ void timed(int rounds, float seed, long long* clocks, float* out) {
  __shared__ __align__(16) float shared[2048];
  float a[TM], b[TN], sum[TM][TN];
  for (int i = threadIdx.x; i < 2048; i += blockDim.x) shared[i] = seed * i;
  for (int m = 0; m < TM; ++m) a[m] = seed * (threadIdx.x + m);
  for (int n = 0; n < TN; ++n) b[n] = seed * (threadIdx.x * 3 + n);
  for (int m = 0; m < TM; ++m)
    for (int n = 0; n < TN; ++n) sum[m][n] = seed * (m + n);
  __syncthreads();
  const long long start = clock64();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      __align__(16) float next_a[TM], next_b[TN];
      if (LOADS) {
        for (int m = 0; m < TM; m += 4) *(float4*)(next_a + m) = *(const float4*)(shared + k * 256 + threadIdx.x / 8 % 4 * 4 + m * 4);
        for (int n = 0; n < TN; n += 4) *(float4*)(next_b + n) = *(const float4*)(shared + k * 256 + threadIdx.x % 8 * 4 + n * 8);
        asm volatile("" ::: "memory");  // they are loaded in every round
      }
      for (int m = 0; m < TM; ++m)
        for (int n = 0; n < TN; ++n) sum[m][n] = fmaf(a[m], b[n], sum[m][n]);
      if (LOADS) {
        for (int m = 0; m < TM; ++m) a[m] = next_a[m];
        for (int n = 0; n < TN; ++n) b[n] = next_b[n];
      }
    }
  }
  const long long end = clock64();
  float total = 0;
  for (int m = 0; m < TM; ++m)
    for (int n = 0; n < TN; ++n) total += sum[m][n];
  if (total == 12345.678f) *out = total;
  if (threadIdx.x == 0) clocks[blockIdx.x] = end - start;
}
extern "C" __global__ void __launch_bounds__(256, 1) sums(int rounds, float seed, long long* clocks, float* out) {
  timed<12, 16, 0>(rounds, seed, clocks, out);
}
extern "C" __global__ void __launch_bounds__(256, 1) loads(int rounds, float seed, long long* clocks, float* out) {
  timed<8, 16, 1>(rounds, seed, clocks, out);
}
"""
PLAIN = """
extern "C" __global__ void __launch_bounds__(256, 1) plain(int rounds, float seed, long long* clocks, float* out) {
  float sum[32], total = 0;
  const float factor = 1 - seed;
  for (int i = 0; i < 32; ++i) sum[i] = seed * (threadIdx.x + i);
  __syncthreads();
  const long long start = clock64();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round)
#pragma unroll
    for (int i = 0; i < LENGTH; ++i) sum[i % 32] = fmaf(sum[i % 32], factor, seed);
  const long long end = clock64();
  for (int i = 0; i < 32; ++i) total += sum[i];
  if (total == 12345.678f) *out = total;
  if (threadIdx.x == 0) clocks[blockIdx.x] = end - start;
}
"""
LENGTHS = (512, 1024, 1536, 2048, 2560, 3072, 4096, 8192)
"""Multiply-adds of a loop, of 16 bytes each."""
ROUNDS, WARPS, REPEATS = 500, 2, 5
"""Of the loop; warps of a quarter of an SM; launches, of which the fastest counts."""
NOP = 0x918
WIDTHS = {4: 4, 8: 5, 16: 6}
"""Bytes a lane that a load brings, and their code."""
A, B, C = 1, 2, 4
"""The flags with which an operand stays in the reuse cache."""
Pattern = Sequence[tuple[int, int, int, int]]
"""Registers a, b and c, which the sum goes back to, and flags, of the multiply-adds that are repeated."""


def patterns(registers: Sequence[int]) -> dict[str, Pattern]:
    """Patterns over registers that may be overwritten: what is read, from which banks, and what is kept."""
    even, odd = ([register for register in registers if register % 2 == bank] for bank in (0, 1))
    (e, *es), (o, *os) = even[:8], odd[:8]  # operands; what they hold does not matter
    sums = [even[8:], odd[8:]]
    count = min(map(len, sums)) // 8 * 8
    sums = [bank[:count] for bank in sums]
    both = [register for pair in zip(*sums, strict=True) for register in pair]

    def turn(of: Sequence[int], i: int) -> int:
        return of[i % len(of)]

    def alternating(length: int) -> list[int]:
        return [c for at in range(0, count, length) for bank in sums for c in bank[at : at + length]]

    named: dict[str, Pattern] = {
        "one read": [(e, o, c, A | B) for c in both],
        "no read": [(e, o, sums[1][0], A | B | C)] * count,
        "two reads, two banks": [(e, turn(os, i), c, A) for i, c in enumerate(sums[0])],
        "two reads, one bank": [(o, turn(es, i), c, A) for i, c in enumerate(sums[0])],
        "three reads, two banks": [(turn(es, i), turn(os, i), c, 0) for i, c in enumerate(sums[0])],
        "three reads, two banks in turns": [(turn(es, i), turn(os, i), c, 0) for i, c in enumerate(both)],
        "three reads, one bank": [(turn(es, i), turn(es, i + 3), c, 0) for i, c in enumerate(sums[0])],
        "three reads, then one": [(turn(es, i // 2), turn(os, i // 2), c, 0 if i % 2 else A | B) for i, c in enumerate(both)],
        "kept in another slot": [(e, o, c, B) if i % 2 else (o, e, c, B) for i, c in enumerate(sums[0])],
    }
    for length in (1, 2, 4, 8):
        named[f"two reads, one bank, {length} in a row"] = [
            (o, turn(es, i), c, A) if c % 2 == 0 else (o, turn(os, i), c, A) for i, c in enumerate(alternating(length))
        ]
    for length in (8, 16):
        named[f"a new row every {length}"] = [
            (turn(es, i // length), turn(os, i), c, 0 if i % length == length - 1 else A) for i, c in enumerate(sums[0])
        ]
    return named


def multiply_add(a: int, b: int, c: int, flags: int) -> Instruction:
    """c <- a*b + c, always: no scoreboard, one clock until the next, which no other warp need be asked for."""
    return Instruction(
        issue_model.FFMA | 7 << 12 | c << 16 | a << 24 | b << 32, c | (1 | 1 << 4 | 7 << 5 | 7 << 8 | flags << 17) << 41
    )


def narrowed(load: Instruction, width: int) -> Instruction:
    """A load of another width, or for 0 nothing that waits as it did."""
    if width:
        return Instruction(load.low, load.high & ~(7 << 9) | WIDTHS[width] << 9)
    return Instruction(NOP | 7 << 12, load.high & (63 << 52 | 31 << 41) | 7 << 46 | 7 << 49)


def patched(cubin: bytes, body: Sequence[Instruction], new: Sequence[Instruction]) -> bytes:
    """The cubin with other instructions in place of a loop's."""
    old, other = (b"".join(struct.pack("<QQ", each.low, each.high) for each in part) for part in (body, new))
    return cubin.replace(old, other)


def loops(cubin: bytes) -> list[list[Instruction]]:
    """The main loops of `sums`, which loads nothing, and of `loads`."""
    bodies = [issue_model.loop([Instruction(*pair) for pair in struct.iter_unpack("<QQ", text)]) for text in code(cubin)]
    return sorted(bodies, key=lambda body: sum(each.name == issue_model.LDS for each in body))


def variants(cubin: bytes) -> dict[str, tuple[str, bytes, list[Instruction]]]:
    """Every patched kernel by name: the function to launch, the cubin and the loop."""
    sums, loads = loops(cubin)
    made = {}
    registers = sorted({each.low >> 16 & 255 for each in sums if each.multiplies_and_adds})
    chosen = {name: [multiply_add(*each) for each in pattern] for name, pattern in patterns(registers).items()}
    chosen["others go first"] = [Instruction(each.low, each.high & ~(1 << 45)) for each in chosen["two reads, two banks"]]
    for name, pattern in chosen.items():
        feed = cycle(pattern)
        new = [next(feed) if each.multiplies_and_adds else each for each in sums]
        made[name] = "sums", patched(cubin, sums, new), new
    loaded = {(each.low >> 16 & 255) + i for each in loads if each.name == issue_model.LDS for i in range(4)}
    free = sorted({each.low >> 16 & 255 for each in loads if each.multiplies_and_adds} - loaded)
    two_banks = [multiply_add(*each) for each in patterns(free)["two reads, two banks"]]
    for width, waits in [(0, False), *product(WIDTHS, (False, True))]:
        feed, new = cycle(two_banks), []
        for old in loads:
            if old.multiplies_and_adds:
                new.append(_waiting(old, next(feed)) if waits else next(feed))
            else:
                new.append(narrowed(old, width) if old.name == issue_model.LDS else old)
        name = f"loads of {width} bytes" if width else "no loads"
        made[f"{name}, waited for" if waits else name] = "loads", patched(cubin, loads, new), new
    return made


def _waiting(old: Instruction, new: Instruction) -> Instruction:
    """The new multiply-add, which waits for what the old one waited for."""
    return Instruction(new.low, new.high & ~(63 << 52) | old.high & 63 << 52)


def plain(length: int) -> bytes:
    """A cubin whose function `plain` has a loop of so many multiply-adds, none of which waits for the 31 before it."""
    source = f"constexpr int LENGTH = {length};{PLAIN}"
    return compilers._nvcc(source, issue_model.MODELLED, Path(files.ROOT) / "kernels" / "include")[0]


def measure(device: Any, function: str, cubin: bytes) -> float:
    """Clocks that the loop's body takes a warp of a quarter of an SM, in the middle block of the fastest of some launches."""
    import pycuda.driver as cuda

    kernel, sms = cuda.module_from_buffer(cubin).get_function(function), device.names["sm_count"]
    clocks = np.zeros(sms, np.int64)
    fastest = np.inf
    for _ in range(REPEATS):
        kernel(np.int32(ROUNDS), np.float32(1e-3), cuda.Out(clocks), np.intp(0), block=(128 * WARPS, 1, 1), grid=(sms, 1))
        fastest = min(fastest, float(np.median(clocks)))
    return fastest / (ROUNDS * WARPS)


def main() -> None:
    """Measure every pattern, and write the answer."""
    command_line(__doc__).parse_args()
    gpu = first_gpu()
    if compiling.capability(gpu.arch) != compiling.capability(issue_model.MODELLED):
        sys.exit(f"{gpu.name}: got {gpu.arch}; expected {issue_model.MODELLED}, whose machine code is patched")
    cubin = compilers._nvcc(SOURCE, issue_model.MODELLED, Path(files.ROOT) / "kernels" / "include")[0]
    with tempfile.TemporaryDirectory() as scratch:
        support = Path(scratch) / "support.bin"
        support.write_bytes(compile_support("cuda", gpu.arch))
        device = open_device("cuda", gpu.uuids[0], support)
        rows, taken = [], {}
        for name, (function, changed, body) in variants(cubin).items():
            taken[name] = measure(device, function, changed)
            adds = sum(each.multiplies_and_adds for each in body)
            rows.append({"pattern": name, "measured": adds / taken[name], "model": adds / issue_model.clocks(body)})
            print(f"{name:36} {rows[-1]['measured']:.3f} multiply-adds a clock, by the model {rows[-1]['model']:.3f}", flush=True)
        lengths = [{"multiply_adds": length, "clocks": measure(device, "plain", plain(length)) / length} for length in LENGTHS]
        for row in lengths:
            print(f"a loop of {row['multiply_adds']} multiply-adds: {row['clocks']:.3f} clocks each", flush=True)
        device.close()
    count = sum(each.name == issue_model.LDS for each in loops(cubin)[1])
    costs = [
        {width: (taken[f"loads of {width} bytes{how}"] - taken["no loads"]) / count for width in WIDTHS}
        for how in ("", ", waited for")
    ]
    digest = {"base": hashlib.sha256(cubin).hexdigest()}
    STUDIES["registers"].write(
        gpu,
        {"rounds": ROUNDS, "warps": WARPS, "patterns": rows, "write_back": costs[1], "unwaited": costs[0], "lengths": lengths},
        uuids=[gpu.uuids[0]],
        binaries=digest,
    )


if __name__ == "__main__":
    main()
