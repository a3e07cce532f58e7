"""Model how many multiply-adds per clock the main loop of a compiled kernel can issue, from issue
slots and register banks.

A quarter of an SM issues one instruction per clock. Its register file has two banks, for even and
odd registers. Each bank delivers one register of all lanes per clock. The reuse cache keeps
operands of the previous instruction, by slot; an operand found there is not read. Reads lag issue
by at most one instruction. Instructions that a branch in the loop skips count as issued. Data
loaded from shared memory pass through the same banks.

The rules hold for compute capability 9.0. NVIDIA documents neither them nor the encoding; the study
`registers` measured the rules. Register banks and the reuse cache, and how to observe them, are
described in Z. Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking",
2018 (arXiv:1804.06826).
"""

import struct
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

from ladder.compiling.cubin import code

MODELED = "sm_90"
"""The architecture, with or without suffix, that the model describes."""
FFMA, FFMA_WITHOUT_B, LDS, BRA, LDG = 0x223, (0x423, 0x823, 0xC23), 0x984, 0x947, (0x981, 0xFAE)
"""The low twelve bits of instructions.

They are multiply-adds of registers, multiply-adds with an immediate or a constant operand,
shared-memory loads, branches, and loads from global memory to registers (LDG) or shared memory
(LDGSTS).
"""
IN_FLOAT32 = {
    **dict.fromkeys((FFMA, *FFMA_WITHOUT_B), "FFMA"),
    LDS: "LDS",
    **dict.fromkeys(LDG, "LDG"),
}
"""The kinds of instructions that `mix` counts."""
NO_REGISTER, NEVER = 255, 15
"""RZ, and the predicate `!PT`, with which an instruction is issued but does nothing."""
WRITE_BACK = {4: 0.12, 5: 1.08, 6: 1.75}
"""Clocks in which no multiply-add is issued because a load writes its 4, 8 or 16 bytes per lane, by
the code of that width.

The values fit the loops of kernels. In the loop of the study `registers` a load costs more
(`unwaited`); why is not known. With those costs, kernels could not issue as much as they do.
"""
SMALLEST = 32
"""The fewest multiply-adds that a loop needs to count as the kernel's main loop."""
ON_TENSOR_CORES = {"HGMMA": 0x1F0, "UTMALDG": 0x1B4, "SYNCS": 0x1A7}
"""The low nine bits of matrix instructions, of copies of boxes to shared memory, and of waits and
arrivals at the barriers there.

nvdisasm of CUDA 13 shows them so for sm_90a.
"""


@dataclass(frozen=True)
class Instruction:
    """A 128-bit instruction, little-endian."""

    low: int
    high: int

    @cached_property
    def name(self) -> int:
        """The operation, encoded in the low twelve bits."""
        return self.low & 0xFFF

    @cached_property
    def multiplies_and_adds(self) -> bool:
        """Whether the instruction is an FFMA."""
        return self.name == FFMA or self.name in FFMA_WITHOUT_B

    def reads(self) -> tuple[int | None, ...]:
        """Return the registers in the three operand slots, None for a slot without one."""
        a, b, c = self.low >> 24 & 255, self.low >> 32 & 255, self.high & 255
        if self.multiplies_and_adds:
            slots = (a, b if self.name == FFMA else NO_REGISTER, c)
        else:  # only the address of other instructions counts
            slots = (a if self.name == LDS else NO_REGISTER, NO_REGISTER, NO_REGISTER)
        return tuple(None if register == NO_REGISTER else register for register in slots)

    def reuse_after(self) -> tuple[int | None, ...]:
        """Return the contents of the reuse cache after the instruction, by slot; all None if it
        yields to another warp.
        """
        yields, flags = not self.high >> 45 & 1, self.high >> 58
        return tuple(
            None if yields or not flags >> slot & 1 else register
            for slot, register in enumerate(self.reads())
        )

    def write_back(self) -> float:
        """Return the clocks in which writing the loaded data blocks multiply-adds."""
        loads = (
            self.name == LDS
            and self.low >> 12 & 15 != NEVER
            and self.low >> 16 & 255 != NO_REGISTER
        )
        return WRITE_BACK.get(self.high >> 9 & 7, WRITE_BACK[4]) if loads else 0.0

    def back(self) -> int:
        """Return how many instructions a branch jumps back, counting itself, or 0 if it does not
        jump back.
        """
        if self.name != BRA:
            return 0
        # in 4-byte words after the branch
        words = (self.low >> 34 | (self.high & 0x3FFFF) << 30) << 8 | self.low >> 16 & 255
        return max(0, -(words - (words >> 55 << 56)) // 4)


def loop(
    functions: Iterable[list[Instruction]],
    fewest: int = SMALLEST,
    counts: Callable[[Instruction], bool] = attrgetter("multiplies_and_adds"),
) -> list[Instruction]:
    """Return the loop of any function with the largest share of instructions that count, among
    those with at least `fewest` of them; empty if there is none.
    """
    best: list[Instruction] = []
    highest = 0.0
    for instructions in functions:
        for at, branch in enumerate(instructions):
            if 0 < branch.back() <= at + 1:
                body = instructions[at + 1 - branch.back() : at + 1]
                counted = sum(map(counts, body))
                if counted >= fewest and counted / len(body) > highest:
                    best, highest = body, counted / len(body)
    return best


def functions(cubin: bytes) -> list[list[Instruction]]:
    """Return the instructions of each function. Raises `ValueError` if the bytes are not a
    cubin.
    """
    return [
        [Instruction(*pair) for pair in struct.iter_unpack("<QQ", text)] for text in code(cubin)
    ]


def clocks(body: list[Instruction]) -> float:
    """Return the clocks that a quarter of an SM takes to issue the body of a loop once, in steady
    state.
    """
    now, free = -1, [0, 0]  # clock of the last issue; clock from which each bank is free
    cache: tuple[int | None, ...] = (None, None, None)
    first, rounds = 0, 3
    # once: bodies can be long
    steps = [(step.multiplies_and_adds, step.reads(), step.reuse_after()) for step in body]
    for turn in range(rounds):
        first = now if turn == 1 else first
        for multiplies_and_adds, wanted, kept in steps:
            now = max(now + 1, free[0] - 1, free[1] - 1)
            needed = [0, 0]
            for register, held in zip(wanted, cache, strict=True):
                if register is not None and (register != held or not multiplies_and_adds):
                    needed[register % 2] += 1
            for bank in (0, 1):
                if needed[bank]:
                    free[bank] = max(free[bank], now) + needed[bank]
            if multiplies_and_adds:
                cache = kept
    return (now - first) / (rounds - 1) + sum(instruction.write_back() for instruction in body)


def multiply_adds_per_clock(cubin: bytes) -> float | None:
    """Return the multiply-adds per clock and quarter of an SM, at most 1, in the main loop of a
    kernel; None if it has no such loop.

    Raises `ValueError` if the bytes are not a cubin.
    """
    body = loop(functions(cubin))
    return sum(step.multiplies_and_adds for step in body) / clocks(body) if body else None


def mix(cubin: bytes) -> dict[str, int]:
    """Return how many instructions of each kind the main loop has: FFMA, LDS, LDG with LDGSTS, and
    other; empty without such a loop.

    Naive kernels have shorter loops than `multiply_adds_per_clock` models. Instructions that a
    branch skips count too. Raises `ValueError` if the bytes are not a cubin.
    """
    body = loop(functions(cubin), fewest=16)
    counted = Counter(IN_FLOAT32.get(step.name, "other") for step in body)
    return {name: counted[name] for name in ("FFMA", "LDS", "LDG", "other")} if body else {}


def mix_on_tensor_cores(cubin: bytes) -> dict[str, int]:
    """Return how many instructions of each kind the loop with the largest share of matrix
    instructions has; empty without such a loop.

    The kinds are those of `ON_TENSOR_CORES`, and other. Raises `ValueError` if the bytes are not a
    cubin.
    """
    body = loop(functions(cubin), 1, lambda step: step.name & 0x1FF == ON_TENSOR_CORES["HGMMA"])
    names = {low: name for name, low in ON_TENSOR_CORES.items()}
    counted = Counter(names.get(step.name & 0x1FF, "other") for step in body)
    return {name: counted[name] for name in (*ON_TENSOR_CORES, "other")} if body else {}
