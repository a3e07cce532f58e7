"""Why Kernel Tuner's times of a kernel are longer than ours: one configuration at one size, timed in every combination of what differs.

    .venv/bin/python studies/kernel_tuner_times.py      on a GPU, about 2 minutes; with Kernel Tuner installed also its own times

Ours are launches of a graph on a busy GPU. Kernel Tuner's (`benchmark_default` in its core.py) are single launches: it waits until the GPU
is idle, records an event, makes the call in Python, records another. What differs, each level beside ours in the same round, all others
alike:

- launched: `graph`, ten launches in a graph; `queued`, ten single ones behind a gate that opens when all are queued, so that no time of the
  host's is between the events; `host`, ten as Kernel Tuner makes them, each after the one before is done;
- before: `busy`, the GPU computed until just before; `idle`, it rested, as while Kernel Tuner compiles and verifies;
- values: `random`; `constant`, all ones, which switch fewer transistors and draw less power;
- compiler: `nvcc`, the cubin that is published; `nvrtc`, PTX that the driver translates, as Kernel Tuner's back end `nvcuda` has it;
- place: `scattered`, operands begin anywhere, as ours do; `allocated`, where the driver's allocator puts them.

Before and after the ten launches a kernel reads the clock of an SM: `clock64` beside `%globaltimer` (PTX ISA, "Special Registers").
"""

import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from ladder.claims.answers import STUDIES
from ladder.claims.study import command_line
from ladder.compiling.compile import compile_kernel, compile_support
from ladder.compiling.compilers import _nvcc as nvcc
from ladder.core.files import ROOT
from ladder.core.stats import median_interval
from ladder.devices.lock import first_gpu
from ladder.measuring import verify
from ladder.measuring.worker import open_device
from ladder.model.kernel import Configuration, Kernel
from ladder.model.kernel_file import discover
from ladder.model.problem import Problem

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
KERNEL, PARAMETERS = "cuda/06_vectorized_loads", {"BM": 128, "BN": 128, "BK": 16, "TM": 8, "TN": 8}
"""What both find best of the 110 configurations of `studies/kernel_tuner_compare.py`."""
LAUNCHES = 10
IDLE_SECONDS = 0.2
BUSY_US = 30e3
"""How long the GPU computes before launches that find it busy: clocks take tens of milliseconds to rise."""
CLOCK = """
extern "C" __global__ void sm_clock(long long *out) {
  long long begin, now, cycles = clock64();
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - begin < 100000);
  out[0] = clock64() - cycles;
  out[1] = now - begin;
}
"""
"""Cycles and nanoseconds of about a tenth of a millisecond."""

Cell = tuple[str, ...]
"""A level of each factor."""


def effects(rounds: Sequence[Mapping[Cell, float]]) -> dict[str, dict[str, tuple[float, float, float]]]:
    """How many times as long launches take at each level as at ours, all else alike: median and 95 % interval over rounds and all else."""
    ours, found = tuple(levels[0] for levels in FACTORS.values()), {}
    for place, (factor, levels) in enumerate(FACTORS.items()):
        found[factor] = {
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
    return found


STUDY = STUDIES["kernel_tuner_times"]


def ptx_of(source: str, arch: str) -> bytes:
    """PTX by NVRTC with the options that `studies/kernel_tuner_compare.py` has Kernel Tuner use."""
    from cuda.bindings import nvrtc

    def value(result: tuple[Any, ...]) -> Any:
        if result[0] != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            sys.exit(f"NVRTC: {result[0]}")
        return result[1] if len(result) > 1 else None

    program = value(nvrtc.nvrtcCreateProgram(source.encode(), b"gemm.cu", 0, [], []))
    options = [
        b"-std=c++17",
        f"-I{ROOT / 'kernels' / 'include'}".encode(),
        f"--gpu-architecture={arch.replace('sm', 'compute')}".encode(),
    ]
    value(nvrtc.nvrtcCompileProgram(program, len(options), options))
    ptx = b" " * int(value(nvrtc.nvrtcGetPTXSize(program)))
    value(nvrtc.nvrtcGetPTX(program, ptx))
    return ptx


class Bench:
    """One configuration on one problem, in every combination."""

    def __init__(
        self, device: Any, arch: str, kernel: Kernel, chosen: Configuration, binaries: Mapping[str, bytes], size: int
    ) -> None:
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
        self.module = cuda.module_from_buffer(nvcc(CLOCK, arch, ROOT)[0])
        self.clock = self.module.get_function("sm_clock")
        self.ticks = cuda.mem_alloc(16)
        self.bytes = 4 * size * size
        self.allocated = [cuda.mem_alloc(self.bytes) for _ in range(3)]
        self.random = [cuda.mem_alloc(self.bytes) for _ in range(2)]

    def _value(self, result: tuple[Any, ...]) -> Any:
        if result[0] != self.driver.CUresult.CUDA_SUCCESS:
            sys.exit(f"the driver: {result[0]}")
        return result[1] if len(result) > 1 else None

    def sm_clock_mhz(self) -> float:
        """The clock that an SM reads now."""
        ticks = np.empty(2, np.int64)
        self.clock(self.ticks, block=(1, 1, 1), grid=(1, 1), stream=self.device.stream)
        self.device.stream.synchronize()
        self.cuda.memcpy_dtoh(ticks, self.ticks)
        return float(ticks[0] / ticks[1]) * 1e3

    def _as_kernel_tuner(self, name: str, addresses: Sequence[int]) -> Callable[[], None]:
        """A launch through cuda-bindings, whose arguments get their C types at every call."""
        pointers = [self.driver.CUdeviceptr(address) for address in addresses]
        n, one, zero = np.int32(self.size), np.float32(1), np.float32(0)
        arguments = [n, n, n, one, pointers[0], n, pointers[1], n, zero, pointers[2], n]
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

    def round(self, seed: int) -> dict[Cell, dict[str, float]]:
        """Every combination once, in random order: microseconds of a launch, and the clock in MHz before and after. The operands are new."""
        device, found = self.device, {}
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
            clock = self.sm_clock_mhz()
            if launched == "graph":
                us = device.time_calls([graph])[0] / LAUNCHES
            elif launched == "queued":
                us = float(np.median(device.time_calls([calls[compiler, place]] * LAUNCHES)))
            else:
                us = self._host_us(self._as_kernel_tuner(compiler, addresses[place]))
            found[cell] = {"us": us, "clock_before_mhz": clock, "clock_after_mhz": self.sm_clock_mhz()}
        device.free(operands)
        return found


def main() -> None:
    """Measure, and write."""
    parser = command_line(__doc__)
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=8)
    given = parser.parse_args()
    gpu, kernel = first_gpu(), discover(ROOT)[KERNEL]
    chosen = Configuration("float32", tuple(PARAMETERS.items()))
    with tempfile.TemporaryDirectory() as scratch:
        support = Path(scratch) / "support.bin"
        support.write_bytes(compile_support("cuda", gpu.arch))
        (row,) = compile_kernel(kernel, [(chosen, "")], gpu.arch, Path(scratch), 1)
        binaries = {"nvcc": (Path(scratch) / row.binary).read_bytes(), "nvrtc": ptx_of(kernel.source(chosen), gpu.arch)}
        device = open_device("cuda", gpu.uuids[0], support)
        bench = Bench(device, gpu.arch, kernel, chosen, binaries, given.size)
        rounds = []
        for seed in range(given.rounds):
            rounds.append(bench.round(seed))
            print(f"round {seed + 1} of {given.rounds}", flush=True)
        del bench
        device.close()
    times: dict[str, float] = {}
    if importlib.util.find_spec("kernel_tuner"):
        from kernel_tuner_compare import theirs

        for backend in ("nvcuda", "pycuda"):
            times[backend] = theirs(kernel, [chosen], given.size, LAUNCHES, backend)["best_us"]
    cells: list[dict[str, Any]] = [
        {
            **dict(zip(FACTORS, cell, strict=True)),
            **{name: median_interval([r[cell][name] for r in rounds])[0] for name in rounds[0][cell]},
        }
        for cell in rounds[0]
    ]

    def us(levels: Mapping[str, str]) -> float:
        return next(float(cell["us"]) for cell in cells if all(cell[factor] == level for factor, level in levels.items()))

    measured = {
        "kernel": kernel.id, "configuration": chosen.label, "size": given.size, "rounds": given.rounds,
        "ours_us": us({factor: levels[0] for factor, levels in FACTORS.items()}), "like_it_us": us(LIKE_IT),
        "kernel_tuner_us": times, "effects": effects([{cell: it["us"] for cell, it in r.items()} for r in rounds]), "cells": cells,
    }  # fmt: skip
    STUDY.write(gpu, measured, uuids=[gpu.uuids[0]], binaries={f"{kernel.id} {chosen.label}": row.sha256})


if __name__ == "__main__":
    main()
