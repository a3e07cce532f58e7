"""The contents of operands, and their places in memory."""

import ctypes
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ladder.core.types import DISTRIBUTIONS, ELEMENT_TYPES
from ladder.devices.base import Errors
from ladder.model.problem import Problem

GUARD = 1024
"""Canary elements before and after every matrix."""
CANARY = 0x7FF87FF9
"""The 32-bit pattern of poisoned memory: a NaN as float, as either half of it, and doubled as
double. In E4M3 each second byte is a NaN.
"""
BOUND = ("exact", "exact_tf32", "inner", "masked", "cancelling", "hilbert", "mixed", "repeated")
"""Distributions in which an element of B, or what must be exact of C, depends on its row: other
rows do not go together.
"""
REPEATED_ROWS = 7
"""Of `repeated`, rows of A and C so far apart are the same. Tiles have even numbers of rows, so each
place in a tile gets every row.
"""
SUMS = 8
"""Numbers that a comparison finds for a part of C, in float64."""
WHOLE = {"": "exact", "fast_accum": "exact", "tf32": "exact_tf32", "normwise": "integers"}
"""The distribution of whole numbers that each `precision` of a header must keep: sums of elements
of A or of B need more bits than they have, so those of `normwise` are small.
"""
VIEWS = 4
"""The launches of a sample on a batch that begin at different matrices."""
FAR = 1 << 30
"""Leading dimensions from which on rows lie in a memory of which only they exist."""
RESULT_SHIFTS = 16
"""The number of places at which the C of a launch may begin in its room, each on a boundary of a
line or more. The place is random, so a launch that also computes the results of later launches of
its sample does not know where to write them.
"""
TF32_DIGITS = 11
"""Significant bits of an operand in TF32: those after the point, and the one before."""
FAST_DIGITS = 14
"""Significant bits of a sum of products of 8 bits on Hopper's tensor cores (DeepSeek-AI, DeepSeek-V3
Technical Report, 2024, section 3.3.2).
"""


class Batch(ctypes.Structure):
    """What a kernel gets of a batch: `kernel.BATCH`."""

    _fields_ = [
        ("count", ctypes.c_int),
        *((f"stride_{matrix}", ctypes.c_longlong) for matrix in "abc"),
    ]


def batch_of(problem: Problem) -> list[Batch]:
    """Return the argument that a kernel gets of a batch, and none of a single product."""
    return [Batch(problem.batch, *problem.strides)] if problem.batched else []


class Draw(NamedTuple):
    """The contents of a matrix; the fields are those of `Draw` in `operands.h`."""

    distribution: int
    matrix: int
    transposed: int
    k: int
    small: int
    wide: int
    period: int
    full: int
    alone: int
    large: int
    fresh: int
    lowest: int
    highest: int
    block: int
    seed: int


class Place(NamedTuple):
    """The place of a matrix in its buffer, in elements; of a batch, that of the first, and how many
    there are, `stride` apart.
    """

    total: int
    first: int
    rows: int
    cols: int
    ld: int
    matrices: int = 1
    stride: int = 0

    def skipped(self, number: int) -> int:
        """Return the elements before what a launch gets that begins so many rows further on, or of a
        batch so many matrices.
        """
        return number * (self.stride or self.ld)


def draws(problem: Problem) -> tuple[Draw, Draw, Draw]:
    """Return the contents of A, B and C.

    `exact` draws whole numbers from -4 to 4, or fewer if K is so large that sums would not be
    exact. One in `period` along K has more bits than the next narrower format: a kernel that rounds
    an operand anywhere is off by a whole number. In every order of summation |A||B| over these
    stays below a quarter of the limit up to which the accumulator counts exactly. Beside them, each
    row of A and each column of B has one number of all the bits of the element type but one: 23 in
    float32, whoever wrote the kernel, because rung 21 keeps 23 of 24. With them |A||B| stays below the limit.
    `C` is a multiple of 4, so that adding beta C needs no more bits than alpha A B. If elements of
    C have fewer bits than the accumulator, there is room for full numbers only if K is 1 or 2. Then
    products cancel in pairs, the first with the last, all but one in `alone`: the standard
    deviation of sums over the others is at most a sixteenth of the limit of those bits, and each
    element shows one product left out. Those that cancel are so large that sums over parts of
    K need more bits than an element has, but few enough for the accumulator, and for an element's
    exponent: a kernel that keeps such a sum as an element is not exact. If elements of A and B
    have fewer bits than those of C, no number has more than they, and the standard deviation of
    sums over parts of K is at most a sixteenth of the limit of `FAST_DIGITS`. Scales of whole numbers
    are powers of two from 1 to 8, so that scaled sums need at most 6 bits more.
    `exact_tf32` is for kernels that round operands to TF32, which leaves its wide numbers as they
    are.
    """
    element = ELEMENT_TYPES[problem.element_type]
    digits = -int(math.log2(element.unit_roundoff))
    output = -int(math.log2(element.output_roundoff))
    # half of the budget for the small ones (beta C is counted with them), half for the wide ones
    taken = max((problem.k + 1) / 2 ** (digits - 3), problem.k**0.5 / 2 ** (output - 2))
    small = next((number for number in (4, 2) if number**2 * taken <= 1), 1)
    if problem.distribution == "exact_tf32":
        wide, full = TF32_DIGITS, 0
    elif output == digits:
        wide, full = min(digits - 12, output - 2), output - 1
    else:
        wide = min(digits - 12, output - 2, element.digits)
        full = min(output, element.digits) if problem.k <= 2 else 0
    mean_square = (small + 1) * (2 * small + 1) / 6
    alone = max(
        2 if output < digits and problem.k > 2 else 1,
        math.ceil(problem.k * mean_square**2 / 4 ** (output - 4)),
    )
    most = min(digits - 3, output - 2)
    period = max(1, math.ceil(math.ceil(problem.k / alone) * small * 2**wide / 2**most))
    most_exact = FAST_DIGITS - 1 if element.result else element.exponents[1] + 1
    largest = 2 ** (most_exact - 3)
    large = min(
        2 ** min(output - 1, element.digits),
        math.isqrt(2**digits // problem.k),
        math.isqrt(3 * largest // math.isqrt(problem.k)),
    )
    common = (problem.k, small, wide, period, full, alone, large, -1, *element.exponents)
    own = *common, element.block, problem.seed
    a, b, c = (
        Draw(DISTRIBUTIONS.index(problem.distribution), matrix, int(turned), *own)
        for matrix, turned in enumerate(problem.transposed)
    )
    return a, b, c


def scale_places(problem: Problem) -> list[Place]:
    """Return where the scales of A and those of B lie, in buffers of float32; none without scales.

    A row of the first has one of each row of A, for `block` elements along K. A row of the second
    has those of `block` columns of B along K, rounded up to a multiple of four: as cuBLASLt takes
    them (cuBLAS documentation, "Scaling Factors Layouts").
    """
    if not (block := ELEMENT_TYPES[problem.element_type].block):
        return []
    steps = -(-problem.k // block)
    shapes = (steps, problem.m), (-(-problem.n // block), steps + -steps % 4)
    return [Place(rows * cols + 2 * GUARD, GUARD, rows, cols, cols) for rows, cols in shapes]


def scale_draws(drawn: Sequence[Draw]) -> list[Draw]:
    """Return the contents of the scales of A and of B, whose contents are given."""
    return [draw._replace(matrix=3 + draw.matrix, transposed=0) for draw in drawn[:2]]


def spread(
    problem: Problem,
    scales: Sequence[NDArray[Any]],
    rows: slice = slice(None),
    columns: slice = slice(None),
) -> tuple[Any, Any]:
    """Return the factor of each element of rows of op(A) and of columns of op(B), from the scales as
    they lie in memory; 1 and 1 if there are none.
    """
    if not scales:
        return 1, 1
    of_a, of_b = scales
    block, k = ELEMENT_TYPES[problem.element_type].block, problem.k
    by_row = of_a.T[rows].repeat(block, 1)[:, :k]
    return by_row, of_b.repeat(block, 0)[: problem.n][columns].T.repeat(block, 0)[:k]


def exact_elements(problem: Problem) -> int:
    """Return of which elements of C every order of summation gives the same bits, to which they are
    then compared.

    0: of none. 1: of all, which are sums of whole numbers, and alpha and beta are powers of two or
    0. 2 (`mixed`): of those whose row of A and column of B are whole.
    """
    factors = (math.frexp(abs(factor))[0] for factor in (problem.alpha, problem.beta))
    if not all(factor in (0.0, 0.5) for factor in factors):
        return 0
    if problem.distribution == "mixed":
        return 2
    return int(problem.distribution in ("integers", "exact", "exact_tf32"))


def whole(problem: Problem) -> bool:
    """Return whether every order of summation gives the same bits in all of C."""
    return exact_elements(problem) == 1


def exact_mask(problem: Problem) -> NDArray[np.bool_]:
    """Return which elements of C must be exact, M x N: those of `exact_elements`, by `whole_at` in
    `operands.h`.
    """
    part = exact_elements(problem)
    rows, columns = ((np.arange(side) % 11 != 5) | (part == 1) for side in (problem.m, problem.n))
    mask: NDArray[np.bool_] = np.logical_and.outer(rows & (part > 0), columns)
    return mask


def exactly(problem: Problem, precision: str = "") -> Problem:
    """Return the problem with operands for which every order of summation gives the same bits, in
    arithmetic of a header's `precision`.

    The operands become whole numbers, and alpha and beta powers of two if they are not 0.
    """

    def power(factor: float) -> float:
        if factor == 0:
            return 0.0
        return math.copysign(2.0 ** max(-1, min(1, round(math.log2(abs(factor))))), factor)

    return replace(
        problem, distribution=WHOLE[precision], alpha=power(problem.alpha), beta=power(problem.beta)
    )


def near(problem: Problem) -> Problem:
    """Return the problem with its rows side by side if they are as far apart as `FAR`: no buffer
    holds that.
    """
    return replace(problem, padding=0) if max(problem.lda, problem.ldb) >= FAR else problem


def places(problem: Problem, extra: int = 0) -> tuple[Place, Place, Place]:
    """Return where A and B lie, each with `extra` rows below its own as it lies in memory, or of a
    batch `extra` matrices behind the others, and where C lies, in buffers of whole 32-bit words. Far
    rows lie there as `near` has them.
    """
    problem = near(problem)

    def place(
        size: int, offset: int, shape: tuple[int, int], ld: int, stride: int, extra: int
    ) -> Place:
        (rows, cols), count = shape, 1
        if problem.batched:
            count = problem.batch + extra
        else:
            rows, stride = rows + extra, 0
        total = (count * stride or rows * ld) + offset + 2 * GUARD
        return Place(
            total + -total % (2 if size > 1 else 4), GUARD + offset, rows, cols, ld, count, stride
        )

    leading = problem.lda, problem.ldb, problem.ldc
    given = problem.sizes, problem.offsets, problem.shapes, leading, problem.strides
    a, b, c = (place(*each) for each in zip(*given, (extra, extra, 0), strict=True))
    return a, b, c


def place_in_c(problem: Problem, number: int) -> str:
    """Return in words which element of C has a number, counted row by row and matrix by matrix:
    `C[3][4]`, or of a batch `C[2][3][4]`.
    """
    row, column = divmod(number, problem.n)
    matrix, row = divmod(row, problem.m)
    return f"C[{matrix}][{row}][{column}]" if problem.batched else f"C[{row}][{column}]"


def inside(buffer: NDArray[Any], place: Place) -> NDArray[Any]:
    """Return the matrix in a buffer, as it lies there; of a batch all, by the first dimension."""
    shape, strides = [place.matrices, place.rows, place.cols], [place.stride, place.ld, 1]
    several = place.matrices > 1
    return np.lib.stride_tricks.as_strided(
        buffer[place.first :],
        shape[not several :],
        [stride * buffer.itemsize for stride in strides[not several :]],
    )


def view_step(problem: Problem) -> int:
    """Return the rows of A and of B, as they lie in memory, from one launch of a sample to the next:
    0 if other rows would spoil the distribution. Of a batch it is the matrices.

    Nor are there scales of other rows. Other rows along K are multiplied of a transposed A, as of a
    B that is not. With this step
    both begin on the same 16-byte boundary in all launches. It is even, because `alternating` goes
    by pairs of rows.
    """
    if problem.batched or problem.distribution in BOUND or scale_places(problem):
        return int(problem.batched)
    return 16 // problem.sizes[0]


def skipped(problem: Problem, turn: int) -> int:
    """Return how many rows of A and of B, or of a batch how many matrices, lie before those of the
    launch of a sample whose number is `turn`.

    Of a batch `VIEWS` launches begin at different matrices, then those after them at the same: a
    sample of many launches shall read about the same memory.
    """
    return view_step(problem) * (turn % VIEWS if problem.batched else turn)


def extra(problem: Problem, launches: int) -> int:
    """Return how many rows, or matrices of a batch, behind its own the launches of a sample need."""
    return max(skipped(problem, turn) for turn in range(launches))


def can_refresh(problem: Problem) -> bool:
    """Return whether other values in a row of A and in one of B leave the distribution as it is."""
    return problem.distribution not in BOUND


def fresh_rows(random: np.random.Generator, problem: Problem, row: int) -> tuple[int, int]:
    """Return a row of A and one of B in memory, among those that a launch multiplies from `row` on,
    and the launch before it too. Of a batch it is a row of each matrix.
    """
    step = 0 if problem.batched else view_step(problem)
    shared = (max(1, rows - step) for rows, _ in problem.shapes[:2])
    of_a, of_b = (row * (step > 0) + int(random.integers(size)) for size in shared)
    return of_a, of_b


def result_shifts(random: np.random.Generator, launches: int) -> list[int]:
    """Return in which of `RESULT_SHIFTS` places the C of each launch of a sample begins; the first
    launch's is in the first.
    """
    return [0, *random.integers(RESULT_SHIFTS, size=launches - 1).tolist()]


def audited_launch(random: np.random.Generator, times: int, last: bool = False) -> int:
    """Return which launch of a sample is audited.

    In half of the samples it is the `last`: a result that a kernel puts off until the next launch
    is missing there.
    """
    return times - 1 if last or random.integers(2) else int(random.integers(times))


def scalars(problem: Problem) -> tuple[Any, Any]:
    """Return alpha and beta rounded to the type of the sums, as the kernels get them."""
    double = ELEMENT_TYPES[problem.element_type].accumulator == "double"
    accumulator = np.float64 if double else np.float32
    return accumulator(problem.alpha), accumulator(problem.beta)


def stored_type(element_type: str) -> np.dtype[Any]:
    """Return NumPy's type of elements of A and B as they lie in memory. It has none for bfloat16
    and E4M3, whose bits are integers.
    """
    if ELEMENT_TYPES[element_type].size == 1:
        return np.dtype("uint8")
    return np.dtype("uint16" if element_type == "bfloat16" else element_type)


def _e4m3() -> NDArray[np.float64]:
    """Return the values of all bytes in E4M3, which has no infinities (Micikevicius et al., FP8
    Formats for Deep Learning, 2022).
    """
    byte = np.arange(256)
    exponent, fraction = byte >> 3 & 15, byte & 7
    sizes = np.ldexp(fraction + 8.0 * (exponent > 0), np.maximum(exponent, 1) - 10)
    return np.where(byte & 127 == 127, np.nan, np.where(byte < 128, sizes, -sizes))


E4M3 = _e4m3()


def values(elements: NDArray[Any]) -> NDArray[np.float64]:
    """Return elements as they lie in memory in float64."""
    if elements.dtype == np.uint8:
        return np.asarray(E4M3[elements])
    if elements.dtype == np.uint16:
        elements = (elements.astype(np.uint32) << 16).view(np.float32)
    return elements.astype(np.float64, copy=False)


def reference(
    alpha: float, beta: float, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return R = alpha*A*B + beta*C and S = |alpha| |A| |B| + |beta| |C|, M x N in float64, or of
    matrices in a third dimension that of each.

    As in BLAS, A and B do not count if alpha is 0, nor does C if beta is 0: they may hold NaN.
    """
    a, b, c = (values(matrix) for matrix in (a, b, c))
    product = scale = np.zeros((*a.shape[:-1], b.shape[-1]))
    with np.errstate(invalid="ignore", over="ignore"):
        if alpha != 0:
            product, scale = alpha * (a @ b), abs(alpha) * (np.abs(a) @ np.abs(b))
        if beta != 0:
            product, scale = product + beta * c, scale + abs(beta) * np.abs(c)
    return product, scale


def errors_of(sums: NDArray[np.float64]) -> Errors:
    """Return the `Errors` from rows of `SUMS`, which `compare` writes for each part of C."""
    diff2, ref2, scale2, _, _, wild, stray, rounded2 = sums.sum(axis=0).tolist()
    worst, where = sums[sums[:, 3].argmax(), 3:5].tolist()
    return Errors(diff2, ref2, scale2, worst, int(where), int(wild), int(stray), rounded2)
