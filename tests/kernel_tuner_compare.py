"""How fast our sweep passes configurations beside Kernel Tuner: same kernel, configurations, problem and samples, on a GPU, in one run.

    python tests/kernel_tuner_compare.py                                          110 configurations of rung 06
    python tests/kernel_tuner_compare.py --kernel cuda/08_padded_shared --parameters '{}'      those it is swept over anyway

Needs the pipeline's environment and Kernel Tuner (`pip install kernel-tuner`), which the lock does not have. `--backend` is its back end:
`nvcuda` (cuda-bindings and NVRTC), `pycuda` (nvcc) or `cupy`. Both compile, check the result of every configuration and take
`--samples` single launches of it. Ours compiles in `--cores` processes and times a reference beside each sample too; the wall time of
all of it counts on either side, and the parts are shown; the CUDA cache, which NVRTC uses too, is empty at the start. Exit status 1 where
ours is less than twice as fast. Adds the run to the list in results/kernel_tuner.json.
"""

import argparse
import importlib.metadata
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "workflow"))

from ladder import campaign, environment, records  # noqa: E402
from ladder.compile import compile_kernel, compile_support  # noqa: E402
from ladder.devices import host_operands  # noqa: E402
from ladder.kernels import Configuration, Kernel, discover  # noqa: E402
from ladder.measure import Job, run  # noqa: E402

LEAST = 2.0
MANY = {"BM": [32, 64, 128, 256], "BN": [32, 64, 128, 256], "BK": [8, 16, 32], "TM": [4, 8], "TN": [4, 8]}
BLOCK = ["block_size_x", "block_size_y", "block_size_z"]


def ours(given: argparse.Namespace, gpu: environment.Device, folder: Path) -> dict[str, Any]:
    """Compile and measure by the pipeline's own job."""
    data = {
        "campaign": "compare", "problems": {"cuda": [{"square": given.size}]}, "kernels": [given.kernel],
        "parameters": {given.kernel: given.parameters},
        "measure": {"min_samples": given.samples, "max_samples": given.samples, "sample_us": 0, "race": False},
    }  # fmt: skip
    plan = campaign.load(data, "the comparison", discover(ROOT))
    support = folder / "support.bin"
    support.write_bytes(compile_support("cuda", gpu.arch))  # once a device, not for every sweep
    start = time.perf_counter()
    binaries = folder / "build"
    rows = compile_kernel(plan.kernels[given.kernel], plan.configurations[given.kernel], gpu.arch, binaries, given.cores)
    compiled = time.perf_counter()
    job = Job(
        device=gpu.slug, kind="cuda", plan=plan.plan("cuda", f"{given.kernel.split('/')[1]}.float32"),
        binaries={row.slug: vars(row) for row in rows}, folder=binaries, support=support, fingerprint={}, code="",
    )  # fmt: skip
    run(job, folder / "samples.journal", folder / "samples.parquet", gpu.uuids)
    end = time.perf_counter()
    measured, _ = records.read(folder / "samples.parquet")
    correct = [row for row in measured if row["status"] == "correct"]
    best = max(correct, key=lambda row: 1 / np.median(row["samples_us"]))
    return {"configurations": len(correct), "wall_s": end - start, "compile_s": compiled - start, "measure_s": end - compiled,
            "best": best["configuration"], "best_us": float(np.median(best["samples_us"]))}  # fmt: skip


def theirs(given: argparse.Namespace, kernel: Kernel, configurations: list[Configuration]) -> dict[str, Any]:
    """The same by Kernel Tuner; its one tunable parameter says which configuration, since ours have conditions and blocks of their own."""
    import kernel_tuner

    if given.backend == "pycuda":  # it looks for nvcc and libcudadevrt there
        tools = Path(environment.nvcc()).resolve().parent
        os.environ["PATH"] = f"{tools}:{os.environ['PATH']}"
        libraries = next((path for path in (tools.parent / "lib64", tools.parent / "lib") if path.exists()), tools)
        os.environ["LD_LIBRARY_PATH"] = f"{libraries}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    problem = campaign.Problem(given.size, given.size, given.size)
    a, b, _ = host_operands(problem)
    expected = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    shapes = [kernel.launches(configuration, problem.names()) for configuration in configurations]
    if any(len(launches) != 1 for launches in shapes):
        sys.exit(f"{kernel.id} takes several launches; Kernel Tuner times one")
    first = [launches[0] for launches in shapes]
    m, n, k = (np.int32(given.size) for _ in range(3))
    one, zero = np.float32(1), np.float32(0)
    allowed = [(index, *shape.block) for index, shape in enumerate(first)]
    parameters = {"which": list(range(len(first)))} | {
        name: sorted({shape.block[axis] for shape in first}) for axis, name in enumerate(BLOCK)
    }
    start = time.perf_counter()
    results, _ = kernel_tuner.tune_kernel(
        "gemm",
        lambda chosen: kernel.source(configurations[chosen["which"]]),
        lambda chosen: first[chosen["which"]].grid,
        [m, n, k, one, a, k, b, n, zero, np.zeros((given.size, given.size), np.float32), n],
        parameters,
        grid_div_x=[], grid_div_y=[], grid_div_z=[],
        restrictions=[f"(which, {', '.join(BLOCK)}) in {allowed}"],
        answer=[None] * 9 + [expected, None],
        atol=1e-3 * given.size**0.5,
        lang=given.backend.upper(),
        defines={},
        smem_args={"size": lambda chosen: first[chosen["which"]].dynamic_shared},
        compiler_options=["-std=c++17", f"-I{ROOT / 'kernels' / 'include'}"],
        iterations=given.samples,
        quiet=True,
    )  # fmt: skip
    wall = time.perf_counter() - start
    timed = [result for result in results if isinstance(result["time"], float)]
    best = min(timed, key=lambda result: float(np.median(result["times"])))
    parts = {
        f"{part}_s": sum(result[f"{part}_time"] for result in timed) / 1e3 for part in ("compile", "verification", "benchmark")
    }
    return {"configurations": len(timed), "wall_s": wall, **parts, "best": configurations[best["which"]].label,
            "best_us": float(np.median(best["times"])) * 1e3, "version": importlib.metadata.version("kernel_tuner")}  # fmt: skip


def main() -> None:
    """Run both, ours first and last, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="cuda/06_vectorized_loads")
    parser.add_argument(
        "--parameters", type=json.loads, default=MANY, help="the values of parameters, as in a campaign; default: %(default)s"
    )
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--backend", choices=["nvcuda", "pycuda", "cupy"], default="nvcuda")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)), help="processes that compile ours")
    given = parser.parse_args()
    os.environ["CUDA_CACHE_PATH"] = tempfile.mkdtemp(prefix="kernel-tuner-compare-")
    gpu, kernel = environment.detect_gpus()[0], discover(ROOT)[given.kernel]
    legal = [configuration for configuration, objection in kernel.expand(given.parameters, ["float32"]) if not objection]
    passes = []
    for _ in range(2):  # before and after theirs: neither profits from what the other warmed up
        folder = Path(tempfile.mkdtemp(prefix="kernel-tuner-compare-"))
        try:
            passes.append(ours(given, gpu, folder))
        finally:
            shutil.rmtree(folder)
        if len(passes) == 1:
            other = theirs(given, kernel, legal)
    mine = max(passes, key=lambda found: float(found["wall_s"]))
    if mine["configurations"] != other["configurations"]:
        sys.exit(f"not the same configurations: ours {mine['configurations']}, Kernel Tuner's {other['configurations']}")
    per_second = [found["configurations"] / found["wall_s"] for found in (mine, other)]
    for name, found in (("ours, the slower of two passes", mine), (f"Kernel Tuner, {given.backend}", other)):
        parts = ", ".join(f"{key[:-2]} {value:.2f} s" for key, value in found.items() if key.endswith("_s"))
        print(f"{name}: {found['configurations']} configurations, {parts}; best {found['best']} {found['best_us']:.1f} us")
    faster = per_second[0] / per_second[1]
    without = (other["wall_s"] - other["compile_s"]) / mine["measure_s"]
    print(f"ours is {faster:.2f} times as fast (at least {LEAST:g}); {without:.2f} times without compiling")
    result = {
        "device": gpu.name,
        **vars(given),
        "ours": passes,
        "kernel_tuner": other,
        "faster": faster,
        "faster_without_compiling": without,
    }
    shutil.rmtree(os.environ["CUDA_CACHE_PATH"])
    path = ROOT / "results" / "kernel_tuner.json"
    path.parent.mkdir(exist_ok=True)
    runs = json.loads(path.read_text()) if path.exists() else []
    path.write_text(json.dumps([*runs, result | environment.project_state()], indent=1) + "\n")
    sys.exit(int(faster < LEAST))


if __name__ == "__main__":
    main()
