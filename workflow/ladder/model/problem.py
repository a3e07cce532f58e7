"""A GEMM problem: sizes, element type, scalars, padding, and how its operands are drawn."""

from dataclasses import dataclass

from ladder.core.types import ELEMENT_TYPES, flops

VARIED = ("alpha", "beta", "padding", "distribution")
"""Keys of an entry of `problems` that override the campaign's."""


@dataclass(frozen=True)
class Problem:
    """`C <- alpha*A*B + beta*C`, row-major: A is M x K (lda), B is K x N (ldb), C is M x N (ldc)."""

    m: int
    n: int
    k: int
    element_type: str = "float32"
    alpha: float = 1.0
    beta: float = 0.0
    padding: int = 0
    """Elements added to every row: lda = K + padding, ldb = N + padding, ldc = N + 2 * padding, so that a mix-up shows."""
    offset: int = 0
    """Elements from an aligned address to the beginning of A, B and C."""
    distribution: str = "uniform"
    seed: int = 0

    @property
    def lda(self) -> int:
        return self.k + self.padding

    @property
    def ldb(self) -> int:
        return self.n + self.padding

    @property
    def ldc(self) -> int:
        return self.n + 2 * self.padding

    @property
    def label(self) -> str:
        """`4096` for a square, else `64x4096x4096` (M x N x K), then the operands' unusual properties: `4096 beta=0.5 padding=3`."""
        size = str(self.m) if self.m == self.n == self.k else f"{self.m}x{self.n}x{self.k}"
        usual = Problem(self.m, self.n, self.k)
        own = {name: getattr(self, name) for name in VARIED if getattr(self, name) != getattr(usual, name)}
        return " ".join(
            [size, *(f"{name}={value if isinstance(value, str) else format(value, 'g')}" for name, value in own.items())]
        )

    @property
    def alignment(self) -> int:
        """The largest power of two, at most 16, that divides the byte addresses of A, B and C."""
        shift = self.offset * ELEMENT_TYPES[self.element_type].size
        return min(16, shift & -shift) if shift else 16

    @property
    def flops(self) -> int:
        return flops(self.m, self.n, self.k)

    @property
    def bytes(self) -> int:
        """Bytes of device memory that a measurement takes: the operands, and what float64 verification adds."""
        operands = self.m * self.lda + self.k * self.ldb + self.m * self.ldc
        return operands * ELEMENT_TYPES[self.element_type].size + 8 * (self.m * self.k + self.k * self.n + 2 * self.m * self.n)

    def names(self) -> dict[str, int]:
        """Return the problem's numbers by their names in header expressions."""
        return {
            "M": self.m,
            "N": self.n,
            "K": self.k,
            "lda": self.lda,
            "ldb": self.ldb,
            "ldc": self.ldc,
            "alignment": self.alignment,
        }
