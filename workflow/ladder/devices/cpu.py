"""The host CPU: kernels as shared objects, timed by the monotonic clock."""

import ctypes
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladder.campaign import Problem
from ladder.devices import CANARY, GUARD, Device, Errors, Launch, Refused, buffer_elements, host_operands, scalars
from ladder.kernels import Configuration, Kernel

FLUSH_BYTES = 256 << 20
"""Written between samples in state `cold`; several times what one core of current CPUs has of the last-level cache."""
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
"""Linux's description of a core's caches (Documentation/ABI/testing/sysfs-devices-system-cpu)."""
C_TYPES: dict[str, Any] = {"float32": ctypes.c_float, "float64": ctypes.c_double}


class Cpu(Device):
    """Runs kernels in this process, which should be one that may crash."""

    kind = "cpu"

    def __init__(self, support: Path, baselines: Callable[["Cpu", str], Launch]) -> None:
        self._baselines, self._support = baselines, support
        self._flush: NDArray[Any] | None = None
        self._scratch = tempfile.TemporaryDirectory()

    def problem(self, problem: Problem) -> None:
        if problem.element_type not in C_TYPES:
            raise Refused("not_supported", f"{problem.element_type} is not supported on the CPU")
        self.given = problem
        self.a, self.b, self._c0 = host_operands(problem)
        self.c_buffer = np.empty(buffer_elements(problem), problem.element_type)
        self.c = inside(self.c_buffer, problem)
        alpha, beta = (float(value) for value in scalars(problem))
        a, b = (x[:, :cols].astype(np.float64) for x, cols in ((self.a, problem.k), (self.b, problem.n)))
        self._reference, self._scale = alpha * (a @ b), abs(alpha) * (np.abs(a) @ np.abs(b))
        if beta != 0:
            c = self._c0[:, : problem.n].astype(np.float64)
            self._reference += beta * c
            self._scale += abs(beta) * np.abs(c)
        self._poison()

    def arguments(self) -> list[Any]:
        """The arguments of `gemm` for the operands, as ctypes."""
        problem, c_type = self.given, C_TYPES[self.given.element_type]
        alpha, beta = (c_type(float(value)) for value in scalars(problem))
        pointer = [ctypes.c_void_p(array.ctypes.data) for array in (self.a, self.b, self.c)]
        sizes = [ctypes.c_int(size) for size in (problem.m, problem.n, problem.k)]
        return [*sizes, alpha, pointer[0], ctypes.c_int(problem.lda), pointer[1], ctypes.c_int(problem.ldb),
                beta, pointer[2], ctypes.c_int(problem.ldc)]  # fmt: skip

    def kernel(self, kernel: Kernel, configuration: Configuration, binary: bytes) -> Launch:
        path = Path(self._scratch.name) / f"{kernel.name}-{configuration.slug}.so"
        if not path.exists():
            path.write_bytes(binary)
        try:
            gemm = ctypes.CDLL(str(path)).gemm
        except (OSError, AttributeError) as error:
            raise Refused("launch_error", f"the shared object cannot be used: {error}") from None
        gemm.restype = None
        arguments = self.arguments()
        return Launch(lambda: gemm(*arguments))

    def baseline(self, name: str) -> Launch:
        return self._baselines(self, name)

    def _poison(self) -> None:
        self.c_buffer.view(np.uint32)[:] = CANARY
        if self.given.beta != 0:
            self.c[:, : self.given.n] = self._c0[:, : self.given.n]

    def check(self, launch: Launch) -> Errors:
        self._poison()
        self.time_round([launch], cold=False)
        return compare(self.c_buffer, self.given, self._reference, self._scale)

    def repeated(self, launch: Launch, times: int, cold: bool = False) -> Launch:
        def call() -> None:
            for _ in range(times):
                launch.call()

        return Launch(call, launch.before)

    def time_round(self, launches: Sequence[Launch], cold: bool) -> list[float]:
        times: list[float] = []
        for launch in launches:
            if cold:
                if self._flush is None:
                    self._flush = np.zeros(FLUSH_BYTES, np.uint8)
                self._flush.fill(len(times) % 256)
            launch.before()
            start = time.perf_counter_ns()
            launch.call()
            times.append((time.perf_counter_ns() - start) / 1e3)
        self.reading = self.monitor()
        self.busy_us += sum(times)
        return times

    def monitor(self) -> dict[str, float | int | None]:
        path = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")
        return {"sm_clock_mhz": int(path.read_text()) // 1000} if path.exists() else {}

    def describe(self) -> dict[str, Any]:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return {"cores": available_cores(), "memory_bytes": memory, "cache_bytes": _last_level_cache()}

    def peaks(self) -> dict[str, float]:
        support, rounds = ctypes.CDLL(str(self._support.resolve())), 200_000
        support.peak_fma.restype = ctypes.c_double
        copied = 64 << 20
        source, target = np.ones((available_cores(), copied), np.uint8), np.zeros((available_cores(), copied), np.uint8)

        def fma(thread: int) -> float:
            out = ctypes.c_float()
            result: float = support.peak_fma(rounds, ctypes.c_float(0.999), ctypes.c_float(0.001), ctypes.byref(out))
            return 2 * result

        def copy(thread: int) -> float:
            arguments = (ctypes.c_void_p(array[thread].ctypes.data) for array in (target, source))
            support.peak_copy(*arguments, ctypes.c_size_t(copied))
            return 2.0 * copied

        return {
            "fp32_tflops": _rate(fma, available_cores()) * 1e-6,
            "fp32_one_thread_tflops": _rate(fma, 1) * 1e-6,
            "copy_tb_s": _rate(copy, available_cores()) * 1e-6,
        }

    def launch_us(self, times: int) -> float:
        support = ctypes.CDLL(str(self._support.resolve()))
        out, zero = ctypes.c_float(), ctypes.c_float()
        empty = self.repeated(Launch(lambda: support.peak_fma(0, zero, zero, ctypes.byref(out))), times)
        return float(np.median([self.time_round([empty], cold=False) for _ in range(200)])) / times

    def close(self) -> None:
        self._scratch.cleanup()


def inside(buffer: NDArray[Any], problem: Problem) -> NDArray[Any]:
    """C itself, M x ldc, as a view of the buffer with its canaries."""
    return buffer[GUARD : GUARD + problem.m * problem.ldc].reshape(problem.m, problem.ldc)


def compare(buffer: NDArray[Any], problem: Problem, reference: NDArray[Any], scale: NDArray[Any]) -> Errors:
    """`Errors` of C in `buffer` (guard, M x ldc, guard) against the M x N float64 `reference` and `scale`."""
    words = np.full(buffer.nbytes // 4, CANARY, np.uint32).view(buffer.dtype)
    bits = np.dtype(f"u{buffer.itemsize}")
    changed = buffer.view(bits) != words.view(bits)
    inside(changed, problem)[:, : problem.n] = False
    c = inside(buffer, problem)[:, : problem.n].astype(np.float64)
    finite = np.isfinite(c)
    diff = np.where(finite, np.abs(c - reference), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(diff > 0, diff / scale, 0.0)
    return Errors(
        diff2=float(np.sum(diff**2)),
        ref2=float(np.sum(reference**2, where=finite)),
        scale2=float(np.sum(scale**2, where=finite)),
        worst=float(ratio.max()),
        wild=int((~finite).sum()),
        stray=int(changed.sum()),
    )


def _last_level_cache() -> int:
    """Bytes of the largest cache that a core uses; where the system does not tell, all that is flushed."""
    sizes = [path.read_text().strip() for path in CACHES.glob("index*/size")]
    return max((int(size.removesuffix("K")) << 10 for size in sizes if size.endswith("K")), default=FLUSH_BYTES)


def _rate(work: Callable[[int], float], threads: int) -> float:
    """Work a microsecond that `threads` threads do together (ctypes lets go of the interpreter); the best of ten."""
    best = 0.0
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(10):
            start = time.perf_counter_ns()
            done = sum(pool.map(work, range(threads)))
            best = max(best, done / (time.perf_counter_ns() - start) * 1e3)
    return best


def available_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0))
