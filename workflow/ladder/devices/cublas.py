"""cuBLAS through nvmath-python, in PyCUDA's context and on its stream.

cuBLAS takes column-major matrices. A row-major matrix read as column-major is its transpose, and `C
= A*B` is the same as `C^T = B^T*A^T`. So A and B change places, as do M and N, and nothing is
transposed in memory.
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Any

import numpy as np

from ladder.devices.base import Call, Launch, Refused
from ladder.devices.cuda import Cuda
from ladder.devices.cuda_operands import Apart
from ladder.devices.operands import scalars
from ladder.model.baselines import ALGORITHMS, TYPES_OF


def _of_nvmath(*names: str) -> list[Any]:
    """Return modules of nvmath-python without what its packages import: all of NVIDIA's
    mathematical libraries, and more.

    These imports took longer than the rest of a worker's start.
    """
    for package in ("nvmath", "nvmath.bindings"):
        spec = find_spec(package)
        if spec and package not in sys.modules:
            sys.modules[package] = module_from_spec(spec)
    return [import_module(f"nvmath.{name}") for name in names]


cublas, cublasLt, _types = _of_nvmath("bindings.cublas", "bindings.cublasLt", "_utils")
WORKSPACE_BYTES = 32 << 20
"""NVIDIA's recommendation for Hopper (cuBLAS documentation, cublasSetWorkspace)."""
_DATA = {
    "float32": "CUDA_R_32F",
    "float64": "CUDA_R_64F",
    "float16": "CUDA_R_16F",
    "bfloat16": "CUDA_R_16BF",
}
_COMPUTE = {
    "float32": "COMPUTE_32F",
    "float64": "COMPUTE_64F",
    "float16": "COMPUTE_32F",
    "bfloat16": "COMPUTE_32F",
}


class Cublas:
    """cuBLAS handles on the device's stream."""

    def __init__(self, device: Cuda) -> None:
        self.device = device
        self.handle, self.strict, self.light = cublas.create(), cublas.create(), cublasLt.create()
        self.workspace = Apart(WORKSPACE_BYTES)
        for handle in (self.handle, self.strict):
            cublas.set_stream(handle, device.stream.handle)
            cublas.set_workspace(handle, int(self.workspace), WORKSPACE_BYTES)
        cublas.set_math_mode(self.strict, int(cublas.Math.DISALLOW_REDUCED_PRECISION_REDUCTION))

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
        compute = "COMPUTE_32F_FAST_TF32" if name == "cublas_tf32" else _COMPUTE[p.element_type]
        alpha, beta = (np.array([value]) for value in scalars(p))
        data = _DATA[p.element_type]
        sizes = (p.m, p.n, p.k, p.lda, p.ldb, p.ldc)
        if algorithm is not None:
            return self._launch_of(self._algorithms(data, compute, sizes, alpha, beta), algorithm)
        handle = self.strict if name == "cublas_fp32_sums" else self.handle
        return Launch(
            lambda a, b, c: partial(self._gemm, data, compute, sizes, alpha, a, b, beta, c, handle)
        )

    def product64(
        self, m: int, n: int, k: int, alpha: float, a: Any, b: Any, beta: float, c: Any
    ) -> None:
        """Queue `C <- alpha*A*B + beta*C` in float64 on dense row-major device arrays A (m x k), B
        (k x n) and C (m x n).
        """
        factors = np.array([alpha]), np.array([beta])
        self._gemm(
            "CUDA_R_64F",
            "COMPUTE_64F",
            (m, n, k, k, n, n),
            factors[0],
            int(a),
            int(b),
            factors[1],
            int(c),
        )

    def _gemm(
        self,
        data: str,
        compute: str,
        sizes: tuple[int, ...],
        alpha: Any,
        a: int,
        b: int,
        beta: Any,
        c: int,
        handle: Any = None,
    ) -> None:
        m, n, k, lda, ldb, ldc = sizes
        plain, kind = int(cublas.Operation.N), int(_types.CudaDataType[data])
        # B before A, N before M: see the module's docstring
        cublas.gemm_ex(
            handle or self.handle,
            plain,
            plain,
            n,
            m,
            k,
            alpha.ctypes.data,
            b,
            kind,
            ldb,
            a,
            kind,
            lda,
            beta.ctypes.data,
            c,
            kind,
            ldc,
            int(cublas.ComputeType[compute]),
            -1,
        )

    def _algorithms(
        self, data: str, compute: str, sizes: tuple[int, ...], alpha: Any, beta: Any
    ) -> list[Callable[[int, int, int], Call]]:
        """Return a function per algorithm of the heuristic that binds it to operands, the
        heuristic's favorite first.

        The heuristic is cublasLtMatmulAlgoGetHeuristic. The descriptors of the problem stay as long
        as the process: some hundred bytes.
        """
        m, n, k, lda, ldb, ldc = sizes
        kind, device = int(_types.CudaDataType[data]), self.device
        scale = int(_types.CudaDataType["CUDA_R_64F" if data == "CUDA_R_64F" else "CUDA_R_32F"])
        how = cublasLt.matmul_desc_create(int(cublas.ComputeType[compute]), scale)
        # B, A, C
        layouts = [
            cublasLt.matrix_layout_create(kind, *shape)
            for shape in ((n, k, ldb), (k, m, lda), (n, m, ldc))
        ]
        preference, wish = cublasLt.matmul_preference_create(), cublasLt.MatmulPreferenceAttribute
        wishes: dict[int, Any] = {
            int(wish.MAX_WORKSPACE_BYTES): np.array([WORKSPACE_BYTES], np.uint64)
        }
        # each launch of a sample has its own rows of B: all begin on a 16-byte boundary, or none
        # does
        alignment = min(16, device.given.names()["alignment"])
        for matrix in "ABCD":
            wishes[int(wish[f"MIN_ALIGNMENT_{matrix}_BYTES"])] = np.array([alignment], np.uint32)
        for attribute, value in wishes.items():
            cublasLt.matmul_preference_set_attribute(
                preference, attribute, value.ctypes.data, value.nbytes
            )
        heuristics, count = (
            np.zeros(ALGORITHMS, cublasLt.matmul_heuristic_result_dtype),
            np.zeros(1, np.int32),
        )
        cublasLt.matmul_algo_get_heuristic(
            self.light,
            how,
            *layouts,
            layouts[2],
            preference,
            ALGORITHMS,
            heuristics.ctypes.data,
            count.ctypes.data,
        )
        cublasLt.matmul_preference_destroy(preference)

        def bind_of(algorithm: Any) -> Callable[[int, int, int], Call]:
            return lambda a, b, c: (
                lambda: cublasLt.matmul(
                    self.light,
                    how,
                    alpha.ctypes.data,
                    b,
                    layouts[0],
                    a,
                    layouts[1],
                    beta.ctypes.data,
                    c,
                    layouts[2],
                    c,
                    layouts[2],
                    algorithm.ctypes.data,
                    int(self.workspace),
                    WORKSPACE_BYTES,
                    device.stream.handle,
                )
            )

        return [
            bind_of(heuristics[i : i + 1])
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

    def close(self) -> None:
        cublas.destroy(self.handle)
        cublas.destroy(self.strict)
        cublasLt.destroy(self.light)
        self.workspace.free()
