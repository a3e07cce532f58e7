"""The interface to a device: operands, launches, timed rounds. `cuda` and `cpu` implement it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray

from ladder.core.types import Status
from ladder.model.kernel import Configuration, Kernel
from ladder.model.problem import Problem


class Refused(Exception):
    """The device cannot run a configuration, or running it failed; `fatal` when the device's context is lost with it."""

    def __init__(self, status: Status, reason: str, fatal: bool = False) -> None:
        super().__init__(reason)
        self.status, self.reason, self.fatal = status, reason, fatal


Call = Callable[[], None]


@dataclass
class Launch:
    """A kernel or a vendor's call on the present problem."""

    bind: Callable[[int, int, int], Call]
    """From the addresses of A, B and C to a call that is ready to be made. On a GPU it is queued, not waited for."""
    before: Call = lambda: None
    """Made before the clock starts, such as setting the number of threads."""
    tf32: bool = False
    """Whether it rounds float32 operands to TF32, and is judged by that."""


@dataclass
class Sample:
    """Launches that are timed together, back to back, each on operands that no other of them has, and with a C of its own.

    One of them is audited, picked anew each time: what a launch finds does not tell whether it will be.
    """

    call: Call
    before: Call
    times: int
    sets: int = 1
    """Sets of operands that its launches take in turn."""
    ready: bool = False
    """Whether it has run before: its code is loaded."""


@dataclass(frozen=True)
class Errors:
    """How C differs from the float64 reference R, with S = |alpha| |A| |B| + |beta| |C|."""

    diff2: float
    """Sum of (C - R)^2 over the elements where both are finite."""
    ref2: float
    scale2: float
    worst: float
    """Largest |C - R| / S of an element."""
    where: int
    """Which element that is, row * N + column."""
    wild: int
    """Elements that are NaN or infinite and should not be, or the other way round, or were never written."""
    stray: int
    """Canaries around C (before, after, and in the padding of its rows) that were overwritten."""


@dataclass(frozen=True)
class Audit:
    """What a look at a timed launch found, by a product with a vector of random signs in place of the whole reference."""

    worst: float
    """Largest |C x - alpha A (B x) - beta C0 x| of a row, over sqrt(|C_i|^2 + |alpha A_i|^2 |B|^2 / K + |beta C0_i|^2)."""
    changed: int
    """Elements of A and B, or canaries in the padding of their rows, that are not what they were."""
    stray: int


@dataclass(frozen=True)
class Timed:
    """A sample: microseconds for all its launches, what its audit found, and where it was asked for the errors of every element."""

    us: float
    audit: Audit
    errors: Errors | None = None


class Device(ABC):
    """What a worker needs of a device. Operands must be in use before anything that depends on them."""

    kind: str
    names: Mapping[str, int] = MappingProxyType({})
    """What the expressions of a kernel's header may say of the device: `kernel_file.DEVICE_NAMES`."""
    rotates = False
    """Whether a sample of several launches can keep the caches cold between them."""
    warm_seconds: float
    """The least time to warm up for."""
    busy_us: float = 0.0
    """Time the device spent executing what was timed or verified, in microseconds."""
    reading: Mapping[str, float | int | None] = MappingProxyType({})
    """What `monitor` gave during the last `time_round`, or shortly before."""
    given: Problem
    """The problem whose operands are in use."""

    @abstractmethod
    def operands(self, problem: Problem) -> Any:
        """Make the operands of a problem and use them. What is returned can be given to `use`, and to `free`."""

    @abstractmethod
    def use(self, operands: Any) -> None:
        """Use operands that were made before."""

    @abstractmethod
    def free(self, operands: Any) -> None:
        """Free operands, and what was made of them."""

    @abstractmethod
    def kernel(self, kernel: Kernel, configuration: Configuration, binary: bytes) -> Launch:
        """A launch of a compiled configuration on the present problem; raises `Refused`."""

    @abstractmethod
    def baseline(self, name: str) -> Launch:
        """A launch of a vendor's call on the present problem; raises `Refused`."""

    @abstractmethod
    def check(self, launch: Launch) -> Errors:
        """Draw the operands, poison C, launch once and compare C with the reference; raises `Refused` where the launch fails."""

    @abstractmethod
    def look(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        """A, B and C as drawn for the launch that `check` made last, and its result: flat, from the matrix's first element on."""

    @abstractmethod
    def reserve(self, times: int, cold: bool) -> None:
        """Make room for samples of so many launches, before the first of those that will be timed together is made."""

    @abstractmethod
    def sample(self, launch: Launch, times: int, cold: bool = False) -> Sample:
        """A sample of `times` of `launch` back to back, without the host in between where the device can.

        With `cold`, each is made on another copy of the operands, so many that none is in the caches when its turn comes again.
        """

    @abstractmethod
    def time_round(self, samples: Sequence[Sample], cold: bool, seed: int, compare: bool = False) -> list[Timed]:
        """Time each sample once, in order; with `cold`, caches are flushed before each. Sets `reading`.

        The operands are drawn anew from `seed` first; before each sample C and the workspace are poisoned, and after it one of its
        launches is audited. With `compare` its result is compared with the float64 reference too, every element.
        """

    @abstractmethod
    def time_calls(self, calls: Sequence[Call]) -> list[float]:
        """Time bare calls, in microseconds: no operands, no audit."""

    def energy(self, sample: Sample, seconds: float) -> tuple[float, float] | None:
        """Joules and microseconds that a sample takes, repeated for `seconds`, idle power included; None where nothing counts them."""
        return None

    @abstractmethod
    def monitor(self) -> dict[str, float | int | None]:
        """Clocks and temperature now; empty where they cannot be read."""

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
