"""The interface to a device: operands, launches, timed rounds. `cuda` and `cpu` implement it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ladder.core.types import Status
from ladder.devices.algorithm_search import Algorithm
from ladder.model.kernel import Configuration, Kernel
from ladder.model.problem import Problem

if TYPE_CHECKING:  # each start of Snakemake reads this file, and needs no NumPy
    from numpy.typing import NDArray


class Refused(Exception):
    """The device cannot run a configuration, or running it failed. If `fatal`, this process cannot
    go on with the device.
    """

    def __init__(self, status: Status, reason: str, fatal: bool = False) -> None:
        super().__init__(reason)
        self.status, self.reason, self.fatal = status, reason, fatal


Call = Callable[[], None]


@dataclass
class Launch:
    """A kernel or a vendor's call on the present problem."""

    bind: Callable[[int, int, int], Call]
    """Returns a call on A, B and C at these addresses that is ready to be made. On a GPU the call
    is queued, not waited for.
    """
    before: Call = lambda: None
    """Called before the clock starts, for example to set the number of threads."""
    precision: str = ""
    """That of its arithmetic, as a kernel's header declares it; verification allows for it."""
    reduces: bool = False
    """Whether it may add parts of K in the elements' type, which is narrower than that of sums."""
    ready: bool = False
    """Whether its first launch takes no longer, because its code is loaded."""
    us: float = 0.0
    """Roughly the microseconds of a launch, from the last `Device.check`."""


@dataclass
class Sample:
    """Launches that are timed together, back to back. Each has rows of A and B that begin
    elsewhere, and its own C.

    One of them, drawn at random each time, is audited: a launch cannot tell from its operands
    whether it will be.
    """

    call: Call
    before: Call
    times: int
    sets: int = 1
    """Sets of operands that the launches use in turn."""
    fresh: bool = False
    """Whether a row of A and one of B change before the last launch, which is then audited."""
    ready: bool = False
    """Whether it may be queued before the device has come to it: its code is loaded."""


@dataclass(frozen=True)
class Errors:
    """How C differs from the float64 reference R, with S = |alpha| |A| |B| + |beta| |C|."""

    diff2: float
    """Sum of (C - R)^2 over the elements where both are finite."""
    ref2: float
    scale2: float
    worst: float
    """Largest |C - R| / S of an element: infinite if an element that must be exact is not."""
    where: int
    """The index of that element, row * N + column."""
    wild: int
    """Elements that are NaN or infinite and should not be, elements that should be and are not, and
    elements never written.
    """
    stray: int
    """Overwritten canaries around C: before, after, and in the padding of its rows."""
    rounded2: float
    """Sum of squares of what R loses when it is rounded to the element type; 0 for elements that
    must be exact.
    """


@dataclass(frozen=True)
class Audit:
    """What an audit of a timed launch found, by a product with a vector of random signs instead of
    the whole reference.
    """

    worst: float
    """Largest |C x - alpha A (B x) - beta C0 x| of a row, over sqrt(|C_i|^2 + |alpha A_i|^2 |B|^2 /
    K + |beta C0_i|^2).
    """
    changed: int
    """Changed elements of A and B, and changed canaries in the padding of their rows; one more if
    the reference was changed.
    """
    stray: int


@dataclass(frozen=True)
class Timed:
    """A sample: microseconds for all its launches, its audit, and the errors of every element if
    these were requested.
    """

    us: float
    audit: Audit
    errors: Errors | None = None
    cpu_ns: tuple[int, int] = (0, 0)
    """On a CPU, the time that this process, and that the measuring thread, computed from the start
    until all other threads rested.
    """
    sm_clock_mhz: float | None = None
    """The mean clock meanwhile, if the device counts its own cycles."""
    settled: bool = True
    """Whether clock and power had settled before; of launches back to back."""
    gaps: bool = False
    """Whether the device was idle now and then; of launches back to back."""
    power_w: float | None = None
    """The mean power of the whole board meanwhile; of launches back to back, if something counts
    energy.
    """


class Device(ABC):
    """A device as the worker uses it. Operands must be in use before any call that depends on
    them.
    """

    kind: str
    names: Mapping[str, int] = MappingProxyType({})
    """The device's values by the names in `kernel_file.DEVICE_NAMES`, for the expressions of a
    kernel's header.
    """
    rotates = False
    """Whether a sample of several launches can keep the caches cold between them."""
    warm_seconds: float
    """The least time to warm up."""
    busy_us: float = 0.0
    """Microseconds that the device spent on launches that were timed or verified."""
    reading: Mapping[str, float | int | None] = MappingProxyType({})
    """What `monitor` returned during the last `time_round`, or shortly before."""
    mhz: float = 0.0
    """The lowest clock of a sample in the last `time_round`; 0 if the device counts no cycles."""
    given: Problem
    """The problem whose operands are in use."""

    @abstractmethod
    def operands(self, problem: Problem, compared: bool = True) -> Any:
        """Make the operands of a problem and use them. The result can be passed to `use` and to
        `free`. Without `compared`, no result may be compared with the reference.
        """

    @abstractmethod
    def use(self, operands: Any) -> None:
        """Use operands that `operands` returned before."""

    @abstractmethod
    def free(self, operands: Any) -> None:
        """Free operands, and everything that was made from them."""

    @abstractmethod
    def kernel(self, kernel: Kernel, configuration: Configuration, binary: bytes) -> Launch:
        """Return a launch of a compiled configuration on the present problem. Raises `Refused`."""

    @abstractmethod
    def baseline(self, name: str, parameters: Mapping[str, int] = MappingProxyType({})) -> Launch:
        """Return a launch of a vendor's call on the present problem, by the algorithm with these
        parameters or, without any, by the library's own choice. Raises `Refused`.
        """

    def search(self) -> Algorithm | None:
        """Return the parameters of the fastest algorithm of the vendor's library that a search finds
        on the present problem; None if nothing can be searched.
        """
        return None

    @abstractmethod
    def compute(self, launch: Launch) -> None:
        """Draw the operands, poison C and launch once. Sets `launch.us`. Raises `Refused` if the
        launch fails.
        """

    @abstractmethod
    def check(self, launch: Launch) -> Errors:
        """Return how what a launch computes, as `compute` does, differs from the reference."""

    def check_at_once(self, launch: Launch) -> Errors | None:
        """Launch several times in two threads at once, and return the errors of the worst result;
        None where launches share no memory that is not given to them.
        """
        return None

    @abstractmethod
    def limit(self, half: bool) -> None:
        """Let launches that are made from now on use half of the cores or multiprocessors, or all
        again. Raises `Refused` if there is only one.
        """

    @abstractmethod
    def busy(self) -> AbstractContextManager[None]:
        """Return a context in which other work of this process keeps the device busy."""

    @abstractmethod
    def look(self) -> "tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]":
        """Return A, B and C as drawn for the last `compute` or `check`, and its result. Each is
        flat, from the matrix's first element on.
        """

    @abstractmethod
    def differ(self, other: Any, rows: int) -> tuple[int, int, float, float] | None:
        """Return the first element of the last result whose bits are not those of the result in
        `other` operands, of which row i modulo `rows` is the like of row i: its row and column, and
        both values. None if there is none.
        """

    @abstractmethod
    def sample(self, launch: Launch, times: int, cold: bool = False, fresh: bool = False) -> Sample:
        """Return a sample of `times` launches back to back, without the host in between if the
        device can do that. Of the samples that will be timed together, make the one with the most
        launches first: it makes room for all.

        With `cold`, each launch uses another copy of the operands. There are so many copies that
        none is in the caches when its turn comes again. With `fresh`, a row of A and one of B
        change before the last launch, if the distribution allows it: what a launch kept of them is
        stale. Such a sample is for a round with `compare`, and its time is none.
        """

    @abstractmethod
    def time_round(
        self, samples: Sequence[Sample], cold: bool, seed: int, compare: bool = False
    ) -> list[Timed]:
        """Time each sample once, in order. With `cold`, flush the caches before each. Sets
        `reading`
        and `mhz`.

        First the operands are drawn from `seed`. Before each sample C and the workspace are
        poisoned; after it one of its launches is audited. With `compare`, this is the last, and
        every element of its result is also compared with the float64 reference.
        """

    @abstractmethod
    def sustain(self, sample: Sample, us: float, seed: int, wait: float) -> Timed:
        """Repeat a sample back to back until clock and power have settled, for `wait` seconds at
        least, and time what follows. Sets `reading`.

        The time is that of a call in a typical window, as `back_to_back` defines both. One more
        call, on a poisoned C, is then audited and compared. `us` is roughly what a call takes.
        """

    @abstractmethod
    def monitor(self) -> dict[str, float | int | None]:
        """Return clocks and temperature now; empty if they cannot be read."""

    def other_processes(self) -> int | None:
        """Return how many processes besides this one compute on the device now; None if that is
        unknown.
        """
        return None

    def watch(self) -> Callable[[], float | None]:
        """Return a function that says how many processes besides this one compute on the device, at
        least now or then; None if that is unknown. On a CPU: how many cores they have used since,
        or 0 if that is little.
        """
        before = self.other_processes()

        def most() -> float | None:
            counts = before, self.other_processes()
            return max((count for count in counts if count is not None), default=None)

        return most

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the facts for `environment.json` that only the device knows, among them name and
        version of the vendor's `library`.
        """

    @abstractmethod
    def peaks(self) -> dict[str, float]:
        """Return limits measured on the device: `fp32_tflops`, multiply-adds from registers, and
        `copy_tb_s`, read and write counted.

        A GPU also has `l2_tb_s`, reads from the L2 cache, and the mean time of one load,
        `l2_latency_ns` and `memory_latency_ns`; one of compute capability 9.0 also
        `tensor_16_bit_tflops` and `tensor_8_bit_tflops`, products on the tensor cores.
        """

    @abstractmethod
    def launch_us(self, times: int) -> float:
        """Return the microseconds that the clock shows for an empty launch, one of `times` in a
        sample. Nothing shorter can be timed.
        """

    @abstractmethod
    def close(self) -> None:
        """Free everything."""
