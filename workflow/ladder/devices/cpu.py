"""The host CPU: kernels as shared objects, timed by the monotonic clock."""

import ctypes
import hashlib
import mmap
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from ladder.core import clock
from ladder.core.surroundings import cores, memory
from ladder.devices import back_to_back
from ladder.devices.base import Audit, Call, Device, Errors, Launch, Refused, Sample, Timed
from ladder.devices.detect import check_memory_left, last_level_cache
from ladder.devices.operands import (
    CANARY,
    RESULT_SHIFTS,
    SUMS,
    Draw,
    Place,
    audited_launch,
    batch_of,
    can_refresh,
    draws,
    errors_of,
    exact_elements,
    extra,
    fresh_rows,
    inside,
    near,
    places,
    reference,
    result_shifts,
    scalars,
    skipped,
)
from ladder.model.kernel import Configuration, Kernel
from ladder.model.problem import Problem

LINE_BYTES = 64  # of a cache line
SETTLE_SECONDS = 0.0003
"""Time between looks at whether other threads rest, as they must before the clock starts."""
LOOK_SECONDS = 0.003
"""The most that counts of the time from one look to the next: the rest is time in which this
process had no core, or stood still.
"""
RESTLESS_SECONDS = 2.0
"""How long other threads may compute after a call. Threads of OpenMP and BLAS rest much sooner
unless configured otherwise; threads that compute longer would disturb every timing.
"""
BUSY_ROUNDS = 20_000
"""Of multiply-adds, after which a thread that keeps a core busy looks whether to go on.
"""
OTHERS = 0.25
"""The fewest cores used by other processes that count. The system counts time in hundredths of a
second.
"""
C_TYPES: dict[str, Any] = {"float32": ctypes.c_float, "float64": ctypes.c_double}


LARGE_FLOPS = 1e9
"""From so many operations on, all cores compute the float64 reference."""


@lru_cache
def controller() -> ThreadpoolController:
    """Return NumPy's BLAS as threadpoolctl sees it."""
    return ThreadpoolController().select(user_api="blas")


def use_threads(threads: int) -> None:
    """Let BLAS compute with so many threads."""
    for library in controller().lib_controllers:
        library.set_num_threads(threads)


C_LIBRARY = ctypes.CDLL(None)
AT_ONCE = 3
"""Launches of each of two threads at once that are compared."""
NO_RESERVE = 0x4000
"""MAP_NORESERVE of mmap(2), which `mmap` does not name before Python 3.13."""


def sparse(matrix: NDArray[Any], ld: int) -> NDArray[Any]:
    """Return a copy whose rows are `ld` elements apart, in memory of which only they take some.
    Behind the last element none may be read. Raises `Refused` if there are not so many addresses.
    """
    size, strides = matrix.itemsize, (ld * matrix.itemsize, matrix.itemsize)
    used = (len(matrix) - 1) * strides[0] + matrix.shape[1] * size
    end = used + -used % mmap.PAGESIZE
    kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
    try:
        memory = np.frombuffer(mmap.mmap(-1, end + mmap.PAGESIZE, kind), np.uint8)
    except OSError as error:
        raise Refused("not_supported", f"no addresses for rows far apart: {error}") from None
    C_LIBRARY.mprotect(ctypes.c_void_p(memory.ctypes.data + end), mmap.PAGESIZE, 0)
    first = (end - used) // 16 * 16
    own = memory[first : first + used].view(matrix.dtype)
    copy = np.lib.stride_tricks.as_strided(own, matrix.shape, strides)
    copy[:] = matrix
    return copy


class CPlace(ctypes.Structure):
    """`Place` of operands.h."""

    _fields_ = [(name, ctypes.c_longlong) for name in Place._fields]


class CDraw(ctypes.Structure):
    """`Draw` of operands.h."""

    _fields_ = [(name, ctypes.c_int) for name in Draw._fields[:-1]] + [("seed", ctypes.c_uint64)]


def _pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


class Operands:
    """The operands of a problem: as drawn, and the copies that kernels get."""

    def __init__(self, given: Problem) -> None:
        self.given = given
        self.reference: tuple[Any, ...] = ()
        """What the float64 reference belongs to: the `seed`, and the row of B; then R and S."""
        self.make(0, 1)

    def make(self, extra: int, launches: int) -> None:
        """Allocate the matrices, with `extra` rows of A and B below their own, or matrices of a
        batch, and a C for each of `launches`.
        """
        self.extra, self.places = extra, places(self.given, extra)
        self.drawn = [np.empty(place.total, self.given.element_type) for place in self.places]
        self.arrays = [np.empty_like(array) for array in self.drawn[:2]]
        total, step = self.places[2].total, LINE_BYTES // self.drawn[0].itemsize
        self.rooms = np.empty(
            (launches, total + (RESULT_SHIFTS - 1) * step), self.given.element_type
        )
        shifts = result_shifts(np.random.default_rng(), launches)
        self.results = [
            room[step * shift :][:total] for room, shift in zip(self.rooms, shifts, strict=True)
        ]
        self.seed: tuple[int, tuple[int, int]] | None = None
        """The seed and the fresh rows of the drawn matrices; None before the first draw."""

    def addresses(self, row: int = 0, launch: int = 0) -> list[int]:
        """Return the addresses of A and B from `row` on, and of the C of a launch of a sample."""
        matrices = zip(
            (*self.arrays, self.results[launch]), self.places, (row, row, 0), strict=True
        )
        return [
            array.ctypes.data + (place.first + place.skipped(number)) * array.itemsize
            for array, place, number in matrices
        ]

    def matrix(self, which: int, row: int = 0) -> NDArray[Any]:
        """Return op(A) or op(B) of a launch, from `row` on in memory, or C, as drawn; of a batch all
        matrices, from number `row` on.
        """
        count = self.given.batch if self.given.batched else self.given.shapes[which][0]
        lying = inside(self.drawn[which], self.places[which])[row : row + count]
        return lying.swapaxes(-1, -2) if self.given.transposed[which] else lying


class Cpu(Device):
    """The host CPU. It runs kernels in this process, which should be one that may crash.

    `baselines` is the module `blas`, or something like it.
    """

    kind = "cpu"
    warm_seconds = 0.01  # to start threads and touch pages; operands are drawn all the while

    def __init__(self, support: Path, baselines: Any) -> None:
        self.blas = baselines
        self._scratch = tempfile.TemporaryDirectory()
        self.support = _load_from(Path(self._scratch.name), support)
        self.support.peak_fma.restype = ctypes.c_double
        self._random = np.random.default_rng()
        self._mask, self.threads = os.sched_getaffinity(0), cores()
        self._undo()
        self._at: Operands
        self._waited = False
        self._gemms: dict[str, Any] = {}
        """The functions of the shared objects that are loaded."""

    def settle(self) -> bool:
        """Wait until no other thread of this process computes; return whether it waited.

        Threads of OpenMP and BLAS spin for a while after a call. A thread's state says whether it would
        compute if it got a core; on a busy machine the time that it used does not. Raises `Refused` if
        the threads do not come to rest: they go on until the process ends.
        """
        seconds = 0.0
        while _others_computing():
            if seconds > RESTLESS_SECONDS:
                why = (
                    f"threads that a call has left behind still compute after {RESTLESS_SECONDS:g} "
                    "s; expected OMP_WAIT_POLICY not to be active"
                )
                raise Refused("launch_error", why, fatal=True)
            looked = clock.now()
            clock.sleep(SETTLE_SECONDS)
            seconds += min(clock.now() - looked, LOOK_SECONDS)
        return seconds > 0

    def operands(self, problem: Problem, compared: bool = True) -> Operands:
        if problem.element_type not in C_TYPES:
            raise Refused("not_supported", f"{problem.element_type} is not supported on the CPU")
        check_memory_left(near(problem))
        self.use(Operands(problem))
        return self._at

    def use(self, operands: Operands) -> None:
        self._at, self.given = operands, operands.given

    def free(self, operands: Operands) -> None:
        operands.drawn, operands.arrays, operands.results, operands.reference = [], [], [], ()
        operands.rooms = np.empty((0, 0))

    def _draw(self, seed: int, fresh: tuple[int, int] = (-1, -1)) -> None:
        """Draw A, B and C, and copy A and B for the kernels."""
        at = self._at
        if at.seed != (seed, fresh):
            of = zip(at.drawn, at.places, draws(self.given), (*fresh, -1), strict=True)
            for array, place, draw, row in of:
                drawing = CDraw(*draw._replace(seed=seed, fresh=row))
                self.support.fill(_pointer(array), array.itemsize, CPlace(*place), drawing)
            at.seed = seed, fresh
        for array, drawn in zip(at.arrays, at.drawn[:2], strict=True):
            array[:] = drawn

    def _poison(self, launches: int) -> None:
        """Fill the C of each launch with canaries, or with its old values if beta is not 0."""
        if self.given.beta == 0:
            self._at.rooms[:launches].view(np.uint32)[:] = CANARY
        else:
            for result in self._at.results[:launches]:
                result[:] = self._at.drawn[2]

    def arguments(self, *addresses: int) -> list[Any]:
        """Return the arguments of `gemm` for A, B and C at the addresses, as ctypes."""
        p, number = self.given, ctypes.c_int
        alpha, beta = (C_TYPES[p.element_type](float(value)) for value in scalars(p))
        a, b, c = map(ctypes.c_void_p, addresses)
        sizes = number(p.m), number(p.n), number(p.k)
        return [*sizes, alpha, a, number(p.lda), b, number(p.ldb), beta, c, number(p.ldc)]

    def kernel(self, kernel: Kernel, configuration: Configuration, binary: bytes) -> Launch:
        # its own file has its own static variables: of two with the same binary, one would find the
        # other's fresh result
        key = hashlib.sha256(f"{kernel.path}-{configuration.slug}\0".encode() + binary).hexdigest()
        if key not in self._gemms:
            path = Path(self._scratch.name) / f"{key}.so"
            path.write_bytes(binary)
            try:
                gemm = ctypes.CDLL(str(path)).gemm
            except (OSError, AttributeError) as error:
                why = f"the shared object cannot be used: {error}"
                raise Refused("launch_error", why) from None
            self._undo()  # loading a library may change the thread's settings
            gemm.restype = None
            self._gemms[key] = gemm
        gemm = self._gemms[key]
        batch = batch_of(self.given)
        return Launch(lambda *addresses: partial(gemm, *self.arguments(*addresses), *batch))

    def baseline(self, name: str, parameters: Mapping[str, int] = MappingProxyType({})) -> Launch:
        launch: Launch = self.blas.launch(self, name)
        return launch

    def _reference(self, row: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return R = alpha*A*B + beta*C and S = |alpha| |A| |B| + |beta| |C| in float64, for A and
        B from `row` on.
        """
        at = self._at
        if at.reference[:2] != (at.seed, row):
            alpha, beta = (float(value) for value in scalars(self.given))
            # several threads would spin, for longer than a small product takes
            use_threads(1 if self.given.flops < LARGE_FLOPS else cores())
            arrays = reference(alpha, beta, at.matrix(0, row), at.matrix(1, row), at.matrix(2))
            at.reference = at.seed, row, *map(np.ascontiguousarray, arrays)
        return at.reference[2], at.reference[3]

    def _compare(self, result: NDArray[Any], row: int) -> Errors:
        sums = np.empty((1, SUMS))
        self.support.compare(
            _pointer(result),
            result.itemsize,
            CPlace(*self._at.places[2]),
            *map(_pointer, (*self._reference(row), sums)),
            exact_elements(self.given),
        )
        return errors_of(sums)

    def compute(self, launch: Launch) -> None:
        at, p = self._at, self.given
        self._draw(p.seed)
        self._poison(1)
        launch.before()
        arrays = zip((*at.arrays, at.results[0]), at.places, strict=True)
        own = matrices = [inside(array, place) for array, place in arrays]
        if near(p) != p:
            matrices = list(map(sparse, own, (p.lda, p.ldb, p.ldc)))
        launch.us = self._time(launch.bind(*(matrix.ctypes.data for matrix in matrices)))
        self.busy_us += launch.us
        if matrices is not own:
            own[2][:] = matrices[2]

    def check(self, launch: Launch) -> Errors:
        self.compute(launch)
        return self._compare(self._at.results[0].copy(), 0)

    def check_at_once(self, launch: Launch) -> Errors | None:
        at, times = self._at, 2 * AT_ONCE + 2
        rows, calls = self._calls(launch, times)
        self._draw(self.given.seed)
        self._poison(times)
        both, done = threading.Barrier(2), [False, False]

        def run(mine: int) -> None:
            *compared, spare = calls[mine::2]
            both.wait()
            for call in compared:
                call()
                self._undo()
            done[mine] = True
            while not done[1 - mine]:  # whoever is late is not alone
                spare()

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(run, range(2)))
        found = [self._compare(at.results[turn], rows[turn]) for turn in range(2 * AT_ONCE)]
        return max(found, key=lambda errors: errors.worst)

    def _calls(self, launch: Launch, times: int) -> tuple[list[int], list[Call]]:
        """Return the first rows of A and B of each of several launches, and their calls, with
        memory for their results.
        """
        rows, at = [skipped(self.given, turn) for turn in range(times)], self._at
        if times > len(at.results):
            at.make(extra(self.given, times), times)
        return rows, [launch.bind(*at.addresses(row, turn)) for turn, row in enumerate(rows)]

    def limit(self, half: bool) -> None:
        if half and cores() == 1:
            raise Refused("not_supported", "there is one core")
        self.threads = cores() // 2 if half else cores()
        self._undo()

    @contextmanager
    def busy(self) -> Iterator[None]:
        done = threading.Event()

        def compute(thread: int) -> None:
            while not done.is_set():
                self._fma(BUSY_ROUNDS)

        with ThreadPoolExecutor(cores()) as pool:
            pool.map(compute, range(cores()))
            try:
                yield
            finally:
                done.set()

    def look(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        at = self._at
        places = (*at.places, at.places[2])
        a, b, c, result = (
            x[place.first :].copy()
            for x, place in zip((*at.drawn, at.results[0]), places, strict=True)
        )
        return a, b, c, result

    def differ(self, other: Operands, rows: int) -> tuple[int, int, float, float] | None:
        result, first = (inside(at.results[0], at.places[2]) for at in (self._at, other))
        first = first[..., np.arange(self.given.m) % rows, :]
        bits = f"u{result.itemsize}"
        differ = result.view(bits) != first.view(bits)
        if not differ.any():
            return None
        at = np.unravel_index(differ.argmax(), differ.shape)
        return int(at[-2]), int(at[-1]), float(result[at]), float(first[at])

    def sample(self, launch: Launch, times: int, cold: bool = False, fresh: bool = False) -> Sample:
        rows, calls = self._calls(launch, times)
        fresh = fresh and times > 1 and can_refresh(self.given)
        if fresh:
            changed = fresh_rows(self._random, self.given, rows[-1])
            calls.insert(times - 1, lambda: self._draw(self.given.seed, changed))

        def call() -> None:
            for launch_call in calls:
                launch_call()

        return Sample(call, launch.before, times, fresh=fresh)

    def time_round(
        self, samples: Sequence[Sample], cold: bool, seed: int, compare: bool = False
    ) -> list[Timed]:
        results = list[Timed]()
        for sample in samples:
            sample.before()
            if (self.settle() or self._waited) and not cold:
                # the wait has let BLAS's own buffers go cold. This A differs from the A that is
                # timed
                self._at.arrays[0][:] = self._at.drawn[0][::-1]
                sample.call()
            self._draw(seed)
            self._poison(sample.times)
            if cold:
                self._evict(sample.times)
            # the thread's clock is read first and last, so that a reading never counts for the
            # process alone
            thread, process = time.thread_time_ns(), time.process_time_ns()
            us = self._time(sample.call)
            picked = self._picked(sample, compare)
            # the system accounts for what another thread has computed when that thread comes to
            # rest, or milliseconds later
            self._waited = self.settle()
            cpu_ns = time.process_time_ns() - process, time.thread_time_ns() - thread
            results.append(
                Timed(us, self._audit(*picked), self._compare(*picked) if compare else None, cpu_ns)
            )
        self.reading = self.monitor()
        self.busy_us += sum(timed.us for timed in results)
        return results

    def sustain(self, sample: Sample, us: float, seed: int, wait: float) -> Timed:
        windows: list[float] = []

        def run(calls: int) -> float:
            took = sum(self._time(sample.call) for _ in range(calls))
            windows.append(took / calls)
            self.busy_us += took
            return windows[-1]

        sample.before()
        self._draw(seed)
        self._poison(sample.times)
        settled = back_to_back.settle(run, us, wait, windows.clear)
        us, gaps = back_to_back.typical(windows)
        self.reading = self.monitor()
        self._draw(seed)
        self._poison(sample.times)
        sample.call()
        picked = self._picked(sample)
        audit, errors = self._audit(*picked), self._compare(*picked)
        return Timed(us, audit, errors, settled=settled, gaps=gaps)

    def _picked(self, sample: Sample, last: bool = False) -> tuple[NDArray[Any], int]:
        """Return a copy of the result of one launch, made at once: what a left-behind thread writes
        later comes too late; and its row.
        """
        chosen = audited_launch(self._random, sample.times, last)
        return self._at.results[chosen].copy(), skipped(self.given, chosen)

    def _evict(self, launches: int) -> None:
        """Drop the operands, and the results of `launches` launches, from all caches."""
        for array in (*self._at.arrays, self._at.rooms[:launches]):
            if not self.support.evict(_pointer(array), ctypes.c_longlong(array.nbytes)):
                raise Refused(
                    "not_supported",
                    "nothing evicts data from this processor's caches that a program may use",
                )

    def _audit(self, result: NDArray[Any], row: int) -> Audit:
        """Return the `Audit` of the C of the launch whose A and B begin at `row`. Its random signs
        are drawn only now.
        """
        at, p = self._at, self.given
        signs, projection, sums = np.empty(p.n), np.empty(p.k), np.empty(3)
        seed = ctypes.c_uint64(int(self._random.integers(2**63)))
        self.support.signs(_pointer(signs), ctypes.c_longlong(p.n), seed)
        matrices: list[Any] = []
        for array, drawn, place in zip((*at.arrays, result), at.drawn, at.places, strict=True):
            matrices += [_pointer(array), _pointer(drawn), CPlace(*place)]
        getattr(self.support, f"audit_{p.element_type}")(
            *matrices,
            ctypes.c_longlong(row),
            _pointer(signs),
            *(ctypes.c_double(float(value)) for value in scalars(p)),
            _pointer(projection),
            _pointer(sums),
            *(CDraw(*draw) for draw in draws(p)[:2]),
        )
        return Audit(float(sums[0]), int(sums[1]), int(sums[2]))

    def _time(self, call: Call) -> float:
        """Return the microseconds of a call."""
        start = time.perf_counter_ns()
        call()
        end = time.perf_counter_ns()
        self._undo()
        return (end - start) / 1e3

    def _undo(self) -> None:
        """Undo what a kernel may have set for this thread: how it rounds, how many threads it
        starts, and on which cores.
        """
        self.support.restore(self.threads)
        os.sched_setaffinity(0, self._mask)

    def monitor(self) -> dict[str, float | int | None]:
        path = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")
        return {"sm_clock_mhz": int(path.read_text()) // 1000} if path.exists() else {}

    def watch(self) -> Callable[[], float | None]:
        start, used = clock.now(), _used_by_others()

        def used_cores() -> float:
            used_since = (_used_by_others() - used) / (clock.now() - start)
            return round(used_since, 2) if used_since >= OTHERS else 0.0

        return used_cores

    def describe(self) -> dict[str, Any]:
        facts = {"cores": cores(), "memory_bytes": memory(), **last_level_cache()}
        return facts | {"library": self.blas.version()}

    def peaks(self) -> dict[str, float]:
        rounds, copied, threads = 200_000, 64 << 20, cores()
        source, target = np.ones((threads, copied), np.uint8), np.zeros((threads, copied), np.uint8)

        def fma(thread: int) -> float:
            return 2.0 * self._fma(rounds)

        def copy(thread: int) -> float:
            to, of = _pointer(target[thread]), _pointer(source[thread])
            self.support.peak_copy(to, of, ctypes.c_size_t(copied))
            return 2.0 * copied

        return {"fp32_tflops": _rate(fma, threads) * 1e-6, "copy_tb_s": _rate(copy, threads) * 1e-6}

    def _fma(self, rounds: int) -> float:
        """Make multiply-adds in registers; return how many."""
        factor, term, out = ctypes.c_float(0.999), ctypes.c_float(0.001), ctypes.c_float()
        return float(self.support.peak_fma(rounds, factor, term, ctypes.byref(out)))

    def launch_us(self, times: int) -> float:
        arguments = 0, ctypes.c_float(), ctypes.c_float(), ctypes.byref(ctypes.c_float())

        def empty() -> None:
            for _ in range(times):
                self.support.peak_fma(*arguments)

        self.settle()
        return float(np.median([self._time(empty) for _ in range(200)])) / times

    def close(self) -> None:
        self._scratch.cleanup()


def _load_from(folder: Path, support: Path) -> Any:
    """Return the support library, loaded from the folder of the kernels. Raises `OSError` if that
    fails: then no kernel is to blame.
    """
    copy = folder / "support.so"
    copy.write_bytes(support.read_bytes())
    try:
        return ctypes.CDLL(str(copy))
    except OSError as error:
        raise OSError(
            f"{support}: cannot be loaded from {folder}: {error}; expected what was compiled, and "
            "TMPDIR to be a folder from "
            "which code may be run (not mounted noexec)"
        ) from None


def _used_by_others() -> float:
    """Return the seconds of this process's cores that all others have used, other virtual machines
    too, since some moment.
    """
    cores = os.sched_getaffinity(0)
    busy = [
        sum(times) - times.idle - times.iowait - times.guest - times.guest_nice
        for core, times in enumerate(psutil.cpu_times(percpu=True))
        if core in cores
    ]
    return sum(busy) - time.process_time()


def _others_computing() -> bool:
    mine = str(threading.get_native_id())
    with os.scandir("/proc/self/task") as tasks:
        return any(_state(task.path) == b"R" for task in tasks if task.name != mine)


def _state(task: str) -> bytes:
    """Return a thread's state as proc(5) names it. The program's name before it, in parentheses,
    may contain anything.
    """
    try:
        file = os.open(f"{task}/stat", os.O_RDONLY)
    except FileNotFoundError:  # it has ended since
        return b""
    try:
        return os.read(file, 512).rpartition(b") ")[2][:1]
    except ProcessLookupError:
        return b""
    finally:
        os.close(file)


def _rate(work: Callable[[int], float], threads: int) -> float:
    """Return the work per microsecond of `threads` threads together (ctypes releases the
    interpreter); the best of ten.
    """
    best = 0.0
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(10):
            start = time.perf_counter_ns()
            done = sum(pool.map(work, range(threads)))
            best = max(best, done / (time.perf_counter_ns() - start) * 1e3)
    return best
