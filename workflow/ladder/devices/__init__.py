"""One small interface to what is measured: operands, launches, timed rounds. `cuda` and `cpu` implement it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladder.campaign import Problem
from ladder.kernels import Configuration, Kernel
from ladder.units import Status

GUARD = 1024
"""Canary elements before and after C."""
CANARY = 0x7FF87FF9
"""32-bit pattern of poisoned memory: a NaN as float, as either half of it, and doubled as double."""


class Refused(Exception):
    """The device cannot run a configuration, or running it failed; `fatal` when the device's context is lost with it."""

    def __init__(self, status: Status, reason: str, fatal: bool = False) -> None:
        super().__init__(reason)
        self.status, self.reason, self.fatal = status, reason, fatal


@dataclass
class Launch:
    """A call that is ready to be made: no arguments, no allocation. On a GPU it is queued, not waited for."""

    call: Callable[[], None]
    before: Callable[[], None] = lambda: None
    """Made before the clock starts, such as setting the number of threads."""


@dataclass(frozen=True)
class Errors:
    """How C differs from the float64 reference R, with S = |alpha| |A| |B| + |beta| |C|."""

    diff2: float
    """Sum of (C - R)^2 over the finite elements."""
    ref2: float
    scale2: float
    worst: float
    """Largest |C - R| / S of an element."""
    wild: int
    """Elements that are NaN or infinite, or were never written."""
    stray: int
    """Canaries around C (before, after, and in the padding of its rows) that were overwritten."""


class Device(ABC):
    """What a worker needs of a device. `problem` must be called before anything that depends on operands."""

    kind: str
    rotates = False
    """Whether `repeated` can keep the caches cold between launches."""
    busy_us: float = 0.0
    """Time the device spent executing what was timed or verified, in microseconds."""
    reading: Mapping[str, float | int | None] = MappingProxyType({})
    """What `monitor` gave during the last `time_round`, or shortly before."""

    @abstractmethod
    def problem(self, problem: Problem) -> None:
        """Make the operands of a problem and their float64 reference; those of the problem before are freed."""

    @abstractmethod
    def kernel(self, kernel: Kernel, configuration: Configuration, binary: bytes) -> Launch:
        """A launch of a compiled configuration on the operands; raises `Refused`."""

    @abstractmethod
    def baseline(self, name: str) -> Launch:
        """A launch of a vendor's call on the operands; raises `Refused`."""

    @abstractmethod
    def check(self, launch: Launch) -> Errors:
        """Poison C, launch once and compare C with the reference; raises `Refused` where the launch fails."""

    @abstractmethod
    def repeated(self, launch: Launch, times: int, cold: bool = False) -> Launch:
        """A launch that does `times` of `launch` back to back, without the host in between where the device can.

        With `cold`, each is made on another copy of the operands, so many that none is in the caches when its turn comes again.
        """

    @abstractmethod
    def time_round(self, launches: Sequence[Launch], cold: bool) -> list[float]:
        """Time each launch once, in order, in microseconds; with `cold`, caches are flushed before each. Sets `reading`."""

    def energy(self, launch: Launch, calls: int) -> float | None:
        """Joules that each of `calls` launches back to back takes, idle power included; None where nothing counts them."""
        return None

    @abstractmethod
    def monitor(self) -> dict[str, float | int | None]:
        """Clocks, power and temperature now; empty where they cannot be read."""

    def other_processes(self) -> int | None:
        """How many processes besides this one compute on the device now; None where that cannot be told."""
        return None

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What only the device can tell of itself, for `environment.json`."""

    @abstractmethod
    def peaks(self) -> dict[str, float]:
        """Limits measured on the device: `fp32_tflops`, multiply-adds from registers, and `copy_tb_s`, read and write counted."""

    @abstractmethod
    def launch_us(self, times: int) -> float:
        """What the clock shows for an empty launch, one of `times` in a sample, in microseconds: what is shorter cannot be told from it."""

    @abstractmethod
    def close(self) -> None:
        """Free everything."""


def host_operands(problem: Problem) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Seeded random A (M x lda), B (K x ldb) and C (M x ldc) with NaN in the padding of their rows.

    `uniform` is [-1, 1), `normal` the standard normal distribution, `integers` whole numbers from -4 to 4. C is random when beta is not 0 and
    else NaN: a kernel that reads it then fails.
    """
    dtype = np.dtype(problem.element_type)
    shapes = ((problem.m, problem.k, problem.lda), (problem.k, problem.n, problem.ldb), (problem.m, problem.n, problem.ldc))
    arrays = []
    for which, (rows, cols, ld) in enumerate(shapes):
        random = np.random.default_rng([problem.seed, problem.m, problem.n, problem.k, which])
        full = np.empty((rows, ld), dtype)
        full[:, cols:] = np.nan
        if which == 2 and problem.beta == 0:
            full[:] = np.nan
        else:
            full[:, :cols] = _random(random, problem.distribution, (rows, cols), dtype)
        arrays.append(full)
    return arrays[0], arrays[1], arrays[2]


def _random(random: np.random.Generator, distribution: str, shape: tuple[int, int], dtype: Any) -> NDArray[Any]:
    single = np.float64 if dtype == np.float64 else np.float32
    if distribution == "integers":
        return random.integers(-4, 5, shape, dtype=np.int8).astype(dtype)
    if distribution == "normal":
        return random.standard_normal(shape, dtype=single).astype(dtype, copy=False)
    values = random.random(shape, dtype=single)
    values *= 2
    values -= 1
    return values.astype(dtype, copy=False)


def buffer_elements(problem: Problem) -> int:
    """Elements of C with the canaries around it: whole 32-bit words of canaries, also where C has an odd number of halves."""
    count = problem.m * problem.ldc + 2 * GUARD
    return count + count % 2


def scalars(problem: Problem) -> tuple[Any, Any]:
    """alpha and beta rounded to the element type, as the kernels get them."""
    element = np.dtype(problem.element_type).type
    return element(problem.alpha), element(problem.beta)
