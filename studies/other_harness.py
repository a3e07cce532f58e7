"""The other harness of `studies/agreement.py`: times cubins and cuBLAS by CuPy and PyTorch. It imports nothing of ours.

python3 studies/other_harness.py ROWS.json      writes theirs.json beside it
"""

import ctypes
import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cupy
import numpy as np
import torch
from cupyx.profiler import benchmark

GRAPH_US = 20000.0
"""Launches of a graph take together about this long: beside it, what the host needs to launch the
graph is nothing.
"""
WORKSPACE_BYTES = 32 << 20
"""What NVIDIA recommends for Hopper (cuBLAS documentation, cublasSetWorkspace); ours gives it as
much.
"""


def cublas_loaded() -> list[str]:
    """The cuBLAS libraries that this process has loaded."""
    with Path("/proc/self/maps").open() as file:
        return sorted({line.split()[-1] for line in file if "/libcublas.so" in line})


class Cublas:
    """A cuBLAS handle on PyTorch's stream of the moment, through PyTorch's library."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(cublas_loaded()[0])
        self.handle, self.factors = ctypes.c_void_p(), (ctypes.c_float(1), ctypes.c_float(0))
        self.ask("cublasCreate_v2", ctypes.byref(self.handle))
        self.workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")

    def ask(self, function: str, *arguments: Any) -> None:
        """Call one of its functions; exits where it does not succeed."""
        if status := self.library[function](*arguments):
            sys.exit(f"{function}: status {status}")

    def gemm(self, n: int, a: int, b: int, c: int) -> None:
        """C <- A B on n x n row-major matrices in float32, by the call that ours makes
        (cublasGemmEx, cuBLAS's own choice of algorithm).
        """
        pointer = ctypes.c_void_p
        self.ask(
            "cublasSetStream_v2", self.handle, pointer(torch.cuda.current_stream().cuda_stream)
        )
        self.ask(
            "cublasSetWorkspace_v2",
            self.handle,
            pointer(self.workspace.data_ptr()),
            ctypes.c_size_t(WORKSPACE_BYTES),
        )
        # CUBLAS_OP_N is 0, CUDA_R_32F 0, CUBLAS_COMPUTE_32F 68, CUBLAS_GEMM_DEFAULT -1; column by
        # column C^T = B^T A^T
        alpha, beta = (ctypes.byref(factor) for factor in self.factors)
        operands = alpha, pointer(b), 0, n, pointer(a), 0, n, beta, pointer(c), 0, n
        self.ask("cublasGemmEx", self.handle, 0, 0, n, n, n, *operands, 68, -1)


def cublas_versions() -> list[str]:
    """Of the cuBLAS libraries that this process has loaded."""
    versions = []
    for path in cublas_loaded():
        number, parts = ctypes.c_int(), []
        for part in range(3):  # MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL
            ctypes.CDLL(path).cublasGetProperty(part, ctypes.byref(number))
            parts.append(str(number.value))
        versions.append(".".join(parts))
    return versions


def operands(n: int, count: int) -> list[tuple[Any, Any, Any]]:
    """A, B and C, n x n in float32, so many times; A and B uniform on [-1, 1)."""
    generator = torch.Generator("cuda").manual_seed(1)

    def drawn() -> Any:
        return torch.rand((n, n), device="cuda", generator=generator) * 2 - 1

    return [(drawn(), drawn(), torch.empty((n, n), device="cuda")) for _ in range(count)]


def graph_us(calls: Sequence[Callable[[], None]], launches: int) -> float:
    """The median time of a launch in microseconds: `launches` in a graph, which take the calls in
    turn, on the stream of the moment.
    """
    stream = torch.cuda.current_stream()
    for call in calls:
        call()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for turn in range(launches):
            calls[turn % len(calls)]()
    times = benchmark(graph.replay, n_repeat=50, n_warmup=10).gpu_times
    return float(np.median(times)) * 1e6 / launches


def medians(row: dict[str, Any], blas: Cublas) -> dict[str, float]:
    """The medians of a candidate in microseconds, by mode; exits where its result is wrong here."""
    n, how = row["size"], row["how"]
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    # when a copy's turn comes again, the others have filled the L2 twice
    sets = operands(n, 1 + math.ceil(2 * l2 / (3 * 4 * n * n)))
    function = None
    if "cubin" in how:
        function = cupy.RawModule(path=how["cubin"]).get_function("gemm")
        if how["shared"] > 48 << 10:
            function.max_dynamic_shared_size_bytes = how["shared"]

    def call_on(a: Any, b: Any, c: Any) -> Callable[[], None]:
        at_a, at_b, at_c = (np.uint64(matrix.data_ptr()) for matrix in (a, b, c))
        size, alpha, beta = np.int32(n), np.float32(1), np.float32(0)
        sizes = size, size, size
        arguments = *sizes, alpha, at_a, size, at_b, size, beta, at_c, size

        def call() -> None:
            if function is None:
                blas.gemm(n, *(matrix.data_ptr() for matrix in (a, b, c)))
            else:
                with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
                    function(
                        tuple(how["grid"]), tuple(how["block"]), arguments, shared_mem=how["shared"]
                    )

        return call

    calls = [call_on(*matrices) for matrices in sets]
    a, b, c = sets[0]
    calls[0]()
    torch.cuda.synchronize()
    expected = torch.mm(a.double(), b.double()) if n <= 2048 else torch.mm(a, b)
    worst = float((c.double() - expected).abs().max())
    if not worst < 1e-3 * math.sqrt(n):
        sys.exit(f"{row['name']} at {n} is wrong here by {worst}: it is not the same launch")
    del expected
    torch.cuda.empty_cache()
    launches = max(1, math.ceil(GRAPH_US / row["ours"]["warm"]))
    turns = len(calls) * math.ceil(launches / len(calls))
    return {"warm": graph_us(calls[:1], launches), "cold": graph_us(calls, turns)}


def main(path: Path) -> None:
    """Time every row, and write."""
    torch.backends.cuda.matmul.allow_tf32 = False
    blas, stream = Cublas(), torch.cuda.Stream()
    # everything on a new stream: a process that uses two pays more between kernels
    with torch.cuda.stream(stream), cupy.cuda.ExternalStream(stream.cuda_stream):
        rows = [medians(row, blas) for row in json.loads(path.read_text())]
    software = {
        "cupy": cupy.__version__,
        "torch": torch.__version__,
        "torch's cuda": torch.version.cuda,
        "their cublas": ", ".join(cublas_versions()),
    }
    path.with_name("theirs.json").write_text(json.dumps({"software": software, "rows": rows}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
