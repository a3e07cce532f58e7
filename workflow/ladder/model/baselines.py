"""The baselines: the vendors' calls that are measured beside the kernels."""

from ladder.core.types import UNSCALED
from ladder.model.kernel import Configuration

BASELINES = {
    "cuda": (
        "cublas",
        "cublas_fp32_sums",
        "cublas_fast_accum",
        "cublas_tf32",
        "cublas_bf16x9",
        "cublaslt_best",
    ),
    "cpu": ("blas_1", "blas_all"),
}
"""Vendor calls of each device kind. The first is the reference that every kernel is paired with."""
TYPES_OF = {
    "cublas_fp32_sums": ("float16", "bfloat16"),
    "cublas_fast_accum": UNSCALED,
    "cublas_tf32": ("float32",),
    "cublas_bf16x9": ("float32",),
}
"""The element types of a baseline that does not have all."""
REDUCING = ("cublas", "cublas_fast_accum", "cublaslt_best")
"""The baselines that may add parts of K in 16 bits, if the elements of C have 16 bits."""
ALGORITHMS = 8
"""The algorithms of cuBLASLt's heuristic that are measured: more than it has named for any problem
(cuBLAS 13.1 on an H100).
"""
SEARCH = "SEARCH=1"
"""The label of a configuration in whose place each problem has the one that a search finds."""
PRECISION = {"cublas_tf32": "tf32", "cublas_fast_accum": "fast_accum"}
"""The precision of a baseline that does not have its element type's, as a kernel's header names
it.
"""
OF_LIBRARY = "-cublas-"
"""Comes between the slug of a device and the version of a library in the name of a dataset."""
BASELINE_JOB = "baselines"
"""The name of the baselines' measure job, in place of a kernel's."""


def baseline_configurations(name: str, element_type: str) -> list[Configuration]:
    """Return the configurations of a baseline: of `cublaslt_best` cuBLAS's own call, the algorithms
    of the heuristic by their number, and the one to search for.
    """
    own = Configuration(element_type, ())
    if name != "cublaslt_best":
        return [own]
    offered = [
        Configuration(element_type, (("ALGORITHM", number),)) for number in range(ALGORITHMS)
    ]
    return [own, *offered, Configuration.of(element_type, SEARCH)]


def is_baseline(kernel: str) -> bool:
    """Return whether a kernel's name is that of a vendor's call."""
    return any(kernel in names for names in BASELINES.values())
