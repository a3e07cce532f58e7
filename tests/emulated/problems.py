"""Problems for emulated kernels: operands surrounded by canaries, and the verdict on a result."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from emulator import Launch, lower
from ladder.kernels import Configuration, Kernel

DTYPES = {"float32": np.float32, "float64": np.float64, "float16": np.float16}
CANARY = 1234.5
"""What an element of C's array holds that is no element of C: exact in every element type."""
GUARD = 1024
"""Canaries before and behind C; more than a row, and a multiple of 16 bytes, which keeps an aligned C aligned."""


@dataclass(frozen=True)
class Problem:
    """`C <- alpha*A*B + beta*C` with rows `pad` elements longer than needed and matrices that begin `start` elements into their arrays."""

    m: int
    n: int
    k: int
    alpha: float = 1.0
    beta: float = 0.0
    pad: tuple[int, int, int] = (0, 0, 0)
    start: tuple[int, int, int] = (0, 0, 0)
    element_type: str = "float32"

    @property
    def leading(self) -> tuple[int, int, int]:
        """lda, ldb, ldc."""
        return self.k + self.pad[0], self.n + self.pad[1], self.n + self.pad[2]

    def operands(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The arrays of A, B and C: A and B end with their last element, and hold NaN wherever a kernel may not look.

        C is NaN where beta is 0, and so must not be read.
        """
        lda, ldb, ldc = self.leading
        a = self._place(self._values(0, self.m, self.k), lda, self.start[0], 0, np.nan)
        b = self._place(self._values(1, self.k, self.n), ldb, self.start[1], 0, np.nan)
        old = np.full((self.m, self.n), np.nan) if self.beta == 0 else self._values(2, self.m, self.n)
        return a, b, self._place(old, ldc, GUARD + self.start[2], GUARD, CANARY)

    def launch(
        self, kernel: Kernel, configuration: Configuration, programs: list[str]
    ) -> tuple[Launch, np.ndarray, np.ndarray, np.ndarray]:
        """What `emulator.run` takes."""
        lda, ldb, ldc = self.leading
        names = {"M": self.m, "N": self.n, "K": self.k, "lda": lda, "ldb": ldb, "ldc": ldc}
        shapes = kernel.launches(configuration, names)
        launch = Launch(
            programs, [shape.grid for shape in shapes], [shape.block for shape in shapes], kernel.workspace_of(configuration, names) or 0,
            (self.m, self.n, self.k), self.leading, (self.start[0], self.start[1], GUARD + self.start[2]), self.alpha, self.beta,
        )  # fmt: skip
        return launch, *self.operands()

    def complaint(self, result: np.ndarray) -> str:
        """What is wrong with the array of C after the launch, or ""."""
        old, ldc = self.operands()[2], self.leading[2]
        inside = np.zeros(old.size, bool)
        rows = GUARD + self.start[2] + np.arange(self.m)[:, None] * ldc + np.arange(self.n)
        inside[rows] = True
        if not np.array_equal(result[~inside], old[~inside]):
            return f"{self}: wrote outside C"
        a, b, c = (self._values(i, *shape) for i, shape in enumerate(((self.m, self.k), (self.k, self.n), (self.m, self.n))))
        exact = self.alpha * (a @ b) + self.beta * c
        accumulator = np.finfo(np.float64 if self.element_type == "float64" else np.float32)
        scale = abs(self.alpha) * (abs(a) @ abs(b)) + abs(self.beta * c)
        bound = (self.k + 4) * accumulator.eps * scale + np.finfo(DTYPES[self.element_type]).eps * abs(exact)
        wrong = ~(abs(result[rows] - exact) <= bound)  # so that NaN is wrong
        if wrong.any():
            m, n = np.argwhere(wrong)[0]
            return f"{self}: {wrong.sum()} wrong elements, the first C[{m}, {n}] = {result[rows][m, n]}, not {exact[m, n]}"
        return ""

    def _values(self, which: int, rows: int, cols: int) -> np.ndarray:
        """Random elements of matrix `which`, rounded to the element type, in double precision."""
        random = np.random.default_rng([which, rows, cols])
        return random.uniform(-1, 1, (rows, cols)).astype(DTYPES[self.element_type]).astype(np.float64)

    def _place(self, matrix: np.ndarray, leading: int, before: int, behind: int, filler: float) -> np.ndarray:
        rows, cols = matrix.shape
        array = np.full(before + (rows - 1) * leading + cols + behind, filler, DTYPES[self.element_type])
        array[before + np.arange(rows)[:, None] * leading + np.arange(cols)] = matrix
        return array


def tile_of(configuration: Configuration) -> tuple[int, int, int]:
    """BM, BN, BK of a configuration; for kernels without tiles, the block's extents and 8."""
    names = dict(configuration.parameters)
    return names.get("BM", names.get("BX", 32)), names.get("BN", names.get("BY", 32)), names.get("BK", 8)


def two_configurations(kernel: Kernel, element_type: str) -> Sequence[Configuration]:
    """The default configuration, and the legal one of its sweep that differs from it in the most parameters."""
    default = Configuration(element_type, tuple(kernel.parameters.items()))
    legal = [configuration for configuration, objection in kernel.expand({}, [element_type]) if not objection]
    other = max(legal, key=lambda one: sum(a != b for a, b in zip(one.parameters, default.parameters, strict=True)))
    return [default] if other == default else [default, other]


def lower_kernel(kernel: Kernel, configuration: Configuration, source: str, include: Path, folder: Path) -> list[str]:
    """The programs of a kernel's launches, from `source`, which a test may have changed."""
    functions = [
        shape.function for shape in kernel.launches(configuration, dict.fromkeys(("M", "N", "K", "lda", "ldb", "ldc"), 1))
    ]
    return lower(source, include, folder, functions, bool(kernel.workspace))
