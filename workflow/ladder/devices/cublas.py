"""cuBLAS through nvmath-python, in PyCUDA's context and on its stream.

cuBLAS takes column-major matrices. A row-major matrix read as column-major is its transpose, and `C
= A*B` is the same as `C^T = B^T*A^T`. So A and B change places, as do M and N, and nothing is
transposed in memory.
"""

import sys
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Any

import numpy as np

from ladder.devices.base import Call, Launch, Refused
from ladder.devices.cuda import Cuda
from ladder.devices.cuda_operands import Apart
from ladder.devices.operands import scalars
from ladder.model.baselines import ALGORITHMS, TYPES_OF
from ladder.model.problem import Problem

# Without what nvmath-python's packages import, which is all of NVIDIA's mathematical libraries: they
# would make each worker start 0.7 s later.
for package in ("nvmath", "nvmath.bindings"):
    if (spec := find_spec(package)) and package not in sys.modules:
        sys.modules[package] = module_from_spec(spec)
cublas, cublasLt = (import_module(f"nvmath.bindings.{name}") for name in ("cublas", "cublasLt"))
WORKSPACE_BYTES = 32 << 20
"""NVIDIA's recommendation for Hopper (cuBLAS documentation, cublasSetWorkspace)."""
_DATA = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
"""Values of `cudaDataType` (library_types.h)."""


def _compute(element_type: str, tf32: bool = False) -> int:
    """Return the value of `cublasComputeType_t` for sums of an element type."""
    kinds = cublas.ComputeType
    if tf32:
        return int(kinds.COMPUTE_32F_FAST_TF32)
    return int(kinds.COMPUTE_64F if element_type == "float64" else kinds.COMPUTE_32F)


class Cublas:
    """cuBLAS handles on the device's stream. They live as long as the process."""

    def __init__(self, device: Cuda) -> None:
        self.device = device
        self.workspace = Apart(WORKSPACE_BYTES)
        self.handle = self._handle()

    def _handle(self) -> int:
        handle: int = cublas.create()
        cublas.set_stream(handle, self.device.stream.handle)
        cublas.set_workspace(handle, int(self.workspace), WORKSPACE_BYTES)
        return handle

    @cached_property
    def strict(self) -> int:
        """A handle of which few baselines are, as of `light`: making one takes time."""
        handle = self._handle()
        cublas.set_math_mode(handle, int(cublas.Math.DISALLOW_REDUCED_PRECISION_REDUCTION))
        return handle

    @cached_property
    def light(self) -> int:
        """The handle of cuBLASLt."""
        handle: int = cublasLt.create()
        return handle

    def version(self) -> str:
        """Return the library's version: `13.1.0`."""
        number = cublas.get_version(self.handle)
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def launch(self, name: str, algorithm: int | None = None) -> Launch:
        """Return the launch of a baseline. Raises `Refused` for an element type that it does not
        have, or an algorithm that is not offered.

        `cublas` uses the element type's own arithmetic. For elements of 16 bits that means sums in
        float, but parts of K may be added up in 16 bits; `cublas_fp32_sums` forbids that (cuBLAS
        documentation, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION). `cublas_tf32` uses
        FAST_TF32. `cublaslt_best` is `cublas`, or with a number that algorithm of the heuristic.
        """
        p = self.device.given
        if p.element_type not in TYPES_OF.get(name, _DATA):
            raise Refused(
                "not_supported", f"{name} has the element types {', '.join(TYPES_OF[name])}"
            )
        compute = _compute(p.element_type, name == "cublas_tf32")
        if algorithm is not None:
            return self._launch_of(self._algorithms(p, compute), algorithm)
        sizes = (p.m, p.n, p.k, p.lda, p.ldb, p.ldc)
        alpha, beta = (np.array([value]) for value in scalars(p))
        gemm = partial(
            self._gemm,
            self.strict if name == "cublas_fp32_sums" else self.handle,
            _DATA[p.element_type],
            compute,
            sizes,
            alpha,
            beta,
        )
        return Launch(lambda *addresses: partial(gemm, *addresses))

    def product64(
        self, m: int, n: int, k: int, alpha: float, a: Any, b: Any, beta: float, c: Any
    ) -> None:
        """Queue `C <- alpha*A*B + beta*C` in float64 on dense row-major device arrays A (m x k), B
        (k x n) and C (m x n).
        """
        self._gemm(
            self.handle,
            _DATA["float64"],
            _compute("float64"),
            (m, n, k, k, n, n),
            np.array([alpha]),
            np.array([beta]),
            int(a),
            int(b),
            int(c),
        )

    def _gemm(
        self,
        handle: Any,
        data: int,
        compute: int,
        sizes: tuple[int, ...],
        alpha: Any,
        beta: Any,
        a: int,
        b: int,
        c: int,
    ) -> None:
        m, n, k, lda, ldb, ldc = sizes
        plain = int(cublas.Operation.N)
        # B before A, N before M: see the module's docstring
        sides = (b, data, ldb, a, data, lda)
        factors = alpha.ctypes.data, beta.ctypes.data
        cublas.gemm_ex(
            handle, plain, plain, n, m, k, factors[0], *sides, factors[1], c, data, ldc, compute, -1
        )

    def _algorithms(self, p: Problem, compute: int) -> list[Callable[[int, int, int], Call]]:
        """Return a function per algorithm of the heuristic that binds it to operands, the
        heuristic's favorite first.

        The heuristic is cublasLtMatmulAlgoGetHeuristic. The descriptors of the problem stay as long
        as the process: some hundred bytes.
        """
        alpha, beta = (np.array([value]) for value in scalars(p))
        kind, device = _DATA[p.element_type], self.device
        scale = _DATA["float64" if p.element_type == "float64" else "float32"]
        how = cublasLt.matmul_desc_create(compute, scale)
        of_b, of_a, of_c = (
            cublasLt.matrix_layout_create(kind, *shape)
            for shape in ((p.n, p.k, p.ldb), (p.k, p.m, p.lda), (p.n, p.m, p.ldc))
        )
        preference, wish = cublasLt.matmul_preference_create(), cublasLt.MatmulPreferenceAttribute
        # each launch of a sample has its own rows of B: all begin on a 16-byte boundary, or none
        # does
        alignment = np.array([min(16, p.names()["alignment"])], np.uint32)
        wishes = {f"MIN_ALIGNMENT_{matrix}_BYTES": alignment for matrix in "ABCD"}
        wishes["MAX_WORKSPACE_BYTES"] = np.array([WORKSPACE_BYTES], np.uint64)
        for name, value in wishes.items():
            cublasLt.matmul_preference_set_attribute(
                preference, int(wish[name]), value.ctypes.data, value.nbytes
            )
        heuristics = np.zeros(ALGORITHMS, cublasLt.matmul_heuristic_result_dtype)
        count = np.zeros(1, np.int32)
        offered = ALGORITHMS, heuristics.ctypes.data, count.ctypes.data
        cublasLt.matmul_algo_get_heuristic(
            self.light, how, of_b, of_a, of_c, of_c, preference, *offered
        )
        cublasLt.matmul_preference_destroy(preference)

        def bind(algorithm: Any, a: int, b: int, c: int) -> Call:
            return lambda: cublasLt.matmul(
                self.light,
                how,
                alpha.ctypes.data,
                b,
                of_b,
                a,
                of_a,
                beta.ctypes.data,
                c,
                of_c,
                c,
                of_c,
                algorithm.ctypes.data,
                int(self.workspace),
                WORKSPACE_BYTES,
                device.stream.handle,
            )

        return [
            partial(bind, heuristics[i : i + 1])
            for i in range(int(count[0]))
            if heuristics["state"][i] == 0
        ]

    def _launch_of(
        self, algorithms: Sequence[Callable[[int, int, int], Call]], number: int
    ) -> Launch:
        """Return the launch of an algorithm. Raises `Refused` if there is none of this number, or
        cuBLASLt refuses what it has offered.
        """
        if number >= len(algorithms):
            raise Refused(
                "not_supported", f"the heuristic of cuBLASLt offers {len(algorithms)} algorithms"
            )
        try:
            # loads its code, which must not happen while the stream waits
            algorithms[number](*self.device.spare())()
        except cublasLt.cuBLASLtError as error:
            raise Refused(
                "not_supported", f"the heuristic of cuBLASLt offers it, and it is refused: {error}"
            ) from None
        self.device.stream.synchronize()
        return Launch(algorithms[number])
