"""A GEMM problem: sizes, element type, scalars, padding, and how its operands are drawn."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ladder.core.types import ELEMENT_TYPES, USUAL, flops

VARIED = ("alpha", "beta", "padding", "offset", "distribution", "layout", "batch")
"""Keys of an entry of `problems` that override the campaign's."""
PIECE_BYTES, GAP_BYTES = 16, 128
"""Strides of a batch are multiples of `PIECE_BYTES`, as tensor maps need it. Behind every matrix are
so many times `GAP_BYTES`: 1 behind one of A, 2 of B, 3 of C, so that a mix-up shows.
"""


@dataclass(frozen=True)
class Problem:
    """`C <- alpha*A*B + beta*C`, row-major: A is M x K (lda), B is K x N (ldb), C is M x N (ldc).

    A matrix that lies transposed in memory has its rows there, `lda` or `ldb` apart: A is stored
    K x M, B is stored N x K. C is never transposed.
    """

    m: int
    n: int
    k: int
    element_type: str = "float32"
    alpha: float = 1.0
    beta: float = 0.0
    padding: int | str = 0
    """Elements added to every row of A, B and C, such as `1,4,2`. A single number p means `p,p,2p`,
    so that a mix-up shows.
    """
    offset: int | str = 0
    """Elements from an aligned address to the beginning of A, B and C, such as `0,1,3`. A single
    number holds for all three.
    """
    distribution: str = "uniform"
    seed: int = 0
    layout: str = "nn"
    """One of `types.LAYOUTS`: that of A, then that of B."""
    batch: int = 1
    """The number of products, each of matrices of its own, `strides` apart."""

    @property
    def batched(self) -> bool:
        """Whether there are several products."""
        return self.batch > 1

    @property
    def form(self) -> tuple[str, bool]:
        """What kernels are compiled for: the layout, and whether the problem is batched."""
        return self.layout, self.batched

    @property
    def transposed(self) -> tuple[bool, bool, bool]:
        """Whether A, B and C lie in memory transposed."""
        return self.layout[0] == "t", self.layout[1] == "t", False

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Rows and columns of A, of B and of C as they lie in memory."""
        shapes = (self.m, self.k), (self.k, self.n), (self.m, self.n)
        return [
            (columns, rows) if turned else (rows, columns)
            for (rows, columns), turned in zip(shapes, self.transposed, strict=True)
        ]

    @property
    def lda(self) -> int:
        return self.shapes[0][1] + self.paddings[0]

    @property
    def ldb(self) -> int:
        return self.shapes[1][1] + self.paddings[1]

    @property
    def ldc(self) -> int:
        return self.n + self.paddings[2]

    @property
    def fields(self) -> dict[str, Any]:
        """The fields, without a layout `nn` and a batch of 1: as plans have them, and digests of
        older programs.
        """
        fields = dict(vars(self))
        for name, usual in USUAL.items():
            if fields[name] == usual:
                del fields[name]
        return fields

    @property
    def paddings(self) -> list[int]:
        """Elements added to every row of A, of B and of C."""
        return _three(self.padding, of_c=2)

    @property
    def offsets(self) -> list[int]:
        """Elements from an aligned address to the beginning of A, of B and of C."""
        return _three(self.offset)

    @property
    def sizes(self) -> list[int]:
        """Bytes per element of A, of B and of C."""
        element = ELEMENT_TYPES[self.element_type]
        return [element.size, element.size, element.of_c.size]

    @property
    def label(self) -> str:
        """`4096` for a square, else `64x4096x4096` (M x N x K), then the operands' unusual
        properties: `4096 beta=0.5 padding=3`.
        """
        size = str(self.m) if self.m == self.n == self.k else f"{self.m}x{self.n}x{self.k}"
        return " ".join([size, *(f"{name}={value}" for name, value in self.varied.items())])

    @property
    def varied(self) -> dict[str, str]:
        """The operands' unusual properties, as text."""
        usual = Problem(1, 1, 1)
        values = {name: getattr(self, name) for name in VARIED}
        return {
            name: value if isinstance(value, str) else format(value, "g")
            for name, value in values.items()
            if value != getattr(usual, name)
        }

    @property
    def alignments(self) -> list[int]:
        """The largest power of two, at most 16, that divides the byte address of A, of B and of
        C.
        """
        shifts = map(operator.mul, self.offsets, self.sizes)
        return [min(16, shift & -shift) if shift else 16 for shift in shifts]

    @property
    def flops(self) -> int:
        return flops(self.m, self.n, self.k, self.batch)

    def tflops(self, us: float) -> float:
        """Return the throughput in TFLOP/s of a launch that takes so many microseconds."""
        return self.flops / us * 1e-6

    @property
    def bytes(self) -> int:
        """Bytes of device memory that a measurement takes: the operands, and what float64
        verification adds.
        """
        wide = 8 * self.batch * (self.m * self.k + self.k * self.n + 2 * self.m * self.n)
        moved = zip(self._elements, self.sizes, strict=True)
        return wide + sum(elements * size for elements, size in moved)

    @property
    def strides(self) -> list[int]:
        """Elements from the beginning of a matrix of A, of B and of C to that of the next one."""
        leading = self.lda, self.ldb, self.ldc
        strides = []
        for gaps, (size, (rows, _), ld) in enumerate(
            zip(self.sizes, self.shapes, leading, strict=True), 1
        ):
            length = size * rows * ld
            strides.append((length + -length % PIECE_BYTES + gaps * GAP_BYTES) // size)
        return strides

    @property
    def least_bytes(self) -> int:
        """Bytes of A, B and C, without padding."""
        of_a, of_b, of_c = self.sizes
        return self.batch * (
            of_a * self.m * self.k + of_b * self.k * self.n + of_c * self.m * self.n
        )

    @property
    def _elements(self) -> list[int]:
        """Elements of memory of A, of B and of C, with the padding of their rows."""
        if self.batched:
            return [self.batch * stride for stride in self.strides]
        leading = self.lda, self.ldb, self.ldc
        return [rows * ld for (rows, _), ld in zip(self.shapes, leading, strict=True)]

    @property
    def host_bytes(self) -> int:
        """Bytes of memory that a measurement on the CPU takes: two copies of the operands, three of
        C, and NumPy's float64 reference.
        """
        a, b, c = self._elements
        wide = 8 * self.batch * (2 * (self.m * self.k + self.k * self.n) + 7 * self.m * self.n)
        return ELEMENT_TYPES[self.element_type].size * (2 * (a + b) + 3 * c) + wide

    def names(self) -> dict[str, float]:
        """Return the problem's numbers by their names in header expressions."""
        a, b, c = self.alignments
        return {
            "M": self.m,
            "N": self.n,
            "K": self.k,
            "lda": self.lda,
            "ldb": self.ldb,
            "ldc": self.ldc,
            "alpha": self.alpha,
            "beta": self.beta,
            "alignment": min(a, b, c),
            "alignment_a": a,
            "alignment_b": b,
            "alignment_c": c,
            **transposes(self.layout),
            "batch": self.batch,
            **{f"stride_{each}": stride for each, stride in zip("abc", self.strides, strict=True)},
        }


def transposes(layout: str) -> dict[str, int]:
    """Return what a layout is in kernels and in their headers: the constants TRANS_A and TRANS_B."""
    return {f"TRANS_{matrix}": int(how == "t") for matrix, how in zip("AB", layout, strict=True)}


def joined(numbers: Sequence[int], of_c: int = 1) -> int | str:
    """Return the numbers of A, B and C as `padding` (with `of_c` 2) and `offset` have them: one
    number if it says all three.
    """
    return numbers[0] if list(numbers) == _three(numbers[0], of_c) else ",".join(map(str, numbers))


@lru_cache
def _three(given: int | str, of_c: int = 1) -> list[int]:
    """Return the numbers of A, B and C. A single number is that of A and B; C has `of_c` times as
    many.
    """
    numbers = [int(number) for number in str(given).split(",")]
    return numbers if len(numbers) == 3 else [numbers[0], numbers[0], of_c * numbers[0]]
