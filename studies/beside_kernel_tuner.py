"""Our sweep and our times beside those of Kernel Tuner, on a GPU.

    .venv/bin/python studies/beside_kernel_tuner.py compare     about 6 minutes, most of them with one core
    .venv/bin/python studies/beside_kernel_tuner.py times       about 2 minutes

Kernel Tuner is not in the lock: `pip install kernel-tuner` beside the pipeline's environment.

`compare`: how fast each passes the same configurations of a kernel on the same problem with the same samples. Kernel Tuner compiles by NVRTC
(its back end `nvcuda`), one configuration after the other; so does ours, with all cores or with one. Both check the result of every
configuration and take `--samples` single launches of it. Ours also puts every configuration through the gauntlet, and times a reference
beside each sample; the wall time of all of it counts on either side. Kernel Tuner has a process of its own for every case, and the driver's
cache, which saves it compiling from PTX, is empty then. Exit status 1 if ours is slower with all cores to compile.

`times`: why its times of a kernel are longer: one configuration, timed in every combination of what differs. Ours are launches of a graph on
a busy GPU. Kernel Tuner's (`benchmark_default` in its core.py) are single launches: it waits until the GPU is idle, records an event, makes
the call in Python, records another. Each level is timed beside ours in the same round, all others alike:

- launched: `graph`, ten launches in a graph; `queued`, ten single ones behind a gate that opens when all are queued, so that no time of the
  host's is between the events; `host`, ten as Kernel Tuner makes them, each after the one before is done;
- before: `busy`, the GPU computed until just before; `idle`, it rested, as while Kernel Tuner compiles and verifies;
- values: `random`; `constant`, all ones, which switch fewer transistors and draw less power;
- compiler: `nvcc`, the cubin that is published; `nvrtc`, PTX that the driver translates, as Kernel Tuner's back end `nvcuda` has it;
- place: `scattered`, operands begin anywhere, as ours do; `allocated`, where the driver's allocator puts them.

Its own times are taken too if Kernel Tuner is there.
"""

import importlib.metadata
import importlib.util
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from beside import Bench, median
from ladder.claims.answers import STUDIES
from ladder.claims.study import command_line
from ladder.compiling import toolchain
from ladder.compiling.compile import compile_kernel, compile_support
from ladder.core.files import ROOT
from ladder.core.stats import median_interval
from ladder.devices import detect
from ladder.devices.lock import first_gpu
from ladder.measuring import probe, verify
from ladder.measuring.session import Job
from ladder.measuring.supervisor import Child
from ladder.measuring.sweep import run
from ladder.model import campaign_file
from ladder.model.kernel import Configuration, Kernel
from ladder.model.kernel_file import discover
from ladder.model.problem import Problem
from ladder.storage import samples as records

MANY = {"BM": [32, 64, 128, 256], "BN": [32, 64, 128, 256], "BK": [8, 16, 32], "TM": [4, 8], "TN": [4, 8]}
FEW = {"BM": [64, 128], "BN": [32, 64], "BK": [8, 16, 32], "TM": [4], "TN": [4, 8]}
KERNEL = "cuda/06_vectorized_loads"
PARAMETERS = {"BM": 128, "BN": 128, "BK": 16, "TM": 8, "TN": 8}
"""What both find best of these."""
CASES = [(MANY, len(os.sched_getaffinity(0))), (MANY, 1), (FEW, len(os.sched_getaffinity(0)))]
"""Parameters as in a campaign (those it is swept over anyway), and with how many cores."""
BLOCK = ["block_size_x", "block_size_y", "block_size_z"]


def by_the_pipeline(
    parameters: Mapping[str, Sequence[int]],
    gpu: detect.DetectedDevice,
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
        first = measured[0]
        sys.exit(f"none of {len(measured)} configurations is correct; of the first: {first['status']}, {first['reason']}")
    best = min(correct, key=lambda row: float(np.median(row["samples_us"])))
    return {"configurations": len(correct), "wall_s": end - start, "compile_s": compiled - start, "measure_s": end - compiled,
            "best": best["configuration"], "best_us": float(np.median(best["samples_us"])),
            "binaries": {row.slug: row.sha256 for row in rows if row.sha256}}  # fmt: skip


def by_kernel_tuner(
    kernel: Kernel, configurations: Sequence[Configuration], size: int, samples: int, backend: str
) -> dict[str, Any]:
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
    alpha, beta = np.float32(1), np.float32(0)
    allowed = [(index, *shape.block) for index, shape in enumerate(first)]
    parameters = {"which": list(range(len(first)))} | {
        name: sorted({shape.block[axis] for shape in first}) for axis, name in enumerate(BLOCK)
    }
    start = time.perf_counter()
    results, _ = kernel_tuner.tune_kernel(
        "gemm",
        lambda chosen: kernel.source(configurations[chosen["which"]]),
        lambda chosen: first[chosen["which"]].grid,
        [m, n, k, alpha, a, k, b, n, beta, np.zeros((size, size), np.float32), n],
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


def compare(size: int, samples: int) -> None:
    """Run every case, ours before and after Kernel Tuner's."""
    gpu, kernel = first_gpu(), discover(ROOT)[KERNEL]
    runs: list[dict[str, Any]] = []
    binaries: dict[str, str] = {}
    with tempfile.NamedTemporaryFile(suffix=".bin") as support:
        Path(support.name).write_bytes(compile_support("cuda", gpu.arch))
        with closing(Child("cuda", gpu.uuids[0], Path(support.name), None)) as child:
            facts = probe.probe(gpu, child)
    for parameters, cores in CASES:
        legal = [configuration for configuration, objection in kernel.expand(parameters, ["float32"]) if not objection]
        cache = os.environ["CUDA_CACHE_PATH"] = tempfile.mkdtemp(prefix="kernel-tuner-compare-")
        job = parameters, gpu, facts, size, samples, cores
        before = by_the_pipeline(*job)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:  # the driver looks once where its cache is
            other = pool.submit(by_kernel_tuner, kernel, legal, size, samples, "nvcuda").result()
        passes = [before, by_the_pipeline(*job)]  # neither profits from what the other warmed up
        shutil.rmtree(cache)
        binaries |= {f"{KERNEL} {slug}": sha256 for each in passes for slug, sha256 in each.pop("binaries").items()}
        slower = max(passes, key=lambda each: float(each["wall_s"]))
        if slower["configurations"] != other["configurations"]:
            sys.exit(f"not the same configurations: ours {slower['configurations']}, Kernel Tuner's {other['configurations']}")
        runs.append({
            "parameters": parameters, "cores": cores, "ours": passes, "kernel_tuner": other,
            "faster": other["wall_s"] / slower["wall_s"],
            "faster_without_compiling": (other["wall_s"] - other["compile_s"]) / slower["measure_s"],
        })  # fmt: skip
        print(runs[-1], flush=True)
    measured = {"size": size, "samples": samples, "kernel": KERNEL, "runs": runs}
    STUDIES["kernel_tuner_compare"].write(gpu, measured, uuids=[gpu.uuids[0]], binaries=binaries)
    sys.exit(int(any(run["faster"] < 1 for run in runs if run["cores"] > 1)))


FACTORS: dict[str, tuple[str, ...]] = {
    "launched": ("graph", "queued", "host"),
    "before": ("busy", "idle"),
    "values": ("random", "constant"),
    "compiler": ("nvcc", "nvrtc"),
    "place": ("scattered", "allocated"),
}
"""The levels of what differs, ours first."""
LIKE_IT = {"launched": "host", "before": "idle", "values": "random", "compiler": "nvrtc", "place": "allocated"}
"""What Kernel Tuner's back end `nvcuda` does."""
LAUNCHES = 10
IDLE_SECONDS = 0.2
BUSY_US = 30e3
"""How long the GPU computes before launches that find it busy: clocks take tens of milliseconds to rise."""
Cell = tuple[str, ...]
"""A level of each factor."""


def effects(rounds: Sequence[Mapping[Cell, float]]) -> dict[str, dict[str, tuple[float, float, float]]]:
    """How many times as long launches take at each level as at ours, all else alike: median and 95 % interval over rounds and all else."""
    ours, ratios = tuple(levels[0] for levels in FACTORS.values()), {}
    for place, (factor, levels) in enumerate(FACTORS.items()):
        ratios[factor] = {
            level: median_interval(
                [
                    us / of_round[(*cell[:place], ours[place], *cell[place + 1 :])]
                    for of_round in rounds
                    for cell, us in of_round.items()
                    if cell[place] == level
                ]
            )
            for level in levels[1:]
        }
    return ratios


def ptx_of(source: str, arch: str) -> bytes:
    """PTX by NVRTC with the options that `compare` has Kernel Tuner use."""
    from cuda.bindings import nvrtc

    def value(result: tuple[Any, ...]) -> Any:
        if result[0] != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            sys.exit(f"NVRTC: {result[0]}")
        return result[1] if len(result) > 1 else None

    program = value(nvrtc.nvrtcCreateProgram(source.encode(), b"gemm.cu", 0, [], []))
    options = "-std=c++17", f"-I{ROOT / 'kernels' / 'include'}", f"--gpu-architecture={arch.replace('sm', 'compute')}"
    value(nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options]))
    ptx = b" " * int(value(nvrtc.nvrtcGetPTXSize(program)))
    value(nvrtc.nvrtcGetPTX(program, ptx))
    return ptx


class Cells:
    """One configuration on one problem, in every combination."""

    def __init__(self, device: Any, kernel: Kernel, chosen: Configuration, binaries: Mapping[str, bytes], size: int) -> None:
        import pycuda.driver as cuda
        from cuda.bindings import driver

        self.cuda, self.driver, self.device, self.size = cuda, driver, device, size
        problem = Problem(size, size, size)
        (self.shape,) = kernel.launches(chosen, {**problem.names(), **device.names})
        self.handles = {}
        self.problem, self.kernel, self.chosen, self.binaries = problem, kernel, chosen, binaries
        for name, binary in binaries.items():
            module = self._value(driver.cuModuleLoadData(np.char.array(binary)))
            self.handles[name] = self._value(driver.cuModuleGetFunction(module, b"gemm"))
            if self.shape.dynamic_shared > 48 << 10:
                attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                self._value(driver.cuFuncSetAttribute(self.handles[name], attribute, self.shape.dynamic_shared))
        self.bytes = 4 * size * size
        self.allocated = [cuda.mem_alloc(self.bytes) for _ in range(3)]
        self.random = [cuda.mem_alloc(self.bytes) for _ in range(2)]

    def _value(self, result: tuple[Any, ...]) -> Any:
        if result[0] != self.driver.CUresult.CUDA_SUCCESS:
            sys.exit(f"the driver: {result[0]}")
        return result[1] if len(result) > 1 else None

    def _as_kernel_tuner(self, name: str, addresses: Sequence[int]) -> Callable[[], None]:
        """A launch through cuda-bindings, whose arguments get their C types at every call."""
        pointers = [self.driver.CUdeviceptr(address) for address in addresses]
        n, alpha, beta = np.int32(self.size), np.float32(1), np.float32(0)
        arguments = [n, n, n, alpha, pointers[0], n, pointers[1], n, beta, pointers[2], n]
        stream, shape = self.driver.CUstream(self.device.stream.handle), self.shape

        def call() -> None:
            types = [None if isinstance(a, self.driver.CUdeviceptr) else np.ctypeslib.as_ctypes_type(a.dtype) for a in arguments]
            self._value(self.driver.cuLaunchKernel(
                self.handles[name], *shape.grid, *shape.block, shape.dynamic_shared, stream, (tuple(arguments), tuple(types)), 0
            ))  # fmt: skip

        return call

    def _host_us(self, call: Callable[[], None]) -> float:
        """The median of single launches, each made when the one before is done."""
        start, end, times = self.cuda.Event(), self.cuda.Event(), []
        for _ in range(LAUNCHES):
            self.cuda.Context.synchronize()
            start.record(self.device.stream)
            call()
            end.record(self.device.stream)
            while not end.query():
                time.sleep(1e-6)
            times.append(start.time_till(end) * 1e3)
        return float(np.median(times))

    def round(self, seed: int) -> dict[Cell, float]:
        """Every combination once, in random order: microseconds of a launch. The operands are new."""
        device, timed = self.device, {}
        operands = device.operands(self.problem)
        addresses = {"scattered": device.spare(), "allocated": tuple(map(int, self.allocated))}
        for saved, drawn in zip(self.random, addresses["scattered"], strict=False):
            self.cuda.memcpy_dtod(saved, drawn, self.bytes)
        launches = {name: device.kernel(self.kernel, self.chosen, binary) for name, binary in self.binaries.items()}
        for name, launch in launches.items():
            verdict = verify.judge(device.check(launch), self.problem)
            if verdict.status != "correct":
                sys.exit(f"{self.kernel.id} by {name} is {verdict.status}: {verdict.reason}")
        calls = {
            (name, place): launches[name].bind(*at) for name, place in product(launches, addresses) for at in [addresses[place]]
        }
        samples = {key: device._graph([call] * LAUNCHES, operands.graphs) for key, call in calls.items()}
        cells = list(product(*FACTORS.values()))
        for index in np.random.default_rng(seed).permutation(len(cells)):
            launched, before, values, compiler, place = cell = cells[index]
            for saved, matrix in zip(self.random, addresses[place], strict=False):
                if values == "random":
                    self.cuda.memcpy_dtod(matrix, saved, self.bytes)
                else:
                    self.cuda.memset_d32(matrix, 0x3F800000, self.bytes // 4)  # 1.0f
            graph = samples[compiler, place]
            (us,) = device.time_calls([graph])
            if before == "idle":
                time.sleep(IDLE_SECONDS)
            else:
                device.time_calls([graph] * max(1, round(BUSY_US / us)))
            if launched == "graph":
                us = device.time_calls([graph])[0] / LAUNCHES
            elif launched == "queued":
                us = float(np.median(device.time_calls([calls[compiler, place]] * LAUNCHES)))
            else:
                us = self._host_us(self._as_kernel_tuner(compiler, addresses[place]))
            timed[cell] = us
        device.free(operands)
        return timed


def times(size: int, rounds: int) -> None:
    """Time one configuration in every combination of what differs."""
    chosen = Configuration("float32", tuple(PARAMETERS.items()))
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench("cuda", Path(scratch))
        kernel, arch = discover(ROOT)[KERNEL], bench.here.arch
        (row,) = compile_kernel(kernel, [(chosen, "")], arch, Path(scratch), 1)
        binaries = {"nvcc": (Path(scratch) / row.binary).read_bytes(), "nvrtc": ptx_of(kernel.source(chosen), arch)}
        cells = Cells(bench.device, kernel, chosen, binaries, size)
        timed = [cells.round(seed) for seed in range(rounds)]
        del cells
        bench.device.close()
    own: dict[str, float] = {}
    if importlib.util.find_spec("kernel_tuner"):
        own = {name: by_kernel_tuner(kernel, [chosen], size, LAUNCHES, name)["best_us"] for name in ("nvcuda", "pycuda")}
    medians = {cell: median([each[cell] for each in timed]) for cell in timed[0]}
    measured = {
        "kernel": kernel.id, "configuration": chosen.label, "size": size, "rounds": rounds,
        "ours_us": medians[tuple(levels[0] for levels in FACTORS.values())],
        "like_it_us": medians[tuple(LIKE_IT[factor] for factor in FACTORS)],
        "kernel_tuner_us": own, "effects": effects(timed),
        "cells": [dict(zip(FACTORS, cell, strict=True)) | {"us": us} for cell, us in medians.items()],
    }  # fmt: skip
    binary = {f"{kernel.id} {chosen.label}": row.sha256}
    STUDIES["kernel_tuner_times"].write(bench.here, measured, uuids=bench.uuids, binaries=binary)


def main() -> None:
    """Measure, and write."""
    parser = command_line(__doc__)
    parser.add_argument("case", choices=("compare", "times"))
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--samples", type=int, default=10, help="of a configuration, for `compare`")
    parser.add_argument("--rounds", type=int, default=8, help="of `times`")
    given = parser.parse_args()
    if given.case == "compare":
        compare(given.size, given.samples)
    else:
        times(given.size, given.rounds)


if __name__ == "__main__":
    main()
