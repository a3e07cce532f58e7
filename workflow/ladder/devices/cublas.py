"""cuBLAS through nvmath-python, in PyCUDA's context and on its stream.

cuBLAS takes column-major matrices. A row-major matrix read as column-major is its transpose, and `C = A*B` is the same as `C^T = B^T*A^T`. So
A and B change places, as do M and N, and nothing is transposed in memory.
"""

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Any

import numpy as np
import pycuda.driver as cuda

from ladder.devices.base import Call, Launch, Refused
from ladder.devices.cuda import Cuda
from ladder.devices.operands import scalars


def _of_nvmath(*names: str) -> list[Any]:
    """Return modules of nvmath-python without what its packages import: all of NVIDIA's mathematical libraries, and more.

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
_DATA = {"float32": "CUDA_R_32F", "float64": "CUDA_R_64F", "float16": "CUDA_R_16F", "bfloat16": "CUDA_R_16BF"}
_COMPUTE = {"float32": "COMPUTE_32F", "float64": "COMPUTE_64F", "float16": "COMPUTE_32F", "bfloat16": "COMPUTE_32F"}
MAX_ALGORITHMS = 256
"""More than the heuristic offers for any problem."""
CHOOSING_ROUNDS, CHOOSING_US, CHOOSING_LAUNCHES = 7, 300.0, 30
"""How algorithms are compared: samples of each, the least microseconds of a sample, and the most launches in it."""
CHOOSING_MARGIN = 1.2
"""An algorithm is timed again if its first launch takes at most this many times as long as the fastest first launch."""


class Cublas:
    """A cuBLAS handle on the device's stream."""

    def __init__(self, device: Cuda) -> None:
        self.device = device
        self.handle, self.light = cublas.create(), cublasLt.create()
        self.workspace = cuda.mem_alloc(WORKSPACE_BYTES)
        cublas.set_stream(self.handle, device.stream.handle)
        cublas.set_workspace(self.handle, int(self.workspace), WORKSPACE_BYTES)

    def version(self) -> str:
        """Return the library's version: `13.1.0`."""
        number = cublas.get_version(self.handle)
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def launch(self, name: str) -> Launch:
        """Return the launch of a baseline. Raises `Refused` for `cublas_tf32` with another element type than float32.

        `cublas` uses the element type's own arithmetic, with elements of 16 bits accumulated in float. `cublaslt_best` uses the same with
        the best algorithm, chosen by timing. `cublas_tf32` uses FAST_TF32.
        """
        p = self.device.given
        if name == "cublas_tf32" and p.element_type != "float32":
            raise Refused("not_supported", "TF32 is an arithmetic of float32 operands")
        compute = "COMPUTE_32F_FAST_TF32" if name == "cublas_tf32" else _COMPUTE[p.element_type]
        alpha, beta = (np.array([value]) for value in scalars(p))
        data = _DATA[p.element_type]
        sizes = (p.m, p.n, p.k, p.lda, p.ldb, p.ldc)
        if name == "cublaslt_best":
            return self._fastest(self._algorithms(data, compute, sizes, alpha, beta))
        return Launch(lambda a, b, c: partial(self._gemm, data, compute, sizes, alpha, a, b, beta, c))

    def product64(self, m: int, n: int, k: int, alpha: float, a: Any, b: Any, beta: float, c: Any) -> None:
        """Queue `C <- alpha*A*B + beta*C` in float64 on dense row-major device arrays A (m x k), B (k x n) and C (m x n)."""
        factors = np.array([alpha]), np.array([beta])
        self._gemm("CUDA_R_64F", "COMPUTE_64F", (m, n, k, k, n, n), factors[0], int(a), int(b), factors[1], int(c))

    def _gemm(self, data: str, compute: str, sizes: tuple[int, ...], alpha: Any, a: int, b: int, beta: Any, c: int) -> None:
        m, n, k, lda, ldb, ldc = sizes
        plain, kind = int(cublas.Operation.N), int(_types.CudaDataType[data])
        # B before A, N before M: see the module's docstring
        cublas.gemm_ex(
            self.handle, plain, plain, n, m, k, alpha.ctypes.data, b, kind, ldb, a, kind, lda,
            beta.ctypes.data, c, kind, ldc, int(cublas.ComputeType[compute]), -1,
        )  # fmt: skip

    def _algorithms(
        self, data: str, compute: str, sizes: tuple[int, ...], alpha: Any, beta: Any
    ) -> list[Callable[[int, int, int], Call]]:
        """Return a function per algorithm of the heuristic that binds it to operands, the heuristic's favorite first.

        The heuristic is cublasLtMatmulAlgoGetHeuristic. The descriptors of the problem stay as long as the process: some hundred bytes.
        """
        m, n, k, lda, ldb, ldc = sizes
        kind, device = int(_types.CudaDataType[data]), self.device
        scale = int(_types.CudaDataType["CUDA_R_64F" if data == "CUDA_R_64F" else "CUDA_R_32F"])
        how = cublasLt.matmul_desc_create(int(cublas.ComputeType[compute]), scale)
        layouts = [cublasLt.matrix_layout_create(kind, *shape) for shape in ((n, k, ldb), (k, m, lda), (n, m, ldc))]  # B, A, C
        preference, wish = cublasLt.matmul_preference_create(), cublasLt.MatmulPreferenceAttribute
        wishes: dict[int, Any] = {int(wish.MAX_WORKSPACE_BYTES): np.array([WORKSPACE_BYTES], np.uint64)}
        # each launch of a sample has its own rows of B: all begin on a 16-byte boundary, or none does
        alignment = min(16, device.given.names()["alignment"])
        for matrix in "ABCD":
            wishes[int(wish[f"MIN_ALIGNMENT_{matrix}_BYTES"])] = np.array([alignment], np.uint32)
        for attribute, value in wishes.items():
            cublasLt.matmul_preference_set_attribute(preference, attribute, value.ctypes.data, value.nbytes)
        heuristics, count = np.zeros(MAX_ALGORITHMS, cublasLt.matmul_heuristic_result_dtype), np.zeros(1, np.int32)
        cublasLt.matmul_algo_get_heuristic(
            self.light, how, *layouts, layouts[2], preference, MAX_ALGORITHMS, heuristics.ctypes.data, count.ctypes.data
        )
        cublasLt.matmul_preference_destroy(preference)

        def bind_of(algorithm: Any) -> Callable[[int, int, int], Call]:
            return lambda a, b, c: lambda: cublasLt.matmul(
                self.light, how, alpha.ctypes.data, b, layouts[0], a, layouts[1], beta.ctypes.data, c, layouts[2], c, layouts[2],
                algorithm.ctypes.data, int(self.workspace), WORKSPACE_BYTES, device.stream.handle,
            )  # fmt: skip

        return [bind_of(heuristics[i : i + 1]) for i in range(int(count[0])) if heuristics["state"][i] == 0]

    def _fastest(self, algorithms: list[Callable[[int, int, int], Call]]) -> Launch:
        """Return the launch of the algorithm with the lowest median time. Raises `Refused` if there is none."""
        addresses = self.device.spare()

        def timed(bind: Callable[[int, int, int], Call], times: int) -> float:
            call = bind(*addresses)

            def repeat() -> None:
                for _ in range(times):
                    call()

            (us,) = self.device.time_calls([repeat])
            return us / times

        first = {}
        for bind in algorithms:
            try:
                bind(*addresses)()  # loads its code, which must not happen while the stream waits
                self.device.stream.synchronize()
                first[bind] = timed(bind, 1)
            except cublasLt.cuBLASLtError:  # the heuristic offered it, and it is refused all the same
                continue
        if not first:
            raise Refused("not_supported", "the heuristic of cuBLASLt offers no algorithm")
        best = min(first.values())
        times = max(1, min(CHOOSING_LAUNCHES, int(CHOOSING_US / best)))
        left = [bind for bind, us in first.items() if us <= CHOOSING_MARGIN * best]
        samples = np.array([[timed(bind, times) for bind in left] for _ in range(CHOOSING_ROUNDS)])
        return Launch(left[int(np.median(samples, axis=0).argmin())])

    def close(self) -> None:
        cublas.destroy(self.handle)
        cublasLt.destroy(self.light)
        self.workspace.free()
