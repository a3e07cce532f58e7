"""cuBLAS through nvmath-python, in PyCUDA's context and on its stream.

cuBLAS takes column-major matrices. A row-major matrix read as column-major is its transpose, and `C
= A*B` is the same as `C^T = B^T*A^T`. So A and B change places, as do M and N, and what is a
transpose stays one: A lies in memory as cuBLAS takes it, or as the transpose of that.
"""

from collections.abc import Mapping
from functools import cached_property, partial
from importlib import import_module
from typing import Any

import numpy as np

from ladder.core.types import ELEMENT_TYPES, OF_8_BITS
from ladder.devices.base import Launch, Refused
from ladder.devices.cublaslt import Matmul, cublasLt, operations
from ladder.devices.cuda import Cuda
from ladder.devices.cuda_operands import Apart
from ladder.devices.operands import scalars
from ladder.model.baselines import TYPES_OF
from ladder.model.problem import Problem

cublas = import_module("nvmath.bindings.cublas")
WORKSPACE_BYTES = 32 << 20
"""NVIDIA's recommendation for Hopper (cuBLAS documentation, cublasSetWorkspace)."""
HANDLES = {"handle", "strict", "emulating"}
"""The handles of cuBLAS, of which those exist that a launch has needed."""
_DATA = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14} | dict.fromkeys(OF_8_BITS, 28)
"""Values of `cudaDataType` (library_types.h) for A and B."""


_COMPUTE = {"cublas_tf32": "COMPUTE_32F_FAST_TF32", "cublas_bf16x9": "COMPUTE_32F_EMULATED_16BFX9"}
"""The arithmetic of the baselines that do not have their element type's."""


def _compute(element_type: str, name: str = "") -> int:
    """Return the value of `cublasComputeType_t` for a baseline on an element type."""
    usual = "COMPUTE_64F" if element_type == "float64" else "COMPUTE_32F"
    return int(cublas.ComputeType[_COMPUTE.get(name, usual)])


class Cublas:
    """cuBLAS handles on the device's stream. They live as long as the process."""

    def __init__(self, device: Cuda) -> None:
        self.device, self.sms = device, 0
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
    def emulating(self) -> int:
        """A handle that emulates whenever it can, whether that is faster or not."""
        handle = self._handle()
        cublas.set_emulation_strategy(handle, int(cublas.EmulationStrategy.EAGER))
        return handle

    @cached_property
    def light(self) -> int:
        """The handle of cuBLASLt."""
        handle: int = cublasLt.create()
        return handle

    def limit(self, sms: int) -> None:
        """Let launches that are made from now on use so many multiprocessors; 0 for all (cuBLAS
        documentation, cublasSetSmCountTarget).
        """
        changed, self.sms = sms != self.sms, sms
        for name in HANDLES & vars(self).keys() if changed else ():
            cublas.set_sm_count_target(vars(self)[name], sms)

    def version(self) -> str:
        """Return the library's version: `13.1.0`."""
        number = cublas.get_version(self.handle)
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def launch(self, name: str, parameters: Mapping[str, int]) -> Launch:
        """Return the launch of a baseline. Raises `Refused` for an element type that it does not
        have, or an algorithm that is not offered.

        `cublas` uses the element type's own arithmetic. For elements of 16 bits that means sums in
        float, but parts of K may be added up in 16 bits; `cublas_fp32_sums` forbids that (cuBLAS
        documentation, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION). `cublas_tf32` uses
        FAST_TF32, and `cublas_bf16x9` nine products of bfloat16 for one of float32, if the library
        does that on this device. `cublaslt_best` is `cublas`, or with parameters that algorithm of
        cuBLASLt. In 8 bits, which cublasGemmEx does not have, `cublas` is the first algorithm of
        cuBLASLt's heuristic, and `cublas_fast_accum` the same with sums on the tensor cores
        (CUBLASLT_MATMUL_DESC_FAST_ACCUM). It takes the layout nt alone.
        """
        p = self.device.given
        if p.element_type not in TYPES_OF.get(name, _DATA):
            raise Refused(
                "not_supported", f"{name} has the element types {', '.join(TYPES_OF[name])}"
            )
        if p.element_type in OF_8_BITS:
            if p.layout != "nt":
                raise Refused("not_supported", "cuBLASLt has the layout nt only for 8 bits")
            parameters = parameters or {"ALGORITHM": 0}
        if parameters:
            return self._by(parameters, fast=name == "cublas_fast_accum")
        handle = self.handle
        if name == "cublas_fp32_sums":
            handle = self.strict
        elif name == "cublas_bf16x9":
            handle = self.emulating
        sizes = (p.m, p.n, p.k, p.lda, p.ldb, p.ldc)
        alpha, beta = (np.array([value]) for value in scalars(p))
        batch = (p.batch, *p.strides)
        gemm = partial(
            self._gemm,
            handle,
            _DATA[p.element_type],
            _compute(p.element_type, name),
            operations(p),
            sizes,
            batch,
            alpha,
            beta,
        )
        return Launch(lambda *addresses: partial(gemm, *addresses))

    def product64(
        self,
        m: int,
        n: int,
        k: int,
        alpha: float,
        a: Any,
        b: Any,
        beta: float,
        c: Any,
        count: int = 1,
    ) -> None:
        """Queue `C <- alpha*A*B + beta*C` in float64 on dense row-major device arrays A (m x k), B
        (k x n) and C (m x n), each `count` matrices one after another.
        """
        self._gemm(
            self.handle,
            _DATA["float64"],
            _compute("float64"),
            operations(Problem(m, n, k)),
            (m, n, k, k, n, n),
            (count, m * k, k * n, m * n),
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
        how: tuple[int, int],
        sizes: tuple[int, ...],
        batch: tuple[int, ...],
        alpha: Any,
        beta: Any,
        a: int,
        b: int,
        c: int,
    ) -> None:
        m, n, k, lda, ldb, ldc = sizes
        count, stride_a, stride_b, stride_c = batch
        # B before A, N before M: see the module's docstring
        left, right, result = (b, data, ldb), (a, data, lda), (c, data, ldc)
        before, after = (handle, *how, n, m, k, alpha.ctypes.data), (compute, -1)
        factor = beta.ctypes.data
        if count == 1:
            cublas.gemm_ex(*before, *left, *right, factor, *result, *after)
            return
        of_left, of_right = (*left, stride_b), (*right, stride_a)
        cublas.gemm_strided_batched_ex(
            *before, *of_left, *of_right, factor, *result, stride_c, count, *after
        )

    def cublaslt(self, fast: bool = False) -> Matmul:
        """Return the present problem as cuBLASLt takes it, with `fast` accumulation or without."""
        given = ELEMENT_TYPES[self.device.given.element_type]
        scale = _DATA["float64" if given.name == "float64" else "float32"]
        types = _compute(given.name), scale, _DATA[given.name], _DATA[given.of_c.name]
        workspace = int(self.workspace), WORKSPACE_BYTES
        return Matmul(self.device, self.light, workspace, types, fast)

    def _by(self, parameters: Mapping[str, int], fast: bool = False) -> Launch:
        """Return the launch of the heuristic's algorithm with the number `ALGORITHM`, or of the one
        with all these parameters. Raises `Refused` if there is none, or cuBLASLt refuses what it
        has offered.
        """
        problem = self.cublaslt(fast)
        if "ALGORITHM" in parameters:
            offered = problem.offered()
            if parameters["ALGORITHM"] >= len(offered):
                raise Refused(
                    "not_supported", f"the heuristic of cuBLASLt offers {len(offered)} algorithms"
                )
            algorithm = offered[parameters["ALGORITHM"]]
        elif (algorithm := problem.made(parameters)) is None:
            raise Refused("not_supported", "cuBLASLt does not run this algorithm on the problem")
        bind = partial(problem.bind, algorithm)
        try:
            # loads its code, which must not happen while the stream waits
            bind(*self.device.first())()
        except cublasLt.cuBLASLtError as error:
            raise Refused(
                "not_supported", f"cuBLASLt offers this algorithm and refuses it: {error}"
            ) from None
        self.device.stream.synchronize()
        return Launch(bind)
