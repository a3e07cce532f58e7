"""Whether an independent harness measures what ours does: cuBLAS and two rungs at three sizes, on a GPU.

    python3 tests/agreement.py --python .venv/bin/python

This process needs CuPy, PyTorch and Triton, which the lock does not have, and nothing of ours; `--python` is an interpreter that runs the
pipeline (this one, if not given). There a child times the contestants by our harness and leaves cubins and launch shapes in
results/agreement/; here they are loaded and timed again:

- warm: `cupyx.profiler.benchmark` on a CUDA graph of launches back to back. This decides: the exit status is 1 where a median differs by
  more than 2 %. cuBLAS is the one that PyTorch brings, whose version is printed beside ours.
- cold: `triton.testing.do_bench`, single launches after its own flush of the L2, beside ours with `sample_us: 0`, single launches
  after a flush too. Both hold the overhead of a launch. Shown and written, for context.

Each is timed beside itself, so that both harnesses give the device the same load. Writes results/agreement.json.
"""

import argparse
import ctypes
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "results" / "agreement"
WITHIN = 0.02
SIZES = (512, 2048, 8192)
RUNGS = ("cuda/03_shared_tile", "cuda/10_block_tile_128")
GRAPH_US = 20000.0
"""Launches of a graph take together about this long: beside it, what the host needs to launch the graph is nothing."""


def ours(sizes: list[int]) -> None:
    """Time the contestants by our harness; writes the medians, cubins and launch shapes."""
    sys.path.insert(0, str(ROOT / "workflow"))
    from ladder import environment, kernels, timing, verify
    from ladder.campaign import Limits, Problem
    from ladder.compile import compile_kernel, compile_support
    from ladder.kernels import Configuration
    from ladder.statistics import median_interval
    from ladder.worker import open_device

    FOLDER.mkdir(parents=True, exist_ok=True)
    gpu = environment.detect_gpus()[0]
    (FOLDER / "support.bin").write_bytes(compile_support("cuda", gpu.arch))
    device = open_device("cuda", gpu.uuids[0], FOLDER / "support.bin")
    known, rows = kernels.discover(ROOT), []
    for size in sizes:
        problem = Problem(size, size, size)
        device.problem(problem)
        contestants: dict[str, Any] = {"cublas": (device.baseline("cublas"), {})}
        for name in RUNGS:
            kernel = known[name]
            chosen = Configuration("float32", tuple(kernel.parameters.items()))
            (row,) = compile_kernel(kernel, [(chosen, "")], gpu.arch, FOLDER / kernel.name, 1)
            cubin = FOLDER / kernel.name / row.binary
            (shape,) = kernel.launches(chosen, problem.names())
            how = {"cubin": str(cubin), "grid": shape.grid, "block": shape.block, "shared": shape.dynamic_shared}
            contestants[kernel.name] = device.kernel(kernel, chosen, cubin.read_bytes()), how
        for name, (launch, how) in contestants.items():
            verdict = verify.judge(device.check(launch), problem)
            if verdict.status != "correct":
                sys.exit(f"{name} at {size} is {verdict.status}: {verdict.reason}")
            medians = {}
            for state, sample_us in (("warm", 500.0), ("cold", 0.0)):
                limits = Limits(min_samples=30, max_samples=60, sample_us=sample_us, race=False)
                series = next(item[1] for item in timing.measure(device, {0: launch}, launch, state, limits, 0) if item)
                medians[f"{state}_us"] = median_interval(series.samples)[0]
            rows.append({"size": size, "name": name, **how, "ours": medians})
    library = getattr(device, "blas").version()  # noqa: B009 - of the CUDA device only
    (FOLDER / "ours.json").write_text(json.dumps({"device": gpu.name, "cublas": library, "rows": rows}))
    device.close()


def cublas_loaded() -> list[str]:
    """Versions of the cuBLAS libraries that this process has loaded."""
    with Path("/proc/self/maps").open() as file:
        paths = sorted({line.split()[-1] for line in file if "/libcublas.so" in line})
    versions = []
    for path in paths:
        number, parts = ctypes.c_int(), []
        for part in range(3):  # MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL
            ctypes.CDLL(path).cublasGetProperty(part, ctypes.byref(number))
            parts.append(str(number.value))
        versions.append(".".join(parts))
    return versions


def theirs(row: dict[str, Any]) -> dict[str, float]:
    """Time a contestant by CuPy's and Triton's harnesses, in microseconds."""
    import cupy
    import numpy as np
    import torch
    from cupyx.profiler import benchmark
    from triton.testing import do_bench

    torch.backends.cuda.matmul.allow_tf32 = False
    n = row["size"]
    a, b = (torch.rand((n, n), device="cuda", generator=torch.Generator("cuda").manual_seed(seed)) * 2 - 1 for seed in (1, 2))
    c = torch.empty((n, n), device="cuda")
    function = None
    if "cubin" in row:
        function = cupy.RawModule(path=row["cubin"]).get_function("gemm")
        if row["shared"] > 48 << 10:
            function.max_dynamic_shared_size_bytes = row["shared"]

    def call() -> None:
        if function is None:
            torch.mm(a, b, out=c)
            return
        pointers = [np.uint64(matrix.data_ptr()) for matrix in (a, b, c)]
        size, one, zero = np.int32(n), np.float32(1), np.float32(0)
        arguments = (size, size, size, one, pointers[0], size, pointers[1], size, zero, pointers[2], size)
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            function(tuple(row["grid"]), tuple(row["block"]), arguments, shared_mem=row["shared"])

    call()
    torch.cuda.synchronize()
    expected = torch.mm(a.double(), b.double()) if n <= 2048 else torch.mm(a, b)
    worst = float((c.double() - expected).abs().max())
    if not worst < 1e-3 * math.sqrt(n):
        sys.exit(f"{row['name']} at {n} is wrong here by {worst}: it is not the same launch")
    del expected
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), cupy.cuda.ExternalStream(stream.cuda_stream):
        call()
        stream.synchronize()
        launches = max(1, math.ceil(GRAPH_US / row["ours"]["warm_us"]))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(launches):
                call()
        times = benchmark(graph.replay, n_repeat=50, n_warmup=10).gpu_times
        warm = float(np.median(times)) * 1e6 / launches
    cold = do_bench(call, warmup=100, rep=300, return_mode="median") * 1e3
    return {"warm_us": warm, "cold_us": float(cold)}


def main() -> None:
    """Run both, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="an interpreter that runs the pipeline")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--ours", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.ours:
        ours(given.sizes)
        return
    import cupy
    import torch
    import triton

    sizes = [str(size) for size in given.sizes]
    subprocess.run([given.python, __file__, "--ours", "--sizes", *sizes], check=True)
    found = json.loads((FOLDER / "ours.json").read_text())
    torch.mm(*(torch.ones((2, 2), device="cuda") for _ in range(2)))
    versions = {"cupy": cupy.__version__, "torch": torch.__version__, "triton": triton.__version__, "torch_cuda": torch.version.cuda,
                "cublas": cublas_loaded()}  # fmt: skip
    print(f"{found['device']}; our cuBLAS {found['cublas']}; theirs: {versions}")
    print(f"{'size':>5} {'':22} {'state':5} {'ours, us':>12} {'theirs, us':>12} {'difference':>10}")
    worst = 0.0
    for row in found["rows"]:
        row["theirs"] = theirs(row)
        for state in ("warm", "cold"):
            mine, other = (row[who][f"{state}_us"] for who in ("ours", "theirs"))
            difference = mine / other - 1
            print(f"{row['size']:5} {row['name']:22} {state:5} {mine:12.3f} {other:12.3f} {difference:+10.2%}", flush=True)
            worst = max(worst, abs(difference)) if state == "warm" else worst
    print(f"largest difference, warm: {worst:.2%} (at most {WITHIN:.0%})")
    (ROOT / "results" / "agreement.json").write_text(
        json.dumps({**found, "versions": versions, "worst_warm": worst, "within": WITHIN}, indent=1) + "\n"
    )
    sys.exit(int(worst > WITHIN))


if __name__ == "__main__":
    main()
