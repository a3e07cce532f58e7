"""The operands of a problem in a GPU's memory: drawn, poisoned, audited, and compared with a
float64 reference.

The pipeline's own kernels (`support.cu`) and the vendor's DGEMM do all this, queued on one stream
between the verified launches.
"""

import math
import re
from typing import Any, NamedTuple

import numpy as np
import pycuda.driver as cuda
from cuda.bindings import driver
from numpy.typing import NDArray

from ladder.core.types import ELEMENT_TYPES
from ladder.devices import operands
from ladder.devices.base import Audit, Errors, Refused
from ladder.devices.cuda_stream import succeed
from ladder.devices.operands import (
    CANARY,
    SUMS,
    Draw,
    Place,
    draws,
    errors_of,
    exact_elements,
    extra,
    fresh_rows,
    inside,
    place_in_c,
    places,
    result_shifts,
    scalars,
    scale_draws,
    scale_places,
    skipped,
    spread,
    stored_type,
    values,
    whole,
)
from ladder.model.campaign import MOST_OF_MEMORY
from ladder.model.problem import Problem

CHECK_BLOCKS, CHECK_THREADS = 1024, 256
SHIFT_BYTES, SHIFTS = 256, 4096
"""A buffer begins a random multiple of `SHIFT_BYTES` into its memory, less than a MiB."""
APART_BYTES = 1 << 38
"""The address space, beyond its own size, in which memory apart lies at a random place. All else of
it faults.
"""
STAMPS_US = 10.0
"""The most time between two stamps that is not the sample's."""
_OF_HARDWARE = re.compile(
    "uncorrectable (ECC|NVLink) error|busy or unavailable|no CUDA-capable device|system not yet "
    "initialized"
    "|CUDA_ERROR_(ECC_UNCORRECTABLE|NVLINK_UNCORRECTABLE|DEVICE_UNAVAILABLE|NO_DEVICE|SYSTEM_NOT_READY)"
)
"""Errors that no kernel can cause (CUDA Driver API, "CUresult"), as PyCUDA and `driver` word
them.
"""
OF_PLACE, OF_DRAW = "q" * len(Place._fields), "i" * (len(Draw._fields) - 1) + "Q"
"""Fields of `Place` and `Draw` as in `struct`."""
NOWHERE = 2**64 - 1
"""The place of a difference where there is none."""
AUDITED = 3
"""Numbers that an audit finds, in float64."""
SAMPLED = 16
"""Elements of the float64 reference that the host computes a second time."""


class Apart:
    """Device memory that no launch is told of: at a random place, far from operands. A launch that
    guesses the place faults.

    Raises `cuda.MemoryError` if the device has not enough left (CUDA Driver API, "Virtual Memory
    Management").
    """

    def __init__(self, size: int) -> None:
        kind, access = driver.CUmemAllocationProp(), driver.CUmemAccessDesc()
        kind.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        kind.location.type = access.location.type = (
            driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        )
        kind.location.id = access.location.id = int(succeed(driver.cuCtxGetDevice()))
        access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        finest = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        page = int(succeed(driver.cuMemGetAllocationGranularity(kind, finest)))
        self._size = size + -size % page
        answer = driver.cuMemCreate(self._size, kind, 0)
        if answer[0] == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            raise cuda.MemoryError("cuMemCreate failed: out of memory")
        memory = succeed(answer)
        self._range = int(succeed(driver.cuMemAddressReserve(self._size + APART_BYTES, 0, 0, 0)))
        self._address = self._range + page * int(
            np.random.default_rng().integers(APART_BYTES // page)
        )
        succeed(driver.cuMemMap(self._address, self._size, 0, memory, 0))
        succeed(driver.cuMemRelease(memory))  # it lives as long as it is mapped
        succeed(driver.cuMemSetAccess(self._address, self._size, [access], 1))

    def __int__(self) -> int:
        return self._address

    def free(self) -> None:
        """Give the memory and its addresses back."""
        succeed(driver.cuMemUnmap(self._address, self._size))
        succeed(driver.cuMemAddressFree(self._range, self._size + APART_BYTES))


class Support:
    """The pipeline's own kernels on a stream, their findings, and the device's memory.

    Findings are made in memory apart behind a launch, and copied to the host before the next one:
    what a launch writes there is gone.
    """

    def __init__(self, binary: bytes, stream: Any, multiprocessors: int) -> None:
        self.stream, self._sms = stream, multiprocessors
        self._module = cuda.module_from_buffer(binary)
        self._functions: dict[str, Any] = {}
        self._finding = np.dtype(
            [
                ("audit", "f8", AUDITED),
                ("stamps", "u8", (2, multiprocessors, 3)),
                ("sums", "f8", (CHECK_BLOCKS, SUMS)),
                ("digest", "u8"),
            ]
        )
        """An audit, the stamps before and after a sample, the sums of a comparison, and a digest of
        the reference behind it.
        """
        self._offsets = {name: field[1] for name, field in (self._finding.fields or {}).items()}
        self._here = Apart(self._finding.itemsize)
        self._findings: Any = None
        """The findings of each sample of a round, on the host."""
        self._scratch: Any = None
        self._scratch_bytes = 0
        self._held: dict[int, int] = {}
        """Allocated bytes by address."""

    def allocate(self, size: int, what: str, apart: bool = False) -> Any:
        """Return `size` bytes of device memory, `apart` if launches are not told of it; messages
        call their use `what`.

        If not enough is left, raises `Refused` if the request and what this process holds exceed
        `MOST_OF_MEMORY` of the device's memory. Else something else holds the memory, and it raises
        `OSError`: that is no property of a problem or a kernel, and may differ the next time.
        """
        try:
            buffer = Apart(size) if apart else cuda.mem_alloc(size)
        except cuda.MemoryError:
            total = cuda.mem_get_info()[1]
        else:
            self._held[int(buffer)] = size
            return buffer
        text = f"the device has no {size / 2**30:.1f} GiB left for {what}"
        if sum(self._held.values()) + size > MOST_OF_MEMORY * total:
            raise Refused("not_supported", text)
        raise OSError(
            f"{text}, and {total / 2**30:.1f} GiB in all: something else holds its memory"
        )

    def failure(self, error: Exception, what: str = "", fatal: bool = True) -> Exception:
        """Return the exception to raise for an error of the driver while a kernel was used:
        `Refused`, or an `OSError`.

        It is an `OSError` for errors of the hardware, and for memory that something else holds: no
        kernel is to blame for these.
        """
        if _OF_HARDWARE.search(str(error)):
            return OSError(f"the device failed: {error}")
        if isinstance(error, cuda.MemoryError):
            free, total = cuda.mem_get_info()
            if total - free - sum(self._held.values()) > (1 - MOST_OF_MEMORY) * total:
                return OSError(
                    f"{what}{error}, and {free / 2**30:.1f} GiB left: something else holds its "
                    "memory"
                )
        return Refused("launch_error", f"{what}{error}", fatal)

    def free(self, buffer: Any) -> None:
        """Free memory that `allocate` returned."""
        del self._held[int(buffer)]
        buffer.free()

    def reserve(self, size: int) -> None:
        """Make the scratch at least `size` bytes large. Raises as `allocate` does."""
        if size > self._scratch_bytes:
            self.release()
            self._scratch = self.allocate(size, "the float64 reference", apart=True)
            self._scratch_bytes = size

    def release(self) -> None:
        """Free the scratch."""
        if self._scratch is not None:
            self.free(self._scratch)
        self._scratch, self._scratch_bytes = None, 0

    @property
    def scratch(self) -> int:
        """The address of memory in which references and audits are made behind a launch; nothing in
        it outlives the next one.
        """
        return int(self._scratch)

    def function(self, name: str, layout: str) -> Any:
        """Return one of the kernels, loaded; `layout` describes its arguments as in `struct`."""
        if name not in self._functions:
            self._functions[name] = self._module.get_function(name)
            self._functions[name].prepare(layout)
        return self._functions[name]

    def queue(
        self, name: str, layout: str, *arguments: Any, blocks: int = CHECK_BLOCKS, matrices: int = 1
    ) -> None:
        """Queue one of the kernels, with so many blocks for each of some matrices."""
        self.function(name, layout).prepared_async_call(
            (blocks, matrices), (CHECK_THREADS, 1, 1), self.stream, *arguments
        )

    def address(self, part: str) -> int:
        """Return the address at which a part of a finding is made: `audit`, `stamps`, `sums` or
        `digest`.
        """
        return int(self._here) + self._offsets[part]

    def begin(self, samples: int) -> None:
        """Make room on the host for the findings of a round."""
        if self._findings is None or samples > len(self._findings):
            memory = cuda.pagelocked_empty((samples, self._finding.itemsize), np.uint8)
            self._findings = memory.view(self._finding)[:, 0]

    def stamp(self, after: bool) -> None:
        """Queue a stamp: the cycles of the multiprocessors and the GPU's time now, before or after
        a sample.
        """
        address = self.address("stamps") + after * self._finding["stamps"].itemsize // 2
        self.function("stamp", "P").prepared_async_call(
            (self._sms, 1), (32, 1, 1), self.stream, address
        )

    def keep(self, turn: int) -> None:
        """Queue the copying of the finding to the host, as that of a sample of the round."""
        cuda.memcpy_dtoh_async(
            self._findings[turn : turn + 1].view(np.uint8), int(self._here), self.stream
        )

    def clocks(self, samples: int) -> list[tuple[float | None, float]]:
        """Return for each sample the mean clock in MHz, the median over the multiprocessors that
        both stamps name, and the least microseconds that the sample took by the GPU's time.
        """
        return [_clock(*stamps) for stamps in self._findings["stamps"][:samples]]

    def errors(self, samples: int = 1) -> list[Errors]:
        """Return the findings of the comparisons."""
        return [errors_of(sums) for sums in self._findings["sums"][:samples]]

    def digests(self, samples: int) -> list[int]:
        """Return the digests of the references."""
        return [int(digest) for digest in self._findings["digest"][:samples]]

    def audits(self, samples: int) -> list[Audit]:
        """Return the findings of the audits."""
        return [
            Audit(float(worst), int(changed), int(stray))
            for worst, changed, stray in self._findings["audit"][:samples]
        ]


class Buffer(NamedTuple):
    """The memory of a matrix, from its first byte on, and the matrix's place in it. Canaries fill
    the rest.
    """

    address: int
    place: Place


class Operands:
    """The operands of a problem on the device: sets of A and B, of which `cold` needs several, and
    a C per launch.

    `blas` has the vendor's `product64`. There is no memory before `reserve`.
    """

    def __init__(self, given: Problem, support: Support, blas: Any) -> None:
        if given.batched and scale_places(given):
            raise Refused("not_supported", f"{given.element_type} has no batches")
        self.given, self.sizes = given, given.sizes
        self.draws, self.place_c = draws(given), places(given)[2]
        self.extra = 0
        """Rows of A below its M and of B below its K, or matrices behind a batch, so that each launch
        of a sample can have its own.
        """
        self.sets: list[list[Buffer]] = []
        """Buffers of A and B, and of their scales, if there are any."""
        self.results = self.launches = 0
        """Address and number of the rooms for the buffers of C, which lie one after another: one
        for each launch of a sample.
        """
        self._around = 0, 0
        """Address and bytes of the memory in which they lie."""
        self.stride = (
            -(-self.place_c.total * self.sizes[2] // SHIFT_BYTES) + operands.RESULT_SHIFTS - 1
        ) * SHIFT_BYTES
        """Bytes from one room to the next."""
        self._shifts: list[int] = []
        """How many `SHIFT_BYTES` into its room each buffer begins; the first is at the beginning of
        its room.
        """
        self.graphs: list[Any] = []
        """Captured launches on these operands."""
        m, n, k = given.m, given.n, given.k
        wide = {"a": m * k, "b": k * n, "r": m * n, "s": m * n, "w": k, "squares": k}
        sizes = {name: 8 * count * given.batch for name, count in wide.items()}
        sizes["c"] = self.sizes[2] * self.place_c.total
        self._at: dict[str, int] = {}
        """Where in the scratch things are made: A, B, R and S in float64, B x and the squares of
        the rows of B of an audit, a spare C.
        """
        self.scratch_bytes = 0
        for name, size in sizes.items():
            self._at[name] = self.scratch_bytes
            self.scratch_bytes += size + -size % SHIFT_BYTES
        self._buffers: list[Any] = []
        self._support, self._blas = support, blas
        self._random = np.random.default_rng()
        self._secret = int(self._random.integers(2**63))
        self._fresh_rows = fresh_rows(self._random, given, 0)
        self._reference: tuple[int, int, bool] | None = None
        self._compared: list[int] = []
        """The set and the row of operands of the reference since `renew`, and whether rows of them
        are fresh; for each comparison since then, how many references had been made.
        """

    def free(self) -> None:
        """Free all memory and graphs."""
        for graph in self.graphs:
            driver.cuGraphExecDestroy(graph)
        self.graphs = []
        for buffer in self._buffers:
            self._support.free(buffer)
        self._buffers, self.sets = [], []

    def reserve(self, times: int, flush: int) -> int:
        """Make room for samples of `times` launches: rows of A and B, or matrices, and sets of
        operands. Return the number of sets.

        There are so many sets that the others go through `flush` bytes before a set's turn comes
        again. Raises as `Support.allocate` does.
        """
        one_set = sum(
            size * place.total for size, place in zip(self.sizes, places(self.given), strict=True)
        )
        count = min(times, 1 + math.ceil(flush / one_set))
        needed = extra(self.given, math.ceil(times / count))
        if needed > self.extra:
            self.extra, self.sets = needed, []  # the smaller buffers are freed with the operands
        while len(self.sets) < count:
            a, b, _ = places(self.given, self.extra)
            scales = scale_places(self.given)
            self.sets.append(
                [*map(self._buffer, (a, b)), *(self._buffer(each, 4) for each in scales)]
            )
        if times > self.launches:
            address, size, shift = self._allocate(times * self.stride)
            self.results, self.launches, self._around = address + shift, times, (address, size)
            self._shifts = result_shifts(self._random, times)
        return count

    def _allocate(self, size: int) -> tuple[int, int, int]:
        """Return address and bytes of device memory, freed with the operands, and where in it
        `size` bytes shall begin.

        This is a random place: how operands lie to each other changes the time of some launches by
        a few percent.
        """
        whole = size + (SHIFTS - 1) * SHIFT_BYTES
        self._buffers.append(self._support.allocate(whole, "an operand"))
        return int(self._buffers[-1]), whole, SHIFT_BYTES * int(self._random.integers(SHIFTS))

    def _buffer(self, place: Place, element: int = 0) -> Buffer:
        """Return memory for A or B, or for scales of so many bytes, in which it lies with all around
        it at a random place.
        """
        element = element or self.sizes[0]
        address, size, shift = self._allocate(place.total * element)
        return Buffer(
            address, place._replace(total=size // element, first=shift // element + place.first)
        )

    def of_launch(self, launch: int, sets: int) -> tuple[int, ...]:
        """Return where A, B and C of a launch of a sample begin, then the scales."""
        return self._addresses(*self._turn_of(launch, sets), self._result(launch))

    def spare(self) -> tuple[int, ...]:
        """Return addresses of A, of B and of a C that nobody looks at, then of the scales."""
        return self._addresses(0, 0, self._scratch("c"))

    def _scratch(self, name: str) -> int:
        return self._support.scratch + self._at[name]

    def _result(self, launch: int) -> int:
        """Return the buffer of C of a launch of a sample."""
        return self.results + launch * self.stride + SHIFT_BYTES * self._shifts[launch]

    def _turn_of(self, launch: int, sets: int) -> tuple[int, int]:
        """Return the set of operands of a launch of a sample, and the row, or of a batch the matrix,
        at which its A and its B begin.
        """
        return launch % sets, skipped(self.given, launch // sets)

    def _addresses(self, index: int, row: int, c: int) -> tuple[int, ...]:
        """Return where A and B of a set begin, from `row` on, and C in a buffer, then the scales."""
        a, b, *scales = (
            address + size * (place.first + place.skipped(row))
            for (address, place), size in zip(
                self.sets[index], (*self.sizes[:2], 4, 4), strict=False
            )
        )
        return a, b, c + self.sizes[2] * self.place_c.first, *scales

    def _queue(
        self, name: str, layout: str, *arguments: Any, of_c: bool = False, **more: int
    ) -> None:
        """Queue one of the pipeline's own kernels for the element type, or for that of C."""
        element = ELEMENT_TYPES[self.given.element_type]
        kind = (element.of_c if of_c else element).name
        self._support.queue(f"{name}_{kind}", layout, *arguments, **more)

    def draw(self, seed: int, sets: int) -> None:
        """Queue the drawing of A and B of the first `sets` sets, of their scales, and of the canaries
        around them.
        """
        for index in range(sets):
            self.refresh(seed, index, sets, fresh=False)
            drawn = scale_draws(self._drawn(seed, index, sets, fresh=False))
            for draw, (address, place) in zip(drawn, self.sets[index][2:], strict=False):
                layout = f"P{OF_PLACE}{OF_DRAW}"
                self._support.queue("fill_float32", layout, address, *place, *draw)

    def refresh(self, seed: int, launch: int, sets: int, fresh: bool = True) -> None:
        """Queue the drawing of the set of A and B that a launch of a sample has."""
        matrices = zip(
            self._drawn(seed, launch, sets, fresh), self.sets[launch % sets][:2], strict=False
        )
        for draw, (address, place) in matrices:
            self._queue("fill", f"P{OF_PLACE}{OF_DRAW}", address, *place, *draw)

    def _drawn(self, seed: int, launch: int, sets: int, fresh: bool) -> list[Draw]:
        """Return the contents of A, B and C of a launch; if `fresh`, with other values in a row of
        A and in one of B that the launch multiplies.
        """
        index, row = self._turn_of(launch, sets)
        own = 0 if self.given.batched else row
        rows = [*(own + offset for offset in self._fresh_rows), -1] if fresh else [-1] * 3
        return [
            draw._replace(seed=_seed(seed, index), fresh=other)
            for draw, other in zip(self.draws, rows, strict=True)
        ]

    def renew(self, seed: int) -> None:
        """Queue the poisoning of all rooms of C, then the drawing of A and B of all sets.

        The rooms come first: they may be larger than the L2, and A and B are to be left there.
        """
        address, size = self._around
        cuda.memset_d32_async(address, CANARY, size // 4, self._support.stream)
        self.draw(seed, len(self.sets))
        self._reference, self._compared = None, []

    def poison(self, buffer: int, seed: int) -> None:
        """Queue the poisoning of a buffer of C: canaries, or its old values if beta is not 0."""
        if self.given.beta == 0:
            words = self.place_c.total * self.sizes[2] // 4
            cuda.memset_d32_async(buffer, CANARY, words, self._support.stream)
        else:
            draw = self.draws[2]._replace(seed=seed)
            layout = f"P{OF_PLACE}{OF_DRAW}"
            self._queue("fill", layout, buffer, *self.place_c, *draw, of_c=True)

    def poison_results(self, launches: int, sets: int, seed: int) -> None:
        """Queue the poisoning of the C of each launch of a sample, and of the rooms in which they
        lie.
        """
        words = launches * self.stride // 4
        cuda.memset_d32_async(self.results, CANARY, words, self._support.stream)
        if self.given.beta != 0:
            for launch in range(launches):
                self.poison(self._result(launch), _seed(seed, launch % sets))

    def make_reference(
        self, seed: int, launch: int = 0, sets: int = 1, fresh: bool = False
    ) -> None:
        """Queue R = alpha*A*B + beta*C and S = |alpha| |A| |B| + |beta| |C| of a launch's operands
        in float64, by cuBLAS DGEMM.

        The operands are drawn again for it. If all elements of C must be exact, S is not needed,
        and is 0.
        """
        row, drawn = self._turn_of(launch, sets)[1], self._drawn(seed, launch, sets, fresh)
        m, n, k, count = self.given.m, self.given.n, self.given.k, self.given.batch
        alpha, beta = (float(value) for value in scalars(self.given))
        a, b = self._scratch("a"), self._scratch("b")
        for absolute, out in ((0, self._scratch("r")), (1, self._scratch("s"))):
            if absolute and whole(self.given):
                cuda.memset_d32_async(out, 0, 2 * m * n * count, self._support.stream)
                continue
            matrices = [(row, count, m, k, a), (row, count, k, n, b)]
            if beta != 0:
                matrices.append((0, count, m, n, out))
            for draw, wide in zip(drawn, matrices, strict=False):
                layout, of_c = f"{OF_DRAW}qqqqPi", draw.matrix == 2
                self._queue("draw_wide", layout, *draw, *wide, absolute, of_c=of_c)
            factor = abs if absolute else float
            self._blas.product64(m, n, k, factor(alpha), a, b, factor(beta), out, count)

    def check_reference(self) -> None:
        """Compare sampled elements of the reference with the host's arithmetic on the data in the
        device's memory.

        This verifies the verification itself. Raises `RuntimeError` if they differ.
        """
        given, (dtype, _, dtype_c) = self.given, self._stored()
        alpha, beta = (float(value) for value in scalars(given))
        random = np.random.default_rng(given.seed)
        sides = given.batch, given.m, given.n
        picked = zip(*(random.integers(0, side, SAMPLED).tolist() for side in sides), strict=True)
        firsts = self.spare()[:3]
        self.poison(self._scratch("c"), given.seed)
        self._support.stream.synchronize()
        scales = self._scales()
        got, c = np.empty(1), np.zeros(1, dtype_c)
        a, b = np.empty((1, given.k), dtype), np.empty((given.k, 1), dtype)
        turned_a, turned_b, _ = given.transposed

        def take(to: NDArray[Any], first: int, number: int, ld: int, down: bool) -> None:
            """Copy a row in memory to the host, or a column."""
            if not down:
                cuda.memcpy_dtoh(to, first + dtype.itemsize * number * ld)
                return
            column = cuda.Memcpy2D()
            column.set_src_device(first + dtype.itemsize * number)
            column.set_dst_host(to)
            column.width_in_bytes = column.dst_pitch = dtype.itemsize
            column.height, column.src_pitch = to.size, dtype.itemsize * ld
            column(aligned=False)

        for number, row, col in picked:
            first_a, first_b, first_c = (
                first + size * number * stride
                for first, size, stride in zip(firsts, given.sizes, given.strides, strict=True)
            )
            place = (number * given.m + row) * given.n + col
            cuda.memcpy_dtoh(got, self._scratch("r") + 8 * place)
            take(a, first_a, row, given.lda, down=turned_a)
            take(b, first_b, col, given.ldb, down=not turned_b)
            if beta != 0:
                cuda.memcpy_dtoh(c, first_c + dtype_c.itemsize * (row * given.ldc + col))
            by_row, by_column = spread(given, scales, slice(row, row + 1), slice(col, col + 1))
            scaled = values(a) * by_row, values(b) * by_column
            with np.errstate(invalid="ignore", over="ignore"):
                expected, scale = (
                    value.item() for value in operands.reference(alpha, beta, *scaled, c[None])
                )
                off = abs(got[0] - expected)
            alike = np.isfinite(expected) or np.array_equal(got[0], expected, equal_nan=True)
            if not alike or off > 2.0**-52 * (given.k + 2) * scale:
                raise RuntimeError(
                    f"the float64 reference is wrong at {place_in_c(given, place)}: {got[0]} "
                    f"instead of {expected}"
                )

    def compare_anew(self, seed: int, launch: int, sets: int, fresh: bool = False) -> None:
        """Queue the comparison of a launch's C with its reference, as drawn since `renew`.

        The reference of the comparison before serves again if it has the same operands. Its digest
        then shows whether a launch has changed it meanwhile.
        """
        made = self._compared[-1] if self._compared else 0
        of = *self._turn_of(launch, sets), fresh
        if self._reference != of:
            self._reference = of
            self.make_reference(seed, launch, sets, fresh)
            made += 1
        self._compared.append(made)
        self.compare(launch)
        words = (self._at["w"] - self._at["r"]) // 8
        digest = self._support.address("digest")
        cuda.memset_d32_async(digest, 0, 2, self._support.stream)
        self._support.queue("digest", "PqQP", self._scratch("r"), words, self._secret, digest)

    def changed_references(self) -> list[bool]:
        """Return of each comparison since `renew` whether a launch had changed the reference."""
        first: dict[int, int] = {}
        digests = self._support.digests(len(self._compared))
        return [
            digest != first.setdefault(made, digest)
            for made, digest in zip(self._compared, digests, strict=True)
        ]

    def compare(self, launch: int = 0) -> None:
        """Queue the comparison of a launch's C with the reference."""
        expected = self._scratch("r"), self._scratch("s")
        to, exact = self._support.address("sums"), exact_elements(self.given)
        result = self._result(launch)
        layout = f"P{OF_PLACE}PPPi"
        self._queue("compare", layout, result, *self.place_c, *expected, to, exact, of_c=True)

    def audit(self, launch: int, sets: int, seed: int, secret: int, fresh: bool = False) -> None:
        """Queue the audit of a launch; `secret` is the seed of the random signs."""
        (index, row), p = self._turn_of(launch, sets), self.given
        a, b, *scales = self.sets[index]
        w, squares = self._scratch("w"), self._scratch("squares")
        draw_a, draw_b, draw_c = drawn = self._drawn(seed, launch, sets, fresh)
        audit, most = self._support.address("audit"), 4 * CHECK_BLOCKS
        cuda.memset_d32_async(audit, 0, 8 * AUDITED // 4, self._support.stream)
        of_b = b.address, *b.place, *draw_b, row, p.batch, p.n, secret, w, squares, audit
        layout = f"P{OF_PLACE}{OF_DRAW}qqqQPPP"
        blocks = min(max(b.place.rows, b.place.ld), most)
        self._queue("audit_b", layout, *of_b, blocks=blocks, matrices=b.place.matrices)
        factors = (float(value) for value in scalars(p))
        of_c = self._result(launch), *self.place_c, *draw_c
        of_a = a.address, *a.place, *draw_a, row, *of_c, w, squares, secret, *factors, audit
        for each, draw in zip(scales, scale_draws(drawn), strict=False):  # that they are unchanged
            of_scale = each.address, *each.place, *draw, audit
            self._support.queue("audit_scales", f"P{OF_PLACE}{OF_DRAW}P", *of_scale)
        layout = f"P{OF_PLACE}{OF_DRAW}qP{OF_PLACE}{OF_DRAW}PPQddP"
        blocks = min(max(a.place.rows, a.place.ld), most)
        self._queue("audit_a", layout, *of_a, blocks=blocks, matrices=a.place.matrices)

    def _stored(self) -> list[np.dtype[Any]]:
        """Return NumPy's types of A, B and C as they lie in memory."""
        element = ELEMENT_TYPES[self.given.element_type]
        return [stored_type(each.name) for each in (element, element, element.of_c)]

    def _scales(self) -> list[NDArray[Any]]:
        """Return the scales of the first set."""
        found = []
        for address, place in self.sets[0][2:]:
            found.append(np.empty((place.rows, place.cols), np.float32))
            cuda.memcpy_dtoh(found[-1], address + 4 * place.first)
        return found

    def look(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return A, B and C drawn from the problem's own seed, and the first launch's result. Each
        is flat, from the first element on; A and B in float64, if they have scales, by which they
        are multiplied.
        """
        self.draw(self.given.seed, 1)
        self.poison(self._scratch("c"), self.given.seed)
        self._support.stream.synchronize()
        arrays, own = [], (*places(self.given), self.place_c)
        addresses = (*self.spare()[:3], self.of_launch(0, 1)[2])
        kinds = *self._stored(), self._stored()[2]
        for place, address, kind in zip(own, addresses, kinds, strict=True):
            array = np.empty(place.total - place.first, kind)
            cuda.memcpy_dtoh(array, address)
            arrays.append(array)
        if scales := self._scales():
            factors = zip(spread(self.given, scales), self.given.transposed, strict=False)
            for index, (factor, turned) in enumerate(factors):
                arrays[index] = values(arrays[index])
                inside(arrays[index], own[index]._replace(first=0))[:] *= (
                    factor.T if turned else factor
                )
        a, b, c, result = arrays
        return a, b, c, result

    def differ(self, other: "Operands", rows: int) -> tuple[int, int, float, float] | None:
        """As `Device.differ`."""
        where = self._support.address("digest")
        cuda.memset_d32_async(where, NOWHERE % 2**32, 2, self._support.stream)
        both = self._result(0), *self.place_c, other._result(0), *other.place_c
        self._support.begin(1)
        self._queue("differ", f"P{OF_PLACE}P{OF_PLACE}qP", *both, rows, where, of_c=True)
        self._support.keep(0)
        self._support.stream.synchronize()
        (place,) = self._support.digests(1)
        if place == NOWHERE:
            return None
        row, column = divmod(place, self.given.n)
        matrix, row = divmod(row, self.given.m)
        element, found = np.empty(1, self._stored()[2]), []
        for at, line in (self, row), (other, row % rows):
            before = matrix * at.place_c.stride + line * at.given.ldc + column
            cuda.memcpy_dtoh(element, at.of_launch(0, 1)[2] + at.sizes[2] * before)
            found.append(float(values(element)[0]))
        return row, column, found[0], found[1]


def _clock(before: NDArray[np.uint64], after: NDArray[np.uint64]) -> tuple[float | None, float]:
    """Return the clock between two stamps, and the microseconds; rows are a multiprocessor's
    number, its cycles, and nanoseconds.
    """
    earlier = {number: (cycles, ns) for number, cycles, ns in before.tolist()}
    clocks = [
        1e3 * (cycles - earlier[number][0]) / (ns - earlier[number][1])
        for number, cycles, ns in after.tolist()
        if number in earlier and ns > earlier[number][1]
    ]
    mhz = round(float(np.median(clocks)), 1) if clocks else None  # more digits only fill files
    return mhz, (int(after[:, 2].min()) - int(before[:, 2].max())) / 1e3 - STAMPS_US


def _seed(seed: int, index: int) -> int:
    """Return the seed of a set of operands; the first has the round's."""
    return (seed + index * 0x9E3779B97F4A7C15) % 2**64
