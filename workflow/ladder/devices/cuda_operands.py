"""The operands of a problem in a GPU's memory: drawn, poisoned, audited, and compared with a float64 reference.

The pipeline's own kernels (`support.cu`) and the vendor's DGEMM do all this, queued on one stream between the verified launches.
"""

import math
import re
from typing import Any

import numpy as np
import pycuda.driver as cuda
from numpy.typing import NDArray

from ladder.core.types import ELEMENT_TYPES
from ladder.devices import operands
from ladder.devices.base import Audit, Errors, Refused
from ladder.devices.operands import (
    CANARY,
    Place,
    draws,
    errors_of,
    exact_elements,
    places,
    result_shifts,
    scalars,
    stored_type,
    view_step,
)
from ladder.model.campaign import MOST_OF_MEMORY
from ladder.model.problem import Problem

CHECK_BLOCKS, CHECK_THREADS = 1024, 256
SHIFT_BYTES, SHIFTS = 256, 4096
"""A buffer begins a random multiple of `SHIFT_BYTES` into its memory, less than a MiB."""
MAX_ROUND = 256
"""The most samples of a round."""
SUMS_BYTES, AUDIT_BYTES, STAMP_BYTES = CHECK_BLOCKS * 7 * 8, 3 * 8, 3 * 8
"""Bytes that a comparison and an audit write for one sample, and each multiprocessor for a stamp."""
_OF_HARDWARE = re.compile(
    "uncorrectable (ECC|NVLink) error|busy or unavailable|no CUDA-capable device|system not yet initialized"
    "|CUDA_ERROR_(ECC_UNCORRECTABLE|NVLINK_UNCORRECTABLE|DEVICE_UNAVAILABLE|NO_DEVICE|SYSTEM_NOT_READY)"
)
"""Errors that no kernel can cause (CUDA Driver API, "CUresult"), as PyCUDA and `driver` word them."""
SAMPLED = 16
"""Elements of the float64 reference that the host computes a second time."""


class Support:
    """The pipeline's own kernels on a stream, their findings for each sample of a round, and the device's memory."""

    def __init__(self, binary: bytes, stream: Any, multiprocessors: int) -> None:
        self.stream, self._sms = stream, multiprocessors
        self._module = cuda.module_from_buffer(binary)
        self._functions: dict[str, Any] = {}
        self._sums = cuda.mem_alloc(MAX_ROUND * SUMS_BYTES)
        self._audits = cuda.mem_alloc(MAX_ROUND * AUDIT_BYTES)
        self._stamps = cuda.mem_alloc(2 * MAX_ROUND * multiprocessors * STAMP_BYTES)
        self._held: dict[int, int] = {}
        """Allocated bytes by address."""

    def allocate(self, size: int, what: str) -> Any:
        """Return `size` bytes of device memory; messages call their use `what`.

        If not enough is left, raises `Refused` if the request and what this process holds exceed `MOST_OF_MEMORY` of the device's memory.
        Else something else holds the memory, and it raises `OSError`: that is no property of a problem or a kernel, and may differ the next
        time.
        """
        try:
            buffer = cuda.mem_alloc(size)
        except cuda.MemoryError:
            total = cuda.mem_get_info()[1]
        else:
            self._held[int(buffer)] = size
            return buffer
        text = f"the device has no {size / 2**30:.1f} GiB left for {what}"
        if sum(self._held.values()) + size > MOST_OF_MEMORY * total:
            raise Refused("not_supported", text)
        raise OSError(f"{text}, and {total / 2**30:.1f} GiB in all: something else holds its memory")

    def failure(self, error: Exception, what: str = "", fatal: bool = True) -> Exception:
        """Return the exception to raise for an error of the driver while a kernel was used: `Refused`, or an `OSError`.

        It is an `OSError` for errors of the hardware, and for memory that something else holds: no kernel is to blame for these.
        """
        if _OF_HARDWARE.search(str(error)):
            return OSError(f"the device failed: {error}")
        if isinstance(error, cuda.MemoryError):
            free, total = cuda.mem_get_info()
            if total - free - sum(self._held.values()) > (1 - MOST_OF_MEMORY) * total:
                return OSError(f"{what}{error}, and {free / 2**30:.1f} GiB left: something else holds its memory")
        return Refused("launch_error", f"{what}{error}", fatal)

    def free(self, buffer: Any) -> None:
        """Free memory that `allocate` returned."""
        del self._held[int(buffer)]
        buffer.free()

    def function(self, name: str, layout: str) -> Any:
        """Return one of the kernels, loaded; `layout` describes its arguments as in `struct`."""
        if name not in self._functions:
            self._functions[name] = self._module.get_function(name)
            self._functions[name].prepare(layout)
        return self._functions[name]

    def queue(self, name: str, layout: str, *arguments: Any, blocks: int = CHECK_BLOCKS) -> None:
        """Queue one of the kernels."""
        self.function(name, layout).prepared_async_call((blocks, 1), (CHECK_THREADS, 1, 1), self.stream, *arguments)

    def sums(self, turn: int = 0) -> int:
        """Return the address to which the comparison of a sample's result is written."""
        return int(self._sums) + turn * SUMS_BYTES

    def audit(self, turn: int) -> int:
        """Return the address to whose contents the audit of a sample is added."""
        return int(self._audits) + turn * AUDIT_BYTES

    def clear_audits(self, samples: int) -> None:
        """Queue the clearing of the audits of `samples` samples."""
        cuda.memset_d32_async(int(self._audits), 0, samples * AUDIT_BYTES // 4, self.stream)

    def stamp(self, index: int) -> None:
        """Queue a stamp: the cycles of the multiprocessors and the GPU's time now. A sample lies between an even and an odd one."""
        address = int(self._stamps) + index * self._sms * STAMP_BYTES
        self.function("stamp", "P").prepared_async_call((self._sms, 1), (32, 1, 1), self.stream, address)

    def clocks(self, samples: int) -> list[float | None]:
        """Return the mean clock in MHz during each sample: the median over the multiprocessors that both stamps name."""
        stamps = np.empty((samples, 2, self._sms, 3), np.uint64)
        cuda.memcpy_dtoh(stamps, self._stamps)
        return [_clock_mhz(*pair) for pair in stamps]

    def errors(self, samples: int) -> list[Errors]:
        """Return the findings of the comparisons. Raises `cuda.Error` if the context is lost."""
        sums = np.empty((samples, CHECK_BLOCKS, 7))
        cuda.memcpy_dtoh(sums, self._sums)
        return [errors_of(own) for own in sums]

    def audits(self, samples: int) -> list[Audit]:
        """Return the findings of the audits. Raises `cuda.Error` if the context is lost."""
        sums = np.empty((samples, 3))
        cuda.memcpy_dtoh(sums, self._audits)
        return [Audit(float(worst), int(changed), int(stray)) for worst, changed, stray in sums]


class Operands:
    """The operands of a problem on the device: sets of A and B, of which `cold` needs several, a C per launch, and the reference.

    `blas` has the vendor's `product64`. There is no memory before `make`.
    """

    def __init__(self, given: Problem, support: Support, blas: Any) -> None:
        self.given, self.size = given, ELEMENT_TYPES[given.element_type].size
        self.draws = draws(given)
        self.extra = 0
        """Rows of B below its K, so that each launch of a sample can have its own rows."""
        self.firsts = [self.size * place.first for place in self.places]
        """Bytes from the beginning of a buffer of A, of B and of C to its matrix."""
        self.sets: list[tuple[int, int]] = []
        """Buffers of A and B."""
        self.results = self.launches = 0
        """Address and number of the rooms for the buffers of C, which lie one after another: one for each launch of a sample."""
        self.stride = (-(-self.places[2].total * self.size // SHIFT_BYTES) + operands.RESULT_SHIFTS - 1) * SHIFT_BYTES
        """Bytes from one room to the next."""
        self._shifts: list[int] = []
        """How many `SHIFT_BYTES` into its room each buffer begins; the first is at the beginning of its room."""
        self.graphs: list[Any] = []
        """Captured launches on these operands. The device frees them."""
        self._unseen = 0
        """A buffer of C that nobody looks at."""
        self._product = self._scale = 0
        """The float64 reference: R and S, M x N."""
        self._wide = self._projection = 0, 0
        """A (M x K) and B (K x N) in float64; then, of an audit, B x and the sum of squares of each row of B (K)."""
        self._buffers: list[Any] = []
        self._reference: tuple[Any, ...] = ()
        """The seed, set and row of B that the float64 reference belongs to."""
        self._support, self._blas = support, blas
        self._random = np.random.default_rng()

    @property
    def places(self) -> tuple[Place, Place, Place]:
        """Where A, B and C lie in their buffers."""
        return places(self.given, self.extra)

    def make(self) -> None:
        """Allocate memory for a launch on one set, and for the reference. Raises as `Support.allocate` does."""
        m, n, k = self.given.m, self.given.n, self.given.k
        self._make_room(1, 1)
        self._unseen = self._allocate(self.places[2].total, self.size)
        self._product, self._scale = self._allocate(m * n, 8), self._allocate(m * n, 8)
        self._wide = self._allocate(m * k, 8), self._allocate(k * n, 8)
        self._projection = self._allocate(k, 8), self._allocate(k, 8)

    def free(self) -> None:
        """Free all memory."""
        for buffer in self._buffers:
            self._support.free(buffer)
        self._buffers, self.sets = [], []

    def reserve(self, times: int, flush: int) -> int:
        """Make room for samples of `times` launches: rows of B, and sets of operands. Return the number of sets.

        There are so many sets that the others go through `flush` bytes before a set's turn comes again. Raises as `Support.allocate` does.
        """
        count = min(times, 1 + math.ceil(flush / (self.size * sum(place.total for place in places(self.given)))))
        extra = view_step(self.given) * (math.ceil(times / count) - 1)
        if extra > self.extra:
            self.extra, self.sets = extra, []  # the smaller buffers are freed with the operands
        self._make_room(count, times)
        return count

    def _make_room(self, sets: int, launches: int) -> None:
        while len(self.sets) < sets:
            a, b = (self._allocate(place.total, self.size) for place in self.places[:2])
            self.sets.append((a, b))
        if launches > self.launches:
            self.results, self.launches = self._allocate(launches, self.stride), launches
            self._shifts = result_shifts(self._random, launches)

    def _allocate(self, count: int, size: int) -> int:
        """Return the address of device memory for `count` elements of `size` bytes, freed with the operands.

        It begins at a random place: how operands lie to each other changes the time of some launches by a few percent.
        """
        self._buffers.append(self._support.allocate(count * size + (SHIFTS - 1) * SHIFT_BYTES, "an operand"))
        return int(self._buffers[-1]) + SHIFT_BYTES * int(self._random.integers(SHIFTS))

    def of_launch(self, launch: int, sets: int) -> tuple[int, int, int]:
        """Return where A, B and C of a launch of a sample begin."""
        return *self._addresses(*self._turn_of(launch, sets)), self._result(launch) + self.firsts[2]

    def spare(self) -> tuple[int, int, int]:
        """Return addresses of A, of B and of a C that nobody looks at."""
        return *self._addresses(0, 0), self._unseen + self.firsts[2]

    def _result(self, launch: int) -> int:
        """Return the buffer of C of a launch of a sample."""
        return self.results + launch * self.stride + SHIFT_BYTES * self._shifts[launch]

    def _turn_of(self, launch: int, sets: int) -> tuple[int, int]:
        """Return the set of operands of a launch of a sample, and the row at which its B begins."""
        return launch % sets, view_step(self.given) * (launch // sets)

    def _addresses(self, index: int, row: int) -> tuple[int, int]:
        """Return where A, and B from `row` on, of a set begin."""
        a, b = self.sets[index]
        return a + self.firsts[0], b + self.firsts[1] + self.size * row * self.given.ldb

    def _queue(self, name: str, layout: str, *arguments: Any, **more: int) -> None:
        """Queue one of the pipeline's own kernels for the element type."""
        self._support.queue(f"{name}_{self.given.element_type}", layout, *arguments, **more)

    def draw(self, seed: int, sets: int) -> None:
        """Queue the drawing of A and B of the first `sets` sets."""
        for index in range(sets):
            for matrix in (0, 1):
                draw = self.draws[matrix]._replace(seed=_seed(seed, index))
                self._queue("fill", "PqqqqqiiiiiiiiiiQ", self.sets[index][matrix], *self.places[matrix], *draw)

    def poison(self, buffer: int, seed: int) -> None:
        """Queue the poisoning of a buffer of C: canaries, or its old values if beta is not 0."""
        place = self.places[2]
        if self.given.beta == 0:
            cuda.memset_d32_async(buffer, CANARY, place.total * self.size // 4, self._support.stream)
        else:
            self._queue("fill", "PqqqqqiiiiiiiiiiQ", buffer, *place, *self.draws[2]._replace(seed=seed))

    def poison_results(self, launches: int, sets: int, seed: int) -> None:
        """Queue the poisoning of the C of each launch of a sample."""
        if self.given.beta == 0:
            cuda.memset_d32_async(self.results, CANARY, launches * self.stride // 4, self._support.stream)
        else:
            for launch in range(launches):
                self.poison(self._result(launch), _seed(seed, launch % sets))

    def make_reference(self, seed: int, launch: int = 0, sets: int = 1) -> None:
        """Queue R = alpha*A*B + beta*C and S = |alpha| |A| |B| + |beta| |C| of a launch's operands in float64, by cuBLAS DGEMM."""
        index, row = self._turn_of(launch, sets)
        if self._reference == (seed, index, row):
            return
        self._reference = seed, index, row
        m, n, k = self.given.m, self.given.n, self.given.k
        alpha, beta = (float(value) for value in scalars(self.given))
        (a, b), c = self._addresses(index, row), self._unseen + self.firsts[2]
        for absolute, out in ((0, self._product), (1, self._scale)):
            self._widen(a, self.given.lda, m, k, self._wide[0], absolute)
            self._widen(b, self.given.ldb, k, n, self._wide[1], absolute)
            if beta != 0:
                self.poison(self._unseen, _seed(seed, index))
                self._widen(c, self.given.ldc, m, n, out, absolute)
            factor = abs if absolute else float
            self._blas.product64(m, n, k, factor(alpha), self._wide[0], self._wide[1], factor(beta), out)

    def _widen(self, source: int, ld: int, rows: int, cols: int, out: int, absolute: int) -> None:
        self._queue("widen", "PqqqPi", source, ld, rows, cols, out, absolute)

    def check_reference(self) -> None:
        """Compare sampled elements of the reference with the host's arithmetic on the data in the device's memory.

        This verifies the verification itself. Raises `RuntimeError` if they differ.
        """
        given = self.given
        dtype, alpha, beta = stored_type(given.element_type), *(float(value) for value in scalars(given))
        random = np.random.default_rng(given.seed)
        rows, cols = random.integers(0, given.m, SAMPLED), random.integers(0, given.n, SAMPLED)
        first_a, first_b, first_c = self.spare()
        got, a, b, c = np.empty(1), np.empty(given.k, dtype), np.empty((given.k, 1), dtype), np.zeros(1, dtype)
        column = cuda.Memcpy2D()
        column.set_dst_host(b)
        column.width_in_bytes, column.height, column.src_pitch = dtype.itemsize, given.k, dtype.itemsize * given.ldb
        column.dst_pitch = dtype.itemsize
        for row, col in zip(rows.tolist(), cols.tolist(), strict=True):
            cuda.memcpy_dtoh(got, self._product + 8 * (row * given.n + col))
            cuda.memcpy_dtoh(a, first_a + dtype.itemsize * row * given.lda)
            column.set_src_device(first_b + dtype.itemsize * col)
            column(aligned=False)
            if beta != 0:
                cuda.memcpy_dtoh(c, first_c + dtype.itemsize * (row * given.ldc + col))
            with np.errstate(invalid="ignore", over="ignore"):
                expected, scale = (value.item() for value in operands.reference(alpha, beta, a[None], b, c[None]))
                off = abs(got[0] - expected)
            alike = np.isfinite(expected) or got[0] == expected or (np.isnan(got[0]) and np.isnan(expected))
            if not alike or off > 2.0**-52 * (given.k + 2) * scale:
                raise RuntimeError(f"the float64 reference is wrong at C[{row}][{col}]: {got[0]} instead of {expected}")

    def compare(self, turn: int, launch: int = 0) -> None:
        """Queue the comparison of a launch's C with the reference, for the sample of that turn."""
        result, sums = self._result(launch), self._support.sums(turn)
        self._queue(
            "compare", "PqqqqqPPPi", result, *self.places[2], self._product, self._scale, sums, exact_elements(self.given)
        )

    def audit(self, turn: int, launch: int, sets: int, seed: int, secret: int) -> None:
        """Queue the audit of a launch, for the sample of that turn; `secret` is the seed of the random signs."""
        (index, row), p = self._turn_of(launch, sets), self.given
        (a, b), (place_a, place_b, place_c) = self.sets[index], self.places
        draw_a, draw_b, draw_c = (draw._replace(seed=_seed(seed, index)) for draw in self.draws)
        projection, sums = self._projection, self._support.audit(turn)
        of_b = b, *place_b, *draw_b, row, p.k, secret, *projection, sums
        self._queue("audit_b", "PqqqqqiiiiiiiiiiQqqQPPP", *of_b, blocks=min(place_b.rows, 4 * CHECK_BLOCKS))
        factors = (float(value) for value in scalars(p))
        of_a = a, *place_a, *draw_a, self._result(launch), *place_c, *draw_c, *projection, secret, *factors, sums
        self._queue("audit_a", "PqqqqqiiiiiiiiiiQPqqqqqiiiiiiiiiiQPPQddP", *of_a, blocks=min(p.m, 4 * CHECK_BLOCKS))

    def look(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return A, B and C drawn from the problem's own seed, and the first launch's result. Each is flat, from the first element on."""
        self.draw(self.given.seed, 1)
        self.poison(self._unseen, self.given.seed)
        self._support.stream.synchronize()
        arrays = []
        for place, address in zip((*self.places, self.places[2]), (*self.sets[0], self._unseen, self.results), strict=True):
            buffer = np.empty(place.total, stored_type(self.given.element_type))
            cuda.memcpy_dtoh(buffer, address)
            arrays.append(buffer[place.first :])
        a, b, c, result = arrays
        return a, b, c, result


def _clock_mhz(before: NDArray[np.uint64], after: NDArray[np.uint64]) -> float | None:
    """Return the clock between two stamps; rows are a multiprocessor's number, its cycles, and nanoseconds."""
    earlier = {number: (cycles, ns) for number, cycles, ns in before.tolist()}
    clocks = [
        1e3 * (cycles - earlier[number][0]) / (ns - earlier[number][1])
        for number, cycles, ns in after.tolist()
        if number in earlier and ns > earlier[number][1]
    ]
    return round(float(np.median(clocks)), 1) if clocks else None  # more digits only fill files


def _seed(seed: int, index: int) -> int:
    """Return the seed of a set of operands; the first has the round's."""
    return (seed + index * 0x9E3779B97F4A7C15) % 2**64
