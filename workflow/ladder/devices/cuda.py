"""An NVIDIA GPU through PyCUDA: kernels as cubins, timed by events on one stream.

Rounds are queued behind a gate that the host opens once everything is queued: no event then waits for the host, however slow Python is.
Repeated launches are captured in a CUDA graph for the same reason (CUDA C++ Programming Guide, "CUDA Graphs"). Clocks, power and
temperature are read through NVML once the gate is open: while the device executes the round.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pycuda.driver as cuda
import pynvml
from cuda.bindings import driver
from numpy.typing import NDArray

from ladder.campaign import Problem
from ladder.devices import (
    CANARY,
    GUARD,
    Audit,
    Call,
    Device,
    Errors,
    Launch,
    Place,
    Refused,
    Sample,
    Timed,
    draws,
    errors_of,
    places,
    scalars,
    view_step,
    whole,
)
from ladder.devices.meter import Meter
from ladder.environment import slugify
from ladder.kernels import Configuration, Kernel, LaunchShape
from ladder.units import ELEMENT_TYPES

MAX_GRID = (2**31 - 1, 65535, 65535)
"""Blocks of a grid in x, y, z (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability")."""
FREE_SHARED = 48 << 10
"""Bytes of shared memory a block gets without asking for more."""
CHECK_BLOCKS, CHECK_THREADS = 1024, 256
SHIFT_BYTES, SHIFTS = 256, 4096
"""A buffer begins a random multiple of these bytes into its memory, less than a MiB."""
MAX_ROUND = 256
"""Samples of a round."""
SUMS_BYTES, AUDIT_BYTES = CHECK_BLOCKS * 7 * 8, 3 * 8
"""What `compare` and an audit write for one sample."""
SCALAR_CODES = {"float32": "f", "float64": "d", "float16": "H"}
"""`struct` codes of alpha and beta as kernel arguments."""
READING_SECONDS = 0.02
"""A reading of NVML serves the rounds of this long: it takes the host about a millisecond."""
ENERGY_LEAD_SECONDS = 0.1
"""Of a stretch of launches, what passes before their energy is counted: what the counter adds lags behind."""
SAMPLED = 16
"""Elements of the float64 reference that are computed a second time on the host."""


class Operands:
    """The operands of a problem on the device: sets of A, B and C, of which `cold` needs several, and what an audit needs beside them."""

    def __init__(self, given: Problem) -> None:
        self.given, self.size = given, ELEMENT_TYPES[given.element_type].size
        self.draws = draws(given)
        self.first = self.size * (GUARD + given.offset)
        """Bytes from the beginning of a buffer to that of its matrix."""
        self.extra = 0
        """Rows of B below its K, so that the launches of a sample can each have rows of their own."""
        self.sets: list[tuple[int, int]] = []
        """Buffers of A and B."""
        self.results = self.launches = 0
        """Where the buffers of C lie, one after another, and how many: one for each launch of a sample."""
        self.stride = -(-self.places[2].total * self.size // SHIFT_BYTES) * SHIFT_BYTES
        """Bytes from one of them to the next."""
        self.spare = 0
        """A buffer of C that is not looked at."""
        self.product = self.scale = 0
        """The float64 reference: R and S, M x N."""
        self.wide = self.projection = 0, 0
        """A (M x K) and B (K x N) in float64; of an audit, B x and the square of each row of B (K)."""
        self.buffers: list[Any] = []
        self.graphs: list[Any] = []
        self.reference: tuple[Any, ...] = ()
        """Which seed, set and row of B the float64 reference is of."""

    @property
    def places(self) -> tuple[Place, Place, Place]:
        return places(self.given, self.extra)


class Cuda(Device):
    """One GPU, chosen by its UUID, with the primary context (which cuBLAS shares) current in this thread."""

    kind = "cuda"
    rotates = True
    warm_seconds = 0.05  # clocks of an idle GPU take tens of milliseconds to rise

    def __init__(self, uuid: str, support: bytes, baselines: Callable[["Cuda"], Any]) -> None:
        cuda.init()
        pynvml.nvmlInit()
        self.nvml = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        bus = pynvml.nvmlDeviceGetPciInfo(self.nvml).busId
        self.device = cuda.Device(bus if isinstance(bus, str) else bus.decode())
        self.context = self.device.retain_primary_context()
        self.context.push()
        self.stream = cuda.Stream()
        self._module = cuda.module_from_buffer(support)
        self._functions: dict[str, Any] = {}
        self._events: list[tuple[Any, Any]] = []
        self._gate = cuda.pagelocked_zeros(1, np.uint32, mem_flags=cuda.host_alloc_flags.DEVICEMAP)
        self._gate_address = int(self._gate.base.get_device_pointer())
        self._turn = 0
        attribute = cuda.device_attribute
        self.names = {
            "sm_count": self.device.get_attribute(attribute.MULTIPROCESSOR_COUNT),
            "shared_memory_per_block": self.device.get_attribute(attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
        }
        l2 = self.device.get_attribute(cuda.device_attribute.L2_CACHE_SIZE)
        self._flush_bytes = max(2 * l2, 64 << 20)
        self._flush: Any = None
        self._sums = cuda.mem_alloc(MAX_ROUND * SUMS_BYTES)
        self._audits = cuda.mem_alloc(MAX_ROUND * AUDIT_BYTES)
        self._modules: dict[bytes, Any] = {}
        self._read_at = -math.inf
        self._random = np.random.default_rng()
        self._workspace: Any = None
        self._workspace_bytes = 0
        self._at: Operands
        self.blas = baselines(self)

    def _support(self, name: str, layout: str, *arguments: Any, blocks: int = CHECK_BLOCKS) -> None:
        """Queue one of the pipeline's own kernels of the present element type; `layout` is that of `struct`."""
        name = f"{name}_{self.given.element_type}"
        if name not in self._functions:
            self._functions[name] = self._module.get_function(name)
            self._functions[name].prepare(layout)
        self._functions[name].prepared_async_call((blocks, 1), (CHECK_THREADS, 1, 1), self.stream, *arguments)

    def _allocate(self, count: int, size: int) -> int:
        """Device memory for `count` elements of `size` bytes, freed with the operands.

        Where it begins is left to chance: how operands lie to each other sways the time of some launches by per cents.
        """
        try:
            self._at.buffers.append(cuda.mem_alloc(count * size + (SHIFTS - 1) * SHIFT_BYTES))
        except cuda.MemoryError:
            raise Refused("not_supported", f"the device has no {count * size / 2**30:.1f} GiB left for an operand") from None
        return int(self._at.buffers[-1]) + SHIFT_BYTES * int(self._random.integers(SHIFTS))

    def operands(self, problem: Problem) -> Operands:
        self.use(Operands(problem))
        at, m, n, k = self._at, problem.m, problem.n, problem.k
        try:
            self._make_room(1, 1)
            at.spare = self._allocate(at.places[2].total, at.size)
            at.product, at.scale = self._allocate(m * n, 8), self._allocate(m * n, 8)
            at.wide = self._allocate(m * k, 8), self._allocate(k * n, 8)
            at.projection = self._allocate(k, 8), self._allocate(k, 8)
            self._draw(problem.seed, 1)
            self._timed(lambda: self._make_reference(problem.seed, (0, 0)))
            self._check_reference()
        except BaseException:
            self.free(at)
            raise
        return at

    def use(self, operands: Operands) -> None:
        self._at, self.given = operands, operands.given

    def free(self, operands: Operands) -> None:
        for graph in operands.graphs:
            driver.cuGraphExecDestroy(graph)
        for buffer in operands.buffers:
            buffer.free()
        operands.graphs, operands.buffers, operands.sets = [], [], []

    def reserve(self, times: int, cold: bool) -> None:
        """Make room for samples of so many launches: sets of operands, and rows of B."""
        at, count = self._at, self._set_count(times, cold)
        extra = view_step(self.given) * (math.ceil(times / count) - 1)
        if extra > at.extra:
            at.extra, at.sets = extra, []  # the smaller buffers go with the operands
        self._make_room(count, times)

    def _set_count(self, times: int, cold: bool) -> int:
        """As many sets of operands as it takes that the others have filled the L2 twice when a set's turn comes again."""
        size = self._at.size * sum(place.total for place in places(self.given))
        return min(times, 1 + math.ceil(self._flush_bytes / size)) if cold else 1

    def _make_room(self, sets: int, launches: int) -> None:
        at = self._at
        while len(at.sets) < sets:
            a, b = (self._allocate(place.total, at.size) for place in at.places[:2])
            at.sets.append((a, b))
        if launches > at.launches:
            at.results, at.launches = self._allocate(launches, at.stride), launches

    def _turn_of(self, launch: int, sets: int) -> tuple[int, int]:
        """The set of operands that a launch of a sample has, and the row where its B begins."""
        return launch % sets, view_step(self.given) * (launch // sets)

    def _addresses(self, index: int, row: int) -> tuple[int, int]:
        """Where A, and B from `row` on, of a set begin."""
        first, (a, b) = self._at.first, self._at.sets[index]
        return a + first, b + first + self._at.size * row * self.given.ldb

    def spare(self) -> tuple[int, int, int]:
        """Addresses of A, of B and of a C that is not looked at."""
        return *self._addresses(0, 0), self._at.spare + self._at.first

    def _draw(self, seed: int, sets: int) -> None:
        """Queue the drawing of A and B of the first sets."""
        for index in range(sets):
            for matrix in (0, 1):
                draw = self._at.draws[matrix]._replace(seed=_seed(seed, index))
                self._support("fill", "PqqqqqiiiiiiiiQ", self._at.sets[index][matrix], *self._at.places[matrix], *draw)

    def _poison(self, buffer: int, seed: int) -> None:
        """Queue the poisoning of a buffer of C: canaries, and where beta is not 0 its old values."""
        place = self._at.places[2]
        if self.given.beta == 0:
            cuda.memset_d32_async(buffer, CANARY, place.total * self._at.size // 4, self.stream)
        else:
            self._support("fill", "PqqqqqiiiiiiiiQ", buffer, *place, *self._at.draws[2]._replace(seed=seed))

    def _poison_results(self, launches: int, sets: int, seed: int) -> None:
        """Queue the poisoning of the C of each launch of a sample."""
        at = self._at
        if self.given.beta == 0:
            cuda.memset_d32_async(at.results, CANARY, launches * at.stride // 4, self.stream)
        else:
            for launch in range(launches):
                self._poison(at.results + launch * at.stride, _seed(seed, launch % sets))

    def _poison_workspace(self) -> None:
        if self._workspace is not None:
            cuda.memset_d32_async(int(self._workspace), CANARY, self._workspace_bytes // 4, self.stream)

    def _make_reference(self, seed: int, where: tuple[int, int]) -> None:
        """Queue R = alpha*A*B + beta*C and S = |alpha| |A| |B| + |beta| |C| in float64, by cuBLAS DGEMM, of the operands of a launch."""
        at, (index, row) = self._at, where
        if at.reference == (seed, *where):
            return
        at.reference = seed, *where
        m, n, k = self.given.m, self.given.n, self.given.k
        alpha, beta = (float(value) for value in scalars(self.given))
        (a, b), c = self._addresses(index, row), at.spare + at.first
        for absolute, out in ((0, at.product), (1, at.scale)):
            self._widen(a, self.given.lda, m, k, at.wide[0], absolute)
            self._widen(b, self.given.ldb, k, n, at.wide[1], absolute)
            if beta != 0:
                self._poison(at.spare, _seed(seed, index))
                self._widen(c, self.given.ldc, m, n, out, absolute)
            factor = abs if absolute else float
            self.blas.product64(m, n, k, factor(alpha), at.wide[0], at.wide[1], factor(beta), out)

    def _widen(self, source: int, ld: int, rows: int, cols: int, out: Any, absolute: int) -> None:
        self._support("widen", "PqqqPi", source, ld, rows, cols, out, absolute)

    def _check_reference(self) -> None:
        """Sampled elements of the reference agree with the host's arithmetic on what is in the device's memory: the judge is judged too."""
        given, at = self.given, self._at
        dtype, alpha, beta = np.dtype(given.element_type), *(float(value) for value in scalars(given))
        random = np.random.default_rng(given.seed)
        rows, cols = random.integers(0, given.m, SAMPLED), random.integers(0, given.n, SAMPLED)
        first_a, first_b, first_c = self.spare()
        got, a, b, c = np.empty(1), np.empty(given.k, dtype), np.empty((given.k, 1), dtype), np.zeros(1, dtype)
        column = cuda.Memcpy2D()
        column.set_dst_host(b)
        column.width_in_bytes, column.height, column.src_pitch = dtype.itemsize, given.k, dtype.itemsize * given.ldb
        column.dst_pitch = dtype.itemsize
        for row, col in zip(rows.tolist(), cols.tolist(), strict=True):
            cuda.memcpy_dtoh(got, at.product + 8 * (row * given.n + col))
            cuda.memcpy_dtoh(a, first_a + dtype.itemsize * row * given.lda)
            column.set_src_device(first_b + dtype.itemsize * col)
            column(aligned=False)
            if beta != 0:
                cuda.memcpy_dtoh(c, first_c + dtype.itemsize * (row * given.ldc + col))
            with np.errstate(invalid="ignore", over="ignore"):
                terms = a.astype(np.float64) * b[:, 0].astype(np.float64)
                expected = alpha * terms.sum() + beta * float(c[0])
                scale = abs(alpha) * np.abs(terms).sum() + abs(beta * float(c[0]))
                off = abs(got[0] - expected)
            alike = np.isfinite(expected) or got[0] == expected or (np.isnan(got[0]) and np.isnan(expected))
            if not alike or off > 2.0**-52 * (given.k + 2) * scale:
                raise RuntimeError(f"the float64 reference is wrong at C[{row}][{col}]: {got[0]} instead of {expected}")

    def kernel(self, kernel: Kernel, configuration: Configuration, binary: bytes) -> Launch:
        p, names = self.given, {**self.given.names(), **self.names}
        code = SCALAR_CODES[p.element_type]
        # PyCUDA packs no half; its bits as a 16-bit integer are the same argument
        alpha, beta = (value.view(np.uint16) if p.element_type == "float16" else value for value in scalars(p))
        workspace = kernel.workspace_of(configuration, names)
        if workspace is not None:
            self._reserve_workspace(workspace)
        try:
            if binary not in self._modules:
                self._modules[binary] = cuda.module_from_buffer(binary)
            calls = []
            for shape in kernel.launches(configuration, names):
                function = self._modules[binary].get_function(shape.function)
                self._check_limits(function, shape)
                function.prepare(f"iii{code}PiPi{code}Pi" + ("" if workspace is None else "P"))
                calls.append((function.prepared_async_call, shape))
        except cuda.Error as error:
            raise Refused("launch_error", f"the cubin cannot be used: {error}") from None

        def bind(a: int, b: int, c: int) -> Call:
            arguments = (p.m, p.n, p.k, alpha, a, p.lda, b, p.ldb, beta, c, p.ldc)

            def call() -> None:
                # looked up at every call: the workspace grows when another configuration needs more
                extra = () if workspace is None else (int(self._workspace),)
                for launch, shape in calls:
                    launch(shape.grid, shape.block, self.stream, *arguments, *extra, shared_size=shape.dynamic_shared)

            return call

        return Launch(bind)

    def _reserve_workspace(self, size: int) -> None:
        """Make the workspace at least `size` bytes large."""
        if size > self._workspace_bytes:
            if self._workspace is not None:
                self._workspace.free()
            self._workspace, self._workspace_bytes = None, 0
            size = max(4, size + -size % 4)
            try:
                self._workspace = cuda.mem_alloc(size)
            except cuda.MemoryError:
                raise Refused("not_supported", f"the device has no {size / 2**30:.1f} GiB left for the workspace") from None
            self._workspace_bytes = size

    def _check_limits(self, function: Any, shape: LaunchShape) -> None:
        """Raise `Refused` where the device cannot run a launch of this shape."""
        for axis, extent, limit in zip("xyz", shape.grid, MAX_GRID, strict=True):
            if extent > limit:
                raise Refused("not_supported", f"the grid has {extent} blocks in {axis}; at most {limit}")
        threads, most = math.prod(shape.block), function.max_threads_per_block
        if threads > most:
            raise Refused("not_supported", f"{threads} threads a block of {function.num_regs} registers; at most {most}")
        shared = shape.dynamic_shared + function.shared_size_bytes
        limit = self.names["shared_memory_per_block"]
        if shape.dynamic_shared < 0 or shared > limit:
            raise Refused("not_supported", f"{shared} bytes of shared memory a block; from 0 to {limit}")
        if shared > FREE_SHARED:
            function.set_attribute(cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, shape.dynamic_shared)

    def baseline(self, name: str) -> Launch:
        launch: Launch = self.blas.launch(name)
        return launch

    def _compare(self, turn: int, launch: int = 0, exact: bool = False) -> None:
        """Queue the comparison of the C of a launch with the reference."""
        at, result, sums = self._at, self._at.results + launch * self._at.stride, int(self._sums) + turn * SUMS_BYTES
        self._support("compare", "PqqqqqPPPi", result, *at.places[2], at.product, at.scale, sums, int(exact))

    def _audit(self, turn: int, launch: int, sets: int, seed: int, secret: int) -> None:
        """Queue the audit of a launch of a sample."""
        at, (index, row), p = self._at, self._turn_of(launch, sets), self.given
        (a, b), (place_a, place_b, place_c) = at.sets[index], at.places
        draw_a, draw_b, draw_c = (draw._replace(seed=_seed(seed, index)) for draw in at.draws)
        projection, found = at.projection, int(self._audits) + turn * AUDIT_BYTES
        of_b = b, *place_b, *draw_b, row, p.k, secret, *projection, found
        self._support("audit_b", "PqqqqqiiiiiiiiQqqQPPP", *of_b, blocks=min(place_b.rows, 4 * CHECK_BLOCKS))
        factors = (float(value) for value in scalars(p))
        of_a = a, *place_a, *draw_a, at.results + launch * at.stride, *place_c, *draw_c, *projection, secret, *factors, found
        self._support("audit_a", "PqqqqqiiiiiiiiQPqqqqqiiiiiiiiQPPQddP", *of_a, blocks=min(p.m, 4 * CHECK_BLOCKS))

    def check(self, launch: Launch) -> Errors:
        at, seed = self._at, self.given.seed
        call = launch.bind(*self._addresses(0, 0), at.results + at.first)

        def run() -> None:
            self._draw(seed, 1)
            self._make_reference(seed, (0, 0))
            self._poison(at.results, seed)
            self._poison_workspace()  # a kernel that expects zeros there fails
            launch.before()
            call()
            self._compare(0, exact=whole(self.given))

        try:
            self._timed(run)
            return self._found(1)[0]
        except cuda.Error as error:
            raise Refused("launch_error", str(error), fatal=True) from None

    def look(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        at = self._at
        self._draw(self.given.seed, 1)
        self._poison(at.spare, self.given.seed)
        self.stream.synchronize()
        found = []
        for place, address in zip((*at.places, at.places[2]), (*at.sets[0], at.spare, at.results), strict=True):
            found.append(np.empty(place.total, np.dtype(self.given.element_type)))
            cuda.memcpy_dtoh(found[-1], address)
        a, b, c, result = (flat[at.places[0].first :] for flat in found)
        return a, b, c, result

    def _found(self, count: int) -> list[Errors]:
        sums = np.empty((count, CHECK_BLOCKS, 7))
        cuda.memcpy_dtoh(sums, self._sums)
        return [errors_of(own) for own in sums]

    def _timed(self, run: Callable[[], None]) -> None:
        """Run to the end, counting the time as busy."""
        start, end = cuda.Event(), cuda.Event()
        start.record(self.stream)
        run()
        end.record(self.stream)
        end.synchronize()
        self.busy_us += start.time_till(end) * 1e3

    def sample(self, launch: Launch, times: int, cold: bool = False) -> Sample:
        self.reserve(times, cold)
        at, count = self._at, self._set_count(times, cold)
        calls = [
            launch.bind(*self._addresses(*self._turn_of(turn, count)), at.results + turn * at.stride + at.first)
            for turn in range(times)
        ]
        call = calls[0] if times == 1 else self._graph(calls, at.graphs)
        return Sample(call, launch.before, times, count)

    def _graph(self, calls: Sequence[Call], graphs: list[Any]) -> Call:
        """The calls captured, and ready to be launched at once."""
        raw = driver.CUstream(self.stream.handle)
        _succeed(driver.cuStreamBeginCapture(raw, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
        try:
            for call in calls:
                call()
        finally:
            graph = _succeed(driver.cuStreamEndCapture(raw))
        graphs.append(_succeed(driver.cuGraphInstantiate(graph, 0)))
        _succeed(driver.cuGraphDestroy(graph))
        _succeed(driver.cuGraphUpload(graphs[-1], raw))
        executable = graphs[-1]
        return lambda: _succeed(driver.cuGraphLaunch(executable, raw))

    def time_round(self, samples: Sequence[Sample], cold: bool, seed: int, compare: bool = False) -> list[Timed]:
        # what will be asked, and of which launch, cannot be known before it is made
        secret, chosen = int(self._random.integers(2**63)), [int(self._random.integers(sample.times)) for sample in samples]
        if cold and self._flush is None:
            self._flush = cuda.mem_alloc(self._flush_bytes)

        def before(turn: int) -> None:
            sample = samples[turn]
            if turn == 0:
                cuda.memset_d32_async(int(self._audits), 0, len(samples) * AUDIT_BYTES // 4, self.stream)
                self._draw(seed, max(sample.sets for sample in samples))
            self._poison_results(sample.times, sample.sets, seed)
            self._poison_workspace()
            if cold:
                cuda.memset_d8_async(int(self._flush), self._turn % 256, self._flush_bytes, self.stream)

        def after(turn: int) -> None:
            self._audit(turn, chosen[turn], samples[turn].sets, seed, secret)
            if compare:
                self._make_reference(seed, self._turn_of(chosen[turn], samples[turn].sets))
                self._compare(turn, chosen[turn])

        # behind the gate no code can be loaded: what has not run yet runs without it
        times = self._time([sample.call for sample in samples], before, after, gated=all(sample.ready for sample in samples))
        for sample in samples:
            sample.ready = True
        try:
            found = np.empty((len(samples), 3))
            cuda.memcpy_dtoh(found, self._audits)
            errors = self._found(len(samples)) if compare else [None] * len(samples)
        except cuda.Error as error:
            raise Refused("launch_error", str(error), fatal=True) from None
        audits = [Audit(float(worst), int(changed), int(stray)) for worst, changed, stray in found]
        return [Timed(*row) for row in zip(times, audits, errors, strict=True)]

    def time_calls(self, calls: Sequence[Call]) -> list[float]:
        return self._time(calls, lambda turn: None, lambda turn: None, gated=True)

    def _time(
        self, calls: Sequence[Call], before: Callable[[int], None], after: Callable[[int], None], gated: bool
    ) -> list[float]:
        """Microseconds of each call; `before` and `after` queue what belongs to it but is not timed."""
        while len(self._events) < len(calls):
            self._events.append((cuda.Event(), cuda.Event()))
        raw = driver.CUstream(self.stream.handle)
        self._turn += 1
        try:
            if gated:
                _succeed(driver.cuStreamWaitValue32(raw, self._gate_address, self._turn,
                                                    driver.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_EQ.value))  # fmt: skip
            try:
                for turn, (call, (start, end)) in enumerate(zip(calls, self._events, strict=False)):
                    before(turn)
                    start.record(self.stream)
                    call()
                    end.record(self.stream)
                    after(turn)
            finally:
                self._gate[0] = self._turn  # opens the gate, also when queueing failed
            if time.monotonic() - self._read_at > READING_SECONDS:
                self.reading, self._read_at = self.monitor(), time.monotonic()
            self.stream.synchronize()
        except cuda.Error as error:
            raise Refused("launch_error", str(error), fatal=True) from None
        times = [start.time_till(end) * 1e3 for start, end in self._events[: len(calls)]]
        self.busy_us += sum(times)
        return times

    def monitor(self) -> dict[str, float | int | None]:
        readings: dict[str, Callable[[], float | int]] = {
            "sm_clock_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(self.nvml, pynvml.NVML_CLOCK_SM),
            "memory_clock_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(self.nvml, pynvml.NVML_CLOCK_MEM),
            "temperature_c": lambda: pynvml.nvmlDeviceGetTemperature(self.nvml, pynvml.NVML_TEMPERATURE_GPU),
            "throttle_reasons": lambda: pynvml.nvmlDeviceGetCurrentClocksEventReasons(self.nvml),
        }
        return {name: _or_none(read) for name, read in readings.items()}

    def energy(self, sample: Sample, seconds: float) -> tuple[float, float] | None:
        """From the board's counter; the time is that of all launches."""

        def read() -> int | None:
            counted: int | None = _or_none(lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(self.nvml))
            return counted

        if read() is None:
            return None
        try:
            start, end = cuda.Event(), cuda.Event()
            start.record(self.stream)
            sample.call()
            end.record(self.stream)
            end.synchronize()
            calls = max(1, math.ceil(seconds * 1e3 / start.time_till(end)))
            meter = Meter(read, time.monotonic() + ENERGY_LEAD_SECONDS)
            start.record(self.stream)
            for _ in range(calls):  # waits where the driver's queue is full
                sample.call()
                meter.look()
            end.record(self.stream)
            while not end.query():
                meter.look()
            us = float(start.time_till(end)) * 1e3
        except cuda.Error as error:
            raise Refused("launch_error", str(error), fatal=True) from None
        self.busy_us += us
        watts = meter.watts()
        return (watts * us / 1e6 / calls, us / calls) if watts is not None else None

    def other_processes(self) -> int | None:
        # in a container NVML may know processes by other numbers, so not by os.getpid(): whatever it lists, one of them is this one
        listed = _or_none(lambda: pynvml.nvmlDeviceGetComputeRunningProcesses(self.nvml))
        return len({process.pid for process in listed}) - 1 if listed else None

    def describe(self) -> dict[str, Any]:
        attribute = cuda.device_attribute
        nvml = {
            "power_limit_w": lambda: pynvml.nvmlDeviceGetPowerManagementLimit(self.nvml) / 1e3,
            "max_sm_clock_mhz": lambda: pynvml.nvmlDeviceGetMaxClockInfo(self.nvml, pynvml.NVML_CLOCK_SM),
            "max_memory_clock_mhz": lambda: pynvml.nvmlDeviceGetMaxClockInfo(self.nvml, pynvml.NVML_CLOCK_MEM),
            "ecc": lambda: bool(pynvml.nvmlDeviceGetEccMode(self.nvml)[0]),
            "uuid": lambda: str(pynvml.nvmlDeviceGetUUID(self.nvml)),
        }
        return {
            "compute_capability": "{}.{}".format(*self.device.compute_capability()),
            "sm_count": self.device.get_attribute(attribute.MULTIPROCESSOR_COUNT),
            "memory_bytes": self.device.total_memory(),
            "cache_bytes": self.device.get_attribute(attribute.L2_CACHE_SIZE),
            "shared_memory_per_sm_bytes": self.device.get_attribute(attribute.MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
            "shared_memory_per_block_bytes": self.device.get_attribute(attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
            "registers_per_sm": self.device.get_attribute(attribute.MAX_REGISTERS_PER_MULTIPROCESSOR),
            "threads_per_sm": self.device.get_attribute(attribute.MAX_THREADS_PER_MULTIPROCESSOR),
            "cuda_driver_version": cuda.get_driver_version(),
            **{name: _or_none(read) for name, read in nvml.items()},
        }

    def peaks(self) -> dict[str, float]:
        blocks, rounds = self.device.get_attribute(cuda.device_attribute.MULTIPROCESSOR_COUNT) * 8, 125
        fma = self._module.get_function("peak_fma")
        fma.prepare("iffP")

        def multiply_add() -> None:
            fma.prepared_async_call((blocks, 1), (256, 1, 1), self.stream, rounds, 0.999, 0.001, int(self._sums))

        half = min(2 << 30, cuda.mem_get_info()[0] // 4)
        source, target = cuda.mem_alloc(half), cuda.mem_alloc(half)
        cuda.memset_d32(int(source), 0x3F800001, half // 4)

        def copy() -> None:
            cuda.memcpy_dtod_async(int(target), int(source), half, self.stream)

        times = np.array([self.time_calls([multiply_add, copy]) for _ in range(30)])
        source.free()
        target.free()
        fma_us, copy_us = np.median(times[10:], axis=0).tolist()
        return {"fp32_tflops": blocks * 256 * rounds * 1024 * 2 / fma_us * 1e-6, "copy_tb_s": 2 * half / copy_us * 1e-6}

    def launch_us(self, times: int) -> float:
        fma = self._module.get_function("peak_fma")
        fma.prepare("iffP")

        def one() -> None:
            fma.prepared_async_call((1, 1), (32, 1, 1), self.stream, 0, 1.0, 0.0, int(self._sums))

        graphs: list[Any] = []
        empty = self._graph([one] * times, graphs) if times > 1 else one
        found = float(np.median([self.time_calls([empty]) for _ in range(50)])) / times
        for graph in graphs:
            driver.cuGraphExecDestroy(graph)
        return found

    def close(self) -> None:
        self.context.synchronize()
        self.blas.close()
        self.context.pop()


def visible(slug: str) -> list[str]:
    """UUIDs of the GPUs of one model that this process may use (CUDA_VISIBLE_DEVICES counts)."""
    cuda.init()
    pynvml.nvmlInit()
    uuids = []
    for index in range(cuda.Device.count()):
        device = cuda.Device(index)
        if slugify(device.name()) == slug:
            handle = pynvml.nvmlDeviceGetHandleByPciBusId(device.pci_bus_id().encode())
            uuids.append(str(pynvml.nvmlDeviceGetUUID(handle)))
    return uuids


def _seed(seed: int, index: int) -> int:
    """The seed of a set of operands: that of the round for the first."""
    return (seed + index * 0x9E3779B97F4A7C15) % 2**64


def _succeed(result: tuple[Any, ...]) -> Any:
    """The value of a driver call; raises `cuda.RuntimeError` with the driver's own name of a failure."""
    if result[0] != driver.CUresult.CUDA_SUCCESS:
        raise cuda.RuntimeError(str(result[0]))
    return result[1] if len(result) > 1 else None


def _or_none(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except pynvml.NVMLError:
        return None
