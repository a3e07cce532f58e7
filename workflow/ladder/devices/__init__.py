"""One small interface to what is measured: operands, launches, timed rounds. `cuda` and `cpu` implement it."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ladder.campaign import Problem
from ladder.kernels import Configuration, Kernel
from ladder.units import DISTRIBUTIONS, ELEMENT_TYPES, Status

GUARD = 1024
"""Canary elements before and after every matrix."""
CANARY = 0x7FF87FF9
"""32-bit pattern of poisoned memory: a NaN as float, as either half of it, and doubled as double."""
BOUND = ("exact", "exact_tf32", "inner", "masked", "cancelling", "hilbert")
"""Distributions in which an element of B depends on its row: another part of B is no operand that goes with A."""


RESULT_SHIFTS = 16
"""Places where the C of a launch may begin in its room, on a boundary of a line or more: which, only chance tells. A launch that also
computes what later ones of its sample are asked for does not know where to write it."""
TF32_DIGITS = 11
"""Significant bits of an operand in TF32: those after the point, and the one before."""


class Refused(Exception):
    """The device cannot run a configuration, or running it failed; `fatal` when the device's context is lost with it."""

    def __init__(self, status: Status, reason: str, fatal: bool = False) -> None:
        super().__init__(reason)
        self.status, self.reason, self.fatal = status, reason, fatal


Call = Callable[[], None]


@dataclass
class Launch:
    """A kernel or a vendor's call on the present problem."""

    bind: Callable[[int, int, int], Call]
    """From the addresses of A, B and C to a call that is ready to be made. On a GPU it is queued, not waited for."""
    before: Call = lambda: None
    """Made before the clock starts, such as setting the number of threads."""
    tf32: bool = False
    """Whether it rounds float32 operands to TF32, and is judged by that."""


@dataclass
class Sample:
    """Launches that are timed together, back to back, each on operands that no other of them has, and with a C of its own.

    One of them is audited, picked anew each time: what a launch finds does not tell whether it will be.
    """

    call: Call
    before: Call
    times: int
    sets: int = 1
    """Sets of operands that its launches take in turn."""
    ready: bool = False
    """Whether it has run before: its code is loaded."""


@dataclass(frozen=True)
class Errors:
    """How C differs from the float64 reference R, with S = |alpha| |A| |B| + |beta| |C|."""

    diff2: float
    """Sum of (C - R)^2 over the elements where both are finite."""
    ref2: float
    scale2: float
    worst: float
    """Largest |C - R| / S of an element."""
    where: int
    """Which element that is, row * N + column."""
    wild: int
    """Elements that are NaN or infinite and should not be, or the other way round, or were never written."""
    stray: int
    """Canaries around C (before, after, and in the padding of its rows) that were overwritten."""


@dataclass(frozen=True)
class Audit:
    """What a look at a timed launch found, by a product with a vector of random signs in place of the whole reference."""

    worst: float
    """Largest |C x - alpha A (B x) - beta C0 x| of a row, over sqrt(|C_i|^2 + |alpha A_i|^2 |B|^2 / K + |beta C0_i|^2)."""
    changed: int
    """Elements of A and B, or canaries in the padding of their rows, that are not what they were."""
    stray: int


@dataclass(frozen=True)
class Timed:
    """A sample: microseconds for all its launches, what its audit found, and where it was asked for the errors of every element."""

    us: float
    audit: Audit
    errors: Errors | None = None


class Draw(NamedTuple):
    """What a matrix is filled with; the fields are those of `Draw` in `operands.h`."""

    distribution: int
    matrix: int
    k: int
    small: int
    wide: int
    period: int
    alone: int
    lowest: int
    highest: int
    seed: int


class Place(NamedTuple):
    """Where a matrix lies in its buffer, in elements."""

    total: int
    first: int
    rows: int
    cols: int
    ld: int


class Device(ABC):
    """What a worker needs of a device. Operands must be in use before anything that depends on them."""

    kind: str
    names: Mapping[str, int] = MappingProxyType({})
    """What the expressions of a kernel's header may say of the device: `kernels.DEVICE_NAMES`."""
    rotates = False
    """Whether a sample of several launches can keep the caches cold between them."""
    warm_seconds: float
    """The least time to warm up for."""
    busy_us: float = 0.0
    """Time the device spent executing what was timed or verified, in microseconds."""
    reading: Mapping[str, float | int | None] = MappingProxyType({})
    """What `monitor` gave during the last `time_round`, or shortly before."""
    given: Problem
    """The problem whose operands are in use."""

    @abstractmethod
    def operands(self, problem: Problem) -> Any:
        """Make the operands of a problem and use them. What is returned can be given to `use`, and to `free`."""

    @abstractmethod
    def use(self, operands: Any) -> None:
        """Use operands that were made before."""

    @abstractmethod
    def free(self, operands: Any) -> None:
        """Free operands, and what was made of them."""

    @abstractmethod
    def kernel(self, kernel: Kernel, configuration: Configuration, binary: bytes) -> Launch:
        """A launch of a compiled configuration on the present problem; raises `Refused`."""

    @abstractmethod
    def baseline(self, name: str) -> Launch:
        """A launch of a vendor's call on the present problem; raises `Refused`."""

    @abstractmethod
    def check(self, launch: Launch) -> Errors:
        """Draw the operands, poison C, launch once and compare C with the reference; raises `Refused` where the launch fails."""

    @abstractmethod
    def look(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        """A, B and C as drawn for the launch that `check` made last, and its result: flat, from the matrix's first element on."""

    @abstractmethod
    def reserve(self, times: int, cold: bool) -> None:
        """Make room for samples of so many launches, before the first of those that will be timed together is made."""

    @abstractmethod
    def sample(self, launch: Launch, times: int, cold: bool = False) -> Sample:
        """A sample of `times` of `launch` back to back, without the host in between where the device can.

        With `cold`, each is made on another copy of the operands, so many that none is in the caches when its turn comes again.
        """

    @abstractmethod
    def time_round(self, samples: Sequence[Sample], cold: bool, seed: int, compare: bool = False) -> list[Timed]:
        """Time each sample once, in order; with `cold`, caches are flushed before each. Sets `reading`.

        The operands are drawn anew from `seed` first; before each sample C and the workspace are poisoned, and after it one of its
        launches is audited. With `compare` its result is compared with the float64 reference too, every element.
        """

    @abstractmethod
    def time_calls(self, calls: Sequence[Call]) -> list[float]:
        """Time bare calls, in microseconds: no operands, no audit."""

    def energy(self, sample: Sample, seconds: float) -> tuple[float, float] | None:
        """Joules and microseconds that a sample takes, repeated for `seconds`, idle power included; None where nothing counts them."""
        return None

    @abstractmethod
    def monitor(self) -> dict[str, float | int | None]:
        """Clocks and temperature now; empty where they cannot be read."""

    def other_processes(self) -> int | None:
        """How many processes besides this one compute on the device now; None where that cannot be told."""
        return None

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What only the device can tell of itself, for `environment.json`."""

    @abstractmethod
    def peaks(self) -> dict[str, float]:
        """Limits measured on the device: `fp32_tflops`, multiply-adds from registers, and `copy_tb_s`, read and write counted."""

    @abstractmethod
    def launch_us(self, times: int) -> float:
        """What the clock shows for an empty launch, one of `times` in a sample, in microseconds: what is shorter cannot be told from it."""

    @abstractmethod
    def close(self) -> None:
        """Free everything."""


def draws(problem: Problem) -> tuple[Draw, Draw, Draw]:
    """What A, B and C are filled with.

    `exact` are whole numbers from -4 to 4 (fewer where K is so large that sums would not be exact), among which one in `period` along K is
    wider than the next narrower format has bits: a kernel that rounds an operand anywhere is off by a whole number. |A||B| stays below a
    quarter of where the accumulator stops counting, in every order of summation. Where elements of C have fewer bits, so many products
    cancel in pairs, half of K apart, all but one in `alone`, that the standard deviation of sums over small ones is a sixteenth of where
    those bits stop counting at most: each element shows one product left out. `exact_tf32` is for what rounds
    operands to TF32: this leaves the wide ones as they are too.
    """
    element = ELEMENT_TYPES[problem.element_type]
    digits, output = (-int(math.log2(roundoff)) for roundoff in (element.unit_roundoff, element.output_roundoff))
    # half of the budget for the small ones (beta C is counted with them), half for the wide ones
    small = next(
        (s for s in (4, 2, 1) if s * s * max((problem.k + 1) / 2 ** (digits - 3), problem.k**0.5 / 2 ** (output - 2)) <= 1), 1
    )
    wide = TF32_DIGITS if problem.distribution == "exact_tf32" else min(digits - 12, output - 2)
    period = max(1, math.ceil(problem.k * small * 2**wide / 2 ** min(digits - 3, output - 2)))
    mean_square = (small + 1) * (2 * small + 1) / 6
    alone = math.ceil(problem.k * mean_square**2 / 4 ** (output - 4))
    limits = np.finfo(np.dtype(problem.element_type))
    common = (problem.k, small, wide, period, alone, int(limits.minexp), int(limits.maxexp) - 1, problem.seed)
    a, b, c = (Draw(DISTRIBUTIONS.index(problem.distribution), matrix, *common) for matrix in range(3))
    return a, b, c


def whole(problem: Problem) -> bool:
    """Whether every order of summation gives the same bits, to which results are then compared.

    Of whole numbers, where alpha and beta are powers of two or 0.
    """
    factors = (math.frexp(abs(factor))[0] for factor in (problem.alpha, problem.beta))
    return problem.distribution in ("integers", "exact", "exact_tf32") and all(factor in (0.0, 0.5) for factor in factors)


def exactly(problem: Problem, tf32: bool = False) -> Problem:
    """The problem with operands for which every order of summation gives the same bits: whole numbers, alpha and beta powers of two."""

    def power(factor: float) -> float:
        return math.copysign(2.0 ** max(-1, min(1, round(math.log2(abs(factor))))), factor) if factor else 0.0

    return replace(problem, distribution="exact_tf32" if tf32 else "exact", alpha=power(problem.alpha), beta=power(problem.beta))


def places(problem: Problem, extra: int = 0) -> tuple[Place, Place, Place]:
    """Where A, B (with `extra` rows below its K) and C lie, in buffers of whole 32-bit words."""

    def place(rows: int, cols: int, ld: int) -> Place:
        total = rows * ld + problem.offset + 2 * GUARD
        return Place(total + total % 2, GUARD + problem.offset, rows, cols, ld)

    m, n, k = problem.m, problem.n, problem.k
    return place(m, k, problem.lda), place(k + extra, n, problem.ldb), place(m, n, problem.ldc)


def view_step(problem: Problem) -> int:
    """Rows of B between the operands of one launch of a sample and the next: none where that would spoil the distribution.

    So many that B begins on the same 16-byte boundary in all, and an even number: `alternating` goes by pairs of rows.
    """
    return 0 if problem.distribution in BOUND else 16 // ELEMENT_TYPES[problem.element_type].size


def result_shifts(random: np.random.Generator, launches: int) -> list[int]:
    """In which of `RESULT_SHIFTS` places the C of each launch of a sample begins; that of the first in the first."""
    return [0, *random.integers(RESULT_SHIFTS, size=launches - 1).tolist()]


def audited(random: np.random.Generator, times: int) -> int:
    """Which of a sample's launches is looked at: the last in half of the samples, for what is put off until the next launch lacks there."""
    return times - 1 if random.integers(2) else int(random.integers(times))


def scalars(problem: Problem) -> tuple[Any, Any]:
    """alpha and beta rounded to the element type, as the kernels get them."""
    element = np.dtype(problem.element_type).type
    return element(problem.alpha), element(problem.beta)


def errors_of(sums: NDArray[np.float64]) -> Errors:
    """`Errors` from a row of the seven sums of `compare` for each part of C."""
    total, first = sums.sum(axis=0), int(sums[:, 3].argmax())
    return Errors(
        float(total[0]),
        float(total[1]),
        float(total[2]),
        float(sums[first, 3]),
        int(sums[first, 4]),
        int(total[5]),
        int(total[6]),
    )
