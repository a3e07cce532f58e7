"""How fast our sweep passes configurations beside Kernel Tuner: same kernel, configurations, problem and samples, on a GPU, in one run.

    .venv/bin/python studies/kernel_tuner_compare.py      on a GPU; about 6 minutes, most of them with one core

Needs Kernel Tuner beside the pipeline's environment (`pip install kernel-tuner`), which the lock does not have. It compiles by NVRTC (its
back end `nvcuda`), one configuration after the other; so does ours, with all cores or with one. Both check the result of every configuration
and take `--samples` single launches of it. Ours also puts every configuration through the gauntlet, and times a reference beside each sample;
the wall time of all of it counts on either side, and the parts are shown. Kernel Tuner has a process of its own for every case, and the
driver's cache, which saves it compiling from PTX, is empty then. Exit status 1 where ours is slower with all cores to compile.
"""

import importlib.metadata
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from ladder.claims.answers import STUDIES
from ladder.claims.study import command_line
from ladder.compiling import toolchain
from ladder.compiling.compile import compile_kernel, compile_support
from ladder.core.files import ROOT
from ladder.devices import detect
from ladder.devices.lock import first_gpu
from ladder.measuring import probe
from ladder.measuring.session import Job
from ladder.measuring.sweep import run
from ladder.model import campaign_file
from ladder.model.kernel import Configuration, Kernel
from ladder.model.kernel_file import discover
from ladder.model.problem import Problem
from ladder.storage import samples as records

MANY = {"BM": [32, 64, 128, 256], "BN": [32, 64, 128, 256], "BK": [8, 16, 32], "TM": [4, 8], "TN": [4, 8]}
FEW = {"BM": [64, 128], "BN": [32, 64], "BK": [8, 16, 32], "TM": [4], "TN": [4, 8]}
KERNEL = "cuda/06_vectorized_loads"
CASES = [(MANY, True), (MANY, False), (FEW, True)]
"""Parameters as in a campaign (those it is swept over anyway), and whether with all cores or with one."""
BLOCK = ["block_size_x", "block_size_y", "block_size_z"]


STUDY = STUDIES["kernel_tuner_compare"]


def ours(
    parameters: Mapping[str, Sequence[int]],
    gpu: detect.Device,
    facts: Mapping[str, Any],
    size: int,
    samples: int,
    cores: int,
) -> dict[str, Any]:
    """Compile and measure by the pipeline's own job; `facts` is `environment.json`."""
    data = {
        "campaign": "compare", "problems": {"cuda": [{"square": size}]}, "kernels": [KERNEL],
        "parameters": {KERNEL: parameters}, "compiler": "nvrtc",
        "measure": {"min_samples": samples, "max_samples": samples, "sample_us": 0, "race": False},
    }  # fmt: skip
    plan = campaign_file.load(data, "the comparison", discover(ROOT))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        support, binaries = folder / "support.bin", folder / "build"
        support.write_bytes(compile_support("cuda", gpu.arch))  # once a device, not for every sweep
        start = time.perf_counter()
        rows = compile_kernel(plan.kernels[KERNEL], plan.configurations[KERNEL], gpu.arch, binaries, cores)
        compiled = time.perf_counter()
        job = Job(
            device=gpu.slug, kind="cuda", plan=plan.plan("cuda", f"{KERNEL.split('/')[1]}.float32"),
            binaries={
                (row.kernel, row.element_type, row.configuration): vars(row) | {"binary": str(binaries / row.binary)} for row in rows
            },
            support=support, fingerprint={}, code="", environment=facts,
        )  # fmt: skip
        run(job, folder / "samples.journal", folder / "samples.parquet", gpu.uuids)
        end = time.perf_counter()
        measured, _ = records.read(folder / "samples.parquet")
    correct = [row for row in measured if row["status"] == "correct"]
    if not correct:
        sys.exit(
            f"none of {len(measured)} configurations is correct; of the first: {measured[0]['status']}, {measured[0]['reason']}"
        )
    best = min(correct, key=lambda row: float(np.median(row["samples_us"])))
    return {"configurations": len(correct), "wall_s": end - start, "compile_s": compiled - start, "measure_s": end - compiled,
            "best": best["configuration"], "best_us": float(np.median(best["samples_us"])),
            "binaries": {row.slug: row.sha256 for row in rows if row.sha256}}  # fmt: skip


def theirs(kernel: Kernel, configurations: Sequence[Configuration], size: int, samples: int, backend: str) -> dict[str, Any]:
    """The same by Kernel Tuner; its one tunable parameter says which configuration, since ours have conditions and blocks of their own."""
    import kernel_tuner

    if backend == "pycuda":  # it looks for nvcc and libcudadevrt there
        tools = Path(toolchain.nvcc()).resolve().parent
        os.environ["PATH"] = f"{tools}:{os.environ['PATH']}"
        libraries = next((path for path in (tools.parent / "lib64", tools.parent / "lib") if path.exists()), tools)
        os.environ["LD_LIBRARY_PATH"] = f"{libraries}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    problem = Problem(size, size, size)
    random = np.random.default_rng(0)
    a, b = (random.uniform(-1, 1, (size, size)).astype(np.float32) for _ in range(2))
    expected = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    shapes = [kernel.launches(configuration, problem.names()) for configuration in configurations]
    if any(len(launches) != 1 for launches in shapes):
        sys.exit(f"{kernel.id} takes several launches; Kernel Tuner times one")
    first = [launches[0] for launches in shapes]
    m, n, k = (np.int32(size) for _ in range(3))
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
        [m, n, k, one, a, k, b, n, zero, np.zeros((size, size), np.float32), n],
        parameters,
        grid_div_x=[], grid_div_y=[], grid_div_z=[],
        restrictions=[f"(which, {', '.join(BLOCK)}) in {allowed}"],
        answer=[None] * 9 + [expected, None],
        atol=1e-3 * size**0.5,
        lang=backend.upper(),
        defines={},
        smem_args={"size": lambda chosen: first[chosen["which"]].dynamic_shared},
        compiler_options=["-std=c++17", f"-I{ROOT / 'kernels' / 'include'}"],
        iterations=samples,
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
    """Run every case, ours before and after Kernel Tuner's, print and write."""
    parser = command_line(__doc__)
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument(
        "--cases", type=int, nargs="+", default=list(range(len(CASES))), help="numbers of cases; default: %(default)s"
    )
    given = parser.parse_args()
    gpu, runs = first_gpu(), []
    all_cores = len(os.sched_getaffinity(0))
    binaries: dict[str, str] = {}
    with tempfile.NamedTemporaryFile(suffix=".bin") as support:
        Path(support.name).write_bytes(compile_support("cuda", gpu.arch))
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:  # this process does not touch the device
            facts = pool.submit(probe.probe, gpu, gpu.uuids[0], Path(support.name)).result()
    kernel = discover(ROOT)[KERNEL]
    for parameters, several in (CASES[number] for number in given.cases):
        cores = all_cores if several else 1
        legal = [configuration for configuration, objection in kernel.expand(parameters, ["float32"]) if not objection]
        cache = os.environ["CUDA_CACHE_PATH"] = tempfile.mkdtemp(prefix="kernel-tuner-compare-")
        job = parameters, gpu, facts, given.size, given.samples, cores
        before = ours(*job)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:  # the driver looks once where its cache is
            other = pool.submit(theirs, kernel, legal, given.size, given.samples, "nvcuda").result()
        passes = [before, ours(*job)]  # neither profits from what the other warmed up
        shutil.rmtree(cache)
        binaries |= {f"{KERNEL} {slug}": sha256 for one in passes for slug, sha256 in one.pop("binaries").items()}
        mine = max(passes, key=lambda one: float(one["wall_s"]))
        if mine["configurations"] != other["configurations"]:
            sys.exit(f"not the same configurations: ours {mine['configurations']}, Kernel Tuner's {other['configurations']}")
        for who, one in (("ours, the slower of two passes", mine), ("Kernel Tuner", other)):
            parts = ", ".join(f"{key[:-2]} {value:.2f} s" for key, value in one.items() if key.endswith("_s"))
            print(
                f"{who}: {one['configurations']} configurations, {parts}; best {one['best']} {one['best_us']:.1f} us", flush=True
            )
        faster = {
            "faster": other["wall_s"] / mine["wall_s"],
            "faster_without_compiling": (other["wall_s"] - other["compile_s"]) / mine["measure_s"],
        }
        runs.append({"parameters": parameters, "cores": cores, "ours": passes, "kernel_tuner": other} | faster)
    STUDY.write(
        gpu,
        {"size": given.size, "samples": given.samples, "kernel": KERNEL, "runs": runs},
        uuids=[gpu.uuids[0]],
        binaries=binaries,
    )
    sys.exit(int(any(one["faster"] < 1 for one in runs if one["cores"] > 1)))


if __name__ == "__main__":
    main()
