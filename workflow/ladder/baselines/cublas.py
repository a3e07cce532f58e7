"""cuBLAS through nvmath-python, in PyCUDA's context and on its stream.

cuBLAS takes column-major matrices. A row-major matrix read as column-major is its transpose, and `C = A*B` is the same as
`C^T = B^T*A^T`: so the operands change places and M and N too, and nothing is transposed in memory.
"""

from typing import Any

import numpy as np
import nvmath
import pycuda.driver as cuda
from nvmath.bindings import cublas

from ladder.devices import Launch, Refused, scalars
from ladder.devices.cuda import Cuda

WORKSPACE_BYTES = 32 << 20
"""What NVIDIA recommends for Hopper (cuBLAS documentation, cublasSetWorkspace)."""
_DATA = {"float32": "CUDA_R_32F", "float64": "CUDA_R_64F", "float16": "CUDA_R_16F"}
_COMPUTE = {"float32": "COMPUTE_32F", "float64": "COMPUTE_64F", "float16": "COMPUTE_32F"}


class Cublas:
    """A cuBLAS handle on the device's stream."""

    def __init__(self, device: Cuda) -> None:
        self.device = device
        self.handle = cublas.create()
        self.workspace = cuda.mem_alloc(WORKSPACE_BYTES)
        cublas.set_stream(self.handle, device.stream.handle)
        cublas.set_workspace(self.handle, int(self.workspace), WORKSPACE_BYTES)

    def version(self) -> str:
        """The library's version: `13.1.0`."""
        number = cublas.get_version(self.handle)
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def launch(self, name: str) -> Launch:
        """`cublas` (the element type's own arithmetic, half accumulated in float) or `cublas_tf32` (FAST_TF32, float32 only)."""
        p = self.device.given
        if name == "cublas_tf32" and p.element_type != "float32":
            raise Refused("not_supported", "TF32 is an arithmetic of float32 operands")
        compute = "COMPUTE_32F_FAST_TF32" if name == "cublas_tf32" else _COMPUTE[p.element_type]
        alpha, beta = (np.array([value], np.float64 if p.element_type == "float64" else np.float32) for value in scalars(p))
        data = _DATA[p.element_type]
        sizes = (p.m, p.n, p.k, p.lda, p.ldb, p.ldc)
        return Launch(
            lambda: self._gemm(data, compute, sizes, alpha, int(self.device.a), int(self.device.b), beta, int(self.device.c))
        )

    def product64(self, m: int, n: int, k: int, alpha: float, a: Any, b: Any, beta: float, c: Any) -> None:
        """Queue `C <- alpha*A*B + beta*C` in float64 on dense row-major device arrays A (m x k), B (k x n) and C (m x n)."""
        factors = np.array([alpha]), np.array([beta])
        self._gemm("CUDA_R_64F", "COMPUTE_64F", (m, n, k, k, n, n), factors[0], int(a), int(b), factors[1], int(c))

    def _gemm(self, data: str, compute: str, sizes: tuple[int, ...], alpha: Any, a: int, b: int, beta: Any, c: int) -> None:
        m, n, k, lda, ldb, ldc = sizes
        plain, kind = int(cublas.Operation.N), int(nvmath.CudaDataType[data])
        # B before A, N before M: see the module's docstring
        cublas.gemm_ex(
            self.handle, plain, plain, n, m, k, alpha.ctypes.data, b, kind, ldb, a, kind, lda,
            beta.ctypes.data, c, kind, ldc, int(cublas.ComputeType[compute]), -1,
        )  # fmt: skip

    def close(self) -> None:
        cublas.destroy(self.handle)
        self.workspace.free()
