"""Element types, statuses, device kinds, and units of throughput."""

import math
from dataclasses import dataclass, replace
from typing import Literal

Status = Literal[
    "correct", "incorrect", "compile_error", "launch_error", "timeout", "not_supported", "skipped"
]

FAILED = ("incorrect", "launch_error", "timeout")
"""Statuses that a configuration gets everywhere once the confirmation finds it so on one
problem.
"""

KINDS = ("cuda", "cpu")
"""Device kinds; also the folders under `kernels/`."""


LAYOUTS = ("nn", "nt", "tn", "tt")
"""How A, then B lie in memory: as they are multiplied, `n`, or transposed, `t`."""

USUAL = {"layout": "nn", "batch": 1}
"""Fields of a problem, and columns, that older programs did not have, with the value there."""

DISTRIBUTIONS = (
    "uniform",
    "normal",
    "integers",
    "exact",
    "exact_tf32",
    "positive",
    "lognormal",
    "scaled",
    "inner",
    "outliers",
    "masked",
    "cancelling",
    "alternating",
    "denormal",
    "huge",
    "sparse",
    "hilbert",
    "nonfinite",
    "mixed",
    "repeated",
)
"""Distributions that operands can be drawn from, in the order of the `enum` in
`devices/operands.h`, which defines them.
"""


@dataclass(frozen=True)
class ElementType:
    """How the elements of A, B and C are stored, and the type in which products are summed and
    which alpha and beta have.

    `unit_roundoff` is that of the sums, `output_roundoff` that of an element of C.
    """

    name: str
    size: int
    """Bytes per element of A and of B."""
    c_type: str
    accumulator: str
    unit_roundoff: float
    output_roundoff: float
    exponents: tuple[int, int]
    """Those of the smallest and of the largest normal numbers."""
    header: str = ""
    """The toolkit's file that declares `c_type`."""
    result: str = ""
    """The name of C's type if it is another one than that of A and B."""
    roundoff: float = 0.0
    """That of an element of A or B, if C has another type."""
    block: int = 0
    """How many elements along K have a scale together, a number in float32: in a row of A, and in so
    many columns of B. 0 for no scales.
    """

    @property
    def of_c(self) -> "ElementType":
        """The type of C's elements."""
        return ELEMENT_TYPES[self.result or self.name]

    @property
    def digits(self) -> int:
        """Significant bits of an element of A or B."""
        return -int(math.log2(self.roundoff or self.output_roundoff))


ELEMENT_TYPES = {
    "float32": ElementType("float32", 4, "float", "float", 2.0**-24, 2.0**-24, (-126, 127)),
    "float64": ElementType("float64", 8, "double", "double", 2.0**-53, 2.0**-53, (-1022, 1023)),
    "float16": ElementType(
        "float16", 2, "__half", "float", 2.0**-24, 2.0**-11, (-14, 15), "cuda_fp16.h"
    ),
    "bfloat16": ElementType(
        "bfloat16", 2, "__nv_bfloat16", "float", 2.0**-24, 2.0**-8, (-126, 127), "cuda_bf16.h"
    ),
}
ELEMENT_TYPES |= {
    name: replace(
        ELEMENT_TYPES[result],
        name=name,
        size=1,
        c_type="__nv_fp8_e4m3",
        exponents=(-6, 8),
        header="cuda_fp8.h",
        result=result,
        roundoff=2.0**-4,
    )
    for name, result in {"float8_e4m3": "bfloat16", "float8_e4m3_float16": "float16"}.items()
}
ELEMENT_TYPES["float8_e4m3_blocks"] = replace(
    ELEMENT_TYPES["float8_e4m3"], name="float8_e4m3_blocks", block=128
)
OF_CUDA = tuple(name for name, element in ELEMENT_TYPES.items() if element.header)
"""Element types that only GPUs have."""
OF_8_BITS = tuple(name for name, element in ELEMENT_TYPES.items() if element.size == 1)
UNSCALED = tuple(name for name in OF_8_BITS if not ELEMENT_TYPES[name].block)
"""Those without scales of blocks."""


def flops(m: int, n: int, k: int, batch: int = 1) -> int:
    """Return the floating-point operations counted for a batch of GEMMs: `2*M*N*K` for each, the
    convention of BLAS benchmarks.
    """
    return 2 * m * n * k * batch


def rate_unit(kind: str) -> tuple[str, float]:
    """Return the unit in which throughput on a device kind is shown, and its size in TFLOP/s."""
    return ("TFLOP/s", 1.0) if kind == "cuda" else ("GFLOP/s", 1e-3)
