"""How many multiply-adds a clock the loop of a compiled kernel can issue, by a model of issue slots and register banks.

A quarter of an SM issues an instruction a clock. Its register file has two banks, the even and the odd registers, each of which gives one
register of all lanes a clock; an operand in the reuse cache, which keeps those of the instruction before by slot, is not read. Reads run at
most one instruction behind. What a loop's branches jump over counts as issued. What a load from shared memory brings goes through the same
banks. The rules are of compute capability 9.0; `studies/registers.py` measures them, for NVIDIA documents neither them nor the encoding.
That a register file has banks and a cache for reuse, and how to see them: Z. Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via
Microbenchmarking", 2018 (arXiv:1804.06826).
"""

import struct
from dataclasses import dataclass
from functools import cached_property

from ladder.compiling.cubin import code

MODELLED = "sm_90"
"""The architecture, with or without suffix, whose register file this is."""
FFMA, FFMA_WITHOUT_B, LDS, BRA = 0x223, (0x423, 0x823, 0xC23), 0x984, 0x947
"""The low twelve bits of instructions: multiply-adds of registers, and with an immediate or a constant for one of them; loads; branches."""
NO_REGISTER, NEVER = 255, 15
"""RZ, and the predicate `!PT`, with which an instruction is issued and does nothing."""
WRITE_BACK = {4: 0.12, 5: 1.08, 6: 1.75}
"""Clocks in which no multiply-add is issued since a load's 4, 8 or 16 bytes a lane are written, by the code of that width.
They fit kernels' loops. In that of `studies/registers.py` a load takes more (`unwaited`), why is not known; with its costs kernels could not
issue what they do."""
SMALLEST = 32
"""Multiply-adds of the smallest loop that counts as the kernel's."""


@dataclass(frozen=True)
class Instruction:
    """One instruction of 128 bits, little-endian."""

    low: int
    high: int

    @cached_property
    def name(self) -> int:
        """What it does."""
        return self.low & 0xFFF

    @cached_property
    def multiplies_and_adds(self) -> bool:
        """Whether it is an FFMA."""
        return self.name == FFMA or self.name in FFMA_WITHOUT_B

    def reads(self) -> tuple[int | None, ...]:
        """The registers in the three slots for operands."""
        a, b, c = self.low >> 24 & 255, self.low >> 32 & 255, self.high & 255
        if self.multiplies_and_adds:
            slots = (a, b if self.name == FFMA else NO_REGISTER, c)
        else:  # of others only an address counts
            slots = (a if self.name == LDS else NO_REGISTER, NO_REGISTER, NO_REGISTER)
        return tuple(None if register == NO_REGISTER else register for register in slots)

    def kept(self) -> tuple[int | None, ...]:
        """What the reuse cache has after it: nothing where it lets another warp go first."""
        yields, flags = not self.high >> 45 & 1, self.high >> 58
        return tuple(None if yields or not flags >> slot & 1 else register for slot, register in enumerate(self.reads()))

    def write_back(self) -> float:
        """Clocks that writing what it loaded takes of the multiply-adds."""
        loads = self.name == LDS and self.low >> 12 & 15 != NEVER and self.low >> 16 & 255 != NO_REGISTER
        return WRITE_BACK.get(self.high >> 9 & 7, WRITE_BACK[4]) if loads else 0.0

    def back(self) -> int:
        """By how many instructions a branch goes back, itself counted; 0 where it does not."""
        if self.name != BRA:
            return 0
        words = (self.low >> 34 | (self.high & 0x3FFFF) << 30) << 8 | self.low >> 16 & 255  # of four bytes, from the next one on
        return max(0, -(words - (words >> 55 << 56)) // 4)


def loop(instructions: list[Instruction]) -> list[Instruction]:
    """The loop in which the largest share are multiply-adds, of those with `SMALLEST` and more; empty where there is none."""
    bodies = [
        instructions[at + 1 - branch.back() : at + 1] for at, branch in enumerate(instructions) if 0 < branch.back() <= at + 1
    ]
    return max((body for body in bodies if _multiply_adds(body) >= SMALLEST), key=_share, default=[])


def clocks(body: list[Instruction]) -> float:
    """Clocks that a quarter of an SM takes to issue a loop's body once, when it goes round and round."""
    now, free = -1, [0, 0]  # when the last was issued; from when on each bank has time
    cache: tuple[int | None, ...] = (None, None, None)
    first, rounds = 0, 3
    steps = [(step.multiplies_and_adds, step.reads(), step.kept()) for step in body]  # of thousands, gone through several times
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
    """Multiply-adds a clock and quarter of an SM, at most 1, in the main loop of a compiled kernel; None where it has none such.

    Raises `ValueError` for what is no cubin.
    """
    bodies = [loop([Instruction(*pair) for pair in struct.iter_unpack("<QQ", text)]) for text in code(cubin)]
    body = max(bodies, key=_share, default=[])
    return _multiply_adds(body) / clocks(body) if body else None


def _multiply_adds(body: list[Instruction]) -> int:
    return sum(instruction.multiplies_and_adds for instruction in body)


def _share(body: list[Instruction]) -> float:
    return _multiply_adds(body) / max(len(body), 1)
