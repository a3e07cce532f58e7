"""An NVIDIA GPU through PyCUDA: kernels as cubins, timed by events on one stream.

Rounds are queued behind a gate that the host opens once everything is queued: then no event waits
for the host, however slow Python is. Repeated launches are captured in a CUDA graph for the same
reason (CUDA C++ Programming Guide, "CUDA Graphs"). NVML reads clocks and temperature once the gate
is open, while the device executes the round.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from ctypes import c_char, c_double, c_float, c_int, c_void_p
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pycuda.driver as cuda
from cuda.bindings import driver
from numpy.typing import NDArray

from ladder.core import clock
from ladder.devices import back_to_back, cuda_peaks
from ladder.devices.algorithm_search import Algorithm
from ladder.devices.back_to_back import Meter
from ladder.devices.base import Call, Device, Errors, Launch, Refused, Sample, Timed
from ladder.devices.cuda_operands import Operands, Support
from ladder.devices.cuda_stream import Function, Windows, capture, clusters_at_once, succeed
from ladder.devices.detect import check_gate, slugify
from ladder.devices.nvml import Board, uuid_at
from ladder.devices.operands import CANARY, audited_launch, batch_of, can_refresh, scalars
from ladder.model.kernel import Configuration, Kernel, LaunchShape
from ladder.model.problem import Problem
from ladder.model.tensor_map import MAP_BYTES, encoded

Map = c_char * MAP_BYTES
MAX_GRID = (2**31 - 1, 65535, 65535)
"""The most blocks of a grid in x, y, z (CUDA C++ Programming Guide, "Technical Specifications per
Compute Capability").
"""
FREE_SHARED = 48 << 10
"""Bytes of shared memory that a block gets without asking for more."""
OF_SMS = ("sm_count", "clusters_of_4")
"""The values of a device that are smaller with fewer multiprocessors."""
BUSY_ROUNDS = 2_000
"""Of multiply-adds, with which other work keeps half of the device busy when a launch begins."""
READING_SECONDS = 0.02
"""How long a reading of NVML serves; it takes the host about a millisecond."""


class Cuda(Device):
    """One GPU, chosen by its UUID. Its primary context, which cuBLAS shares, is current in this
    thread.
    """

    kind = "cuda"
    rotates = True
    warm_seconds = 0.05  # clocks of an idle GPU take tens of milliseconds to rise

    def __init__(self, uuid: str, support: bytes, baselines: Callable[["Cuda"], Any]) -> None:
        cuda.init()
        self._board = Board(uuid)
        self.device = cuda.Device(self._board.bus)
        self.context = self.device.retain_primary_context()
        self.context.push()
        self.stream = cuda.Stream()
        sms = self._attribute("MULTIPROCESSOR_COUNT")
        shared = self._attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        self._names = self.names = {
            "sm_count": sms,
            "shared_memory_per_block": shared,
            "clusters_of_4": clusters_at_once(support, 4, shared),
        }
        self._support = Support(support, self.stream, sms)
        self._events: list[tuple[Any, Any]] = []
        self._gate = cuda.pagelocked_zeros(1, np.uint32, mem_flags=cuda.host_alloc_flags.DEVICEMAP)
        self._gate_address = int(self._gate.base.get_device_pointer())
        self._turn = 0
        check_gate(self.device.name(), self._wait_for_gate()[0].name)
        self._flush_bytes = max(2 * self._attribute("L2_CACHE_SIZE"), 64 << 20)
        self._flush: Any = None
        self._modules: dict[tuple[Path, bytes], Any] = {}
        self._read_at = -math.inf
        self._random = np.random.default_rng()
        self._workspace: Any = None
        self._workspace_bytes = 0
        self._at: Operands
        self.blas = baselines(self)

    def _attribute(self, name: str) -> int:
        """Return an attribute of the device by its name in PyCUDA."""
        return int(self.device.get_attribute(getattr(cuda.device_attribute, name)))

    def operands(self, problem: Problem, compared: bool = True) -> Operands:
        at = self._at = Operands(problem, self._support, self.blas)
        self.given = problem
        try:
            at.reserve(1, 0)
            if compared:
                self.use(at)
                at.draw(problem.seed, 1)
                self._run_as_busy(lambda: at.make_reference(problem.seed))
                at.check_reference()
        except BaseException:
            self.free(at)
            raise
        return at

    def use(self, operands: Operands) -> None:
        self._support.reserve(operands.scratch_bytes)
        self._at, self.given = operands, operands.given

    def free(self, operands: Operands) -> None:
        self._support.release()
        operands.free()

    def spare(self) -> tuple[int, ...]:
        """Return addresses of A, of B and of a C that nobody looks at, then of the scales."""
        return self._at.spare()

    def first(self) -> tuple[int, ...]:
        """Return where A, B and C of the first launch of a sample begin, then the scales."""
        return self._at.of_launch(0, 1)

    def kernel(self, kernel: Kernel, configuration: Configuration, binary: bytes) -> Launch:
        p, names = self.given, {**self.given.names(), **self.names}
        scalar = c_double if p.element_type == "float64" else c_float
        alpha, beta = (scalar(value) for value in scalars(p))
        workspace, maps = (
            kernel.workspace_of(configuration, names),
            kernel.maps(configuration, names),
        )
        if workspace is not None:
            self._reserve_workspace(workspace)
        try:
            # two commits, or a control, may have the same binary, each at its own addresses
            key = kernel.path, binary
            if key not in self._modules:
                self._modules[key] = succeed(driver.cuModuleLoadData(binary))
            calls, ready = [], True
            for shape in kernel.launches(configuration, names):
                function = Function(self._modules[key], shape.function)
                self._check_limits(function, shape)
                ready &= function.load()
                calls.append((function, shape))
        except cuda.Error as error:
            raise self._support.failure(error, "the cubin cannot be used: ", fatal=False) from None

        def bind(a: int, b: int, c: int, *scales: int) -> Call:
            arguments: list[Any] = [c_int(p.m), c_int(p.n), c_int(p.k), alpha]
            arguments += [c_void_p(a), c_int(p.lda), c_void_p(b), c_int(p.ldb), beta]
            arguments += [c_void_p(c), c_int(p.ldc), *batch_of(p), *map(c_void_p, scales)]

            def call() -> None:
                # looked up at every call: the workspace grows when another configuration needs more
                memory = [] if workspace is None else [c_void_p(int(self._workspace))]
                at = {"A": a, "B": b, "C": c, "workspace": (memory[0].value or 0) if memory else 0}
                try:
                    encoded_maps = [
                        Map.from_buffer_copy(
                            encoded(matrix, p.element_type, at[matrix.of] + matrix.at)
                        )
                        for matrix in maps
                    ]
                except ValueError as error:
                    raise Refused("launch_error", str(error)) from None
                for function, shape in calls:
                    function.launch(shape, self.stream, [*arguments, *memory, *encoded_maps])

            return call

        return Launch(bind, ready=ready)

    def _reserve_workspace(self, size: int) -> None:
        """Make the workspace at least `size` bytes large."""
        if self._workspace is None or size > self._workspace_bytes:
            if self._workspace is not None:
                self._support.free(self._workspace)
            self._workspace, self._workspace_bytes = None, 0
            size = max(4, size + -size % 4)
            self._workspace = self._support.allocate(size, "the workspace")
            self._workspace_bytes = size

    def _poison_workspace(self) -> None:
        if self._workspace is not None:
            cuda.memset_d32_async(
                int(self._workspace), CANARY, self._workspace_bytes // 4, self.stream
            )

    def _check_limits(self, function: Function, shape: LaunchShape) -> None:
        """Raise `Refused` if the device cannot run a launch of this shape."""
        for axis, extent, limit in zip("xyz", shape.grid, MAX_GRID, strict=True):
            if extent > limit:
                raise Refused(
                    "not_supported", f"the grid has {extent} blocks in {axis}; at most {limit}"
                )
        threads, most = math.prod(shape.block), function.attribute("MAX_THREADS_PER_BLOCK")
        if threads > most:
            registers = function.attribute("NUM_REGS")
            raise Refused(
                "not_supported",
                f"{threads} threads a block of {registers} registers; at most {most}",
            )
        shared = shape.dynamic_shared + function.attribute("SHARED_SIZE_BYTES")
        limit = self.names["shared_memory_per_block"]
        if shape.dynamic_shared < 0 or shared > limit:
            raise Refused(
                "not_supported", f"{shared} bytes of shared memory a block; from 0 to {limit}"
            )
        if shared > FREE_SHARED:
            function.allow_shared(shape.dynamic_shared)

    def baseline(self, name: str, parameters: Mapping[str, int] = MappingProxyType({})) -> Launch:
        launch: Launch = self.blas.launch(name, parameters)
        return launch

    def search(self) -> Algorithm | None:
        found: Algorithm | None = self.blas.cublaslt().search()
        return found

    def compute(self, launch: Launch, then: Call = lambda: None) -> None:
        """As in `Device`; `then` queues more before the device is waited for."""
        at, seed = self._at, self.given.seed
        call = launch.bind(*at.of_launch(0, 1))
        start, end = cuda.Event(), cuda.Event()

        def run() -> None:
            at.draw(seed, 1)
            at.poison(at.results, seed)
            self._poison_workspace()  # a kernel that expects zeros there fails
            launch.before()
            start.record(self.stream)
            call()
            end.record(self.stream)
            then()

        try:
            self._run_as_busy(run)
            launch.us = start.time_till(end) * 1e3
        except cuda.Error as error:
            raise self._support.failure(error) from None

    def check(self, launch: Launch) -> Errors:
        def compare() -> None:
            self._support.begin(1)
            self._at.make_reference(self.given.seed)
            self._at.compare()
            self._support.keep(0)

        self.compute(launch, compare)
        return self._support.errors()[0]

    def limit(self, half: bool) -> None:
        self.names = {
            name: max(1, number // 2) if half and name in OF_SMS else number
            for name, number in self._names.items()
        }
        self.blas.limit(self.names["sm_count"] if half else 0)

    @contextmanager
    def busy(self) -> Iterator[None]:
        stream, memory = cuda.Stream(), self._support.allocate(4, "other work")
        fma = self._support.function("peak_fma", "iffP")
        # A launch begins on the other half of the multiprocessors: where a block of its own takes
        # all registers of one, it shares none.
        blocks = max(1, self._names["sm_count"] // 2), 1
        fma.prepared_async_call(blocks, (256, 1, 1), stream, BUSY_ROUNDS, 0.999, 0.001, int(memory))
        try:
            yield
        finally:
            with suppress(cuda.Error):  # after a fault nothing works; the launch has said it
                stream.synchronize()
                self._support.free(memory)

    def look(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        return self._at.look()

    def differ(self, other: Operands, rows: int) -> tuple[int, int, float, float] | None:
        return self._at.differ(other, rows)

    def _run_as_busy(self, run: Callable[[], None]) -> None:
        """Run to the end and count the time as busy."""
        start, end = cuda.Event(), cuda.Event()
        start.record(self.stream)
        run()
        end.record(self.stream)
        end.synchronize()
        self.busy_us += start.time_till(end) * 1e3

    def sample(self, launch: Launch, times: int, cold: bool = False, fresh: bool = False) -> Sample:
        at = self._at
        sets = at.reserve(times, self._flush_bytes if cold else 0)
        calls = [launch.bind(*at.of_launch(turn, sets)) for turn in range(times)]
        fresh = fresh and times > 1 and can_refresh(self.given)
        if fresh:
            calls.insert(times - 1, partial(at.refresh, self.given.seed, times - 1, sets))
        call = calls[0] if times == 1 else self._graph(calls, at.graphs)
        return Sample(call, launch.before, times, sets, fresh, launch.ready)

    def _graph(self, calls: Sequence[Call], graphs: list[Any]) -> Call:
        """Return one call that makes all calls, captured in a graph."""
        raw, executable = driver.CUstream(self.stream.handle), capture(calls, self.stream)
        graphs.append(executable)
        return lambda: succeed(driver.cuGraphLaunch(executable, raw))

    def time_round(
        self, samples: Sequence[Sample], cold: bool, seed: int, compare: bool = False
    ) -> list[Timed]:
        at, support, number = self._at, self._support, len(samples)
        # neither the audited launch nor the signs of its audit can be known before it is made
        secret = int(self._random.integers(2**63))
        chosen = [audited_launch(self._random, sample.times, compare) for sample in samples]
        if cold and self._flush is None:
            self._flush = self._support.allocate(
                self._flush_bytes, "what flushes the caches", apart=True
            )
        if cold:
            # a launch may have asked the L2 to keep lines, which the flush would not evict
            driver.cuCtxResetPersistingL2Cache()

        def before(turn: int) -> None:
            if turn == 0:
                at.renew(seed)
            elif samples[turn - 1].fresh:
                at.draw(seed, len(at.sets))
            self._poison(samples[turn], seed)
            if cold:
                cuda.memset_d8_async(
                    int(self._flush), self._turn % 256, self._flush_bytes, self.stream
                )
            support.stamp(after=False)

        def after(turn: int) -> None:
            support.stamp(after=True)
            self._audit(turn, samples[turn], chosen[turn], seed, secret, compare)

        support.begin(number)
        # no code can be loaded behind the gate: a sample that has not run yet runs without it
        gated = all(sample.ready for sample in samples)
        times = self._time([sample.call for sample in samples], before, after, gated)
        for sample in samples:
            sample.ready = True
        clocks = support.clocks(number)
        self.mhz = min((mhz or 0.0 for mhz, _ in clocks), default=0.0)
        # two clocks, so that a launch that found the memory of one of them gains nothing
        timed = [
            Timed(max(us, least) if gated else us, audit, sm_clock_mhz=mhz)
            for us, audit, (mhz, least) in zip(times, support.audits(number), clocks, strict=True)
        ]
        if not compare:
            return timed
        found = zip(timed, support.errors(number), at.changed_references(), strict=True)
        return [
            replace(each, audit=replace(each.audit, changed=each.audit.changed + 1))
            if changed
            else replace(each, errors=errors)
            for each, errors, changed in found
        ]

    def _poison(self, sample: Sample, seed: int) -> None:
        self._at.poison_results(sample.times, sample.sets, seed)
        self._poison_workspace()

    def _audit(
        self, turn: int, sample: Sample, chosen: int, seed: int, secret: int, compare: bool
    ) -> None:
        """Queue the audit of a launch of a sample, and the comparison of its result if
        requested.
        """
        self._at.audit(chosen, sample.sets, seed, secret, sample.fresh)
        if compare:
            self._at.compare_anew(seed, chosen, sample.sets, sample.fresh)
        self._support.keep(turn)

    def time_calls(self, calls: Sequence[Call]) -> list[float]:
        """Return the microseconds of bare calls: no operands, no audit."""
        return self._time(calls, lambda turn: None, lambda turn: None, gated=True)

    def _time(
        self,
        calls: Sequence[Call],
        before: Callable[[int], None],
        after: Callable[[int], None],
        gated: bool,
    ) -> list[float]:
        """Return the microseconds of each call. `before` and `after` queue work that belongs to a
        call but is not timed.
        """
        while len(self._events) < len(calls):
            self._events.append((cuda.Event(), cuda.Event()))
        self._turn += 1
        try:
            if gated:
                succeed(self._wait_for_gate())
            try:
                for turn, (call, (start, end)) in enumerate(zip(calls, self._events, strict=False)):
                    before(turn)
                    start.record(self.stream)
                    call()
                    end.record(self.stream)
                    after(turn)
            finally:
                self._gate[0] = self._turn  # opens the gate, even if queueing failed
            if clock.now() - self._read_at > READING_SECONDS:
                self.reading, self._read_at = self.monitor(), clock.now()
            self.stream.synchronize()
        except cuda.Error as error:
            raise self._support.failure(error) from None
        times = [start.time_till(end) * 1e3 for start, end in self._events[: len(calls)]]
        self.busy_us += sum(times)
        return times

    def _wait_for_gate(self) -> tuple[Any, ...]:
        """Have the stream wait until the gate has the number of this turn; return the driver's
        answer.
        """
        equal = driver.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_EQ.value
        answer: tuple[Any, ...] = driver.cuStreamWaitValue32(
            driver.CUstream(self.stream.handle), self._gate_address, self._turn, equal
        )
        return answer

    def monitor(self) -> dict[str, float | int | None]:
        return self._board.reading()

    def sustain(self, sample: Sample, us: float, seed: int, wait: float) -> Timed:
        at, support = self._at, self._support
        secret = int(self._random.integers(2**63))
        chosen = audited_launch(self._random, sample.times)
        try:
            support.begin(1)
            at.renew(seed)
            self._poison(sample, seed)
            windows = Windows(sample.call, self.stream, us)
            first, meter = 0, Meter(self._board.millijoules, clock.now())

            def begin() -> None:
                nonlocal first, meter
                first, meter = len(windows.calls), Meter(self._board.millijoules, clock.now())
                windows.look = meter.look
                support.stamp(after=False)
                self.reading = self.monitor()

            settled = back_to_back.settle(
                windows.run, us, wait, begin, lambda: meter.watts() is not None
            )
            support.stamp(after=True)
            self._poison(sample, seed)
            sample.call()
            self._audit(0, sample, chosen, seed, secret, compare=True)
            self.stream.synchronize()
            last = len(windows.calls)
            self.busy_us += windows.us(0, last)
            ((mhz, least),) = support.clocks(1)
            us, gaps = back_to_back.typical(
                [windows.us(n, n + 1) / windows.calls[n] for n in range(first, last)]
            )
            return Timed(
                us * max(1.0, least / windows.us(first, last)),  # two clocks, as in `time_round`
                support.audits(1)[0],
                support.errors(1)[0],
                sm_clock_mhz=mhz,
                settled=settled,
                gaps=gaps,
                power_w=meter.watts(),
            )
        except cuda.Error as error:
            raise self._support.failure(error) from None

    def other_processes(self) -> int | None:
        return self._board.other_processes()

    def describe(self) -> dict[str, Any]:
        return {
            "compute_capability": "{}.{}".format(*self.device.compute_capability()),
            "sm_count": self.names["sm_count"],
            "clusters_of_4": self.names["clusters_of_4"],
            "memory_bytes": self.device.total_memory(),
            "cache_bytes": self._attribute("L2_CACHE_SIZE"),
            "shared_memory_per_sm_bytes": self._attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
            "shared_memory_per_block_bytes": self.names["shared_memory_per_block"],
            "registers_per_sm": self._attribute("MAX_REGISTERS_PER_MULTIPROCESSOR"),
            "threads_per_sm": self._attribute("MAX_THREADS_PER_MULTIPROCESSOR"),
            "cuda_driver_version": cuda.get_driver_version(),
            **self._board.describe(),
            "library": f"cuBLAS {self.blas.version()}",
        }

    def peaks(self) -> dict[str, float]:
        sms, capability = self.names["sm_count"], self.device.compute_capability()
        launches = cuda_peaks.arithmetic(self._support, sms, capability == (9, 0))
        half = min(2 << 30, cuda.mem_get_info()[0] // 4)
        source, target = cuda.mem_alloc(half), cuda.mem_alloc(half)
        cuda.memset_d32(int(source), 0x3F800001, half // 4)

        def copy() -> None:
            cuda.memcpy_dtod_async(int(target), int(source), half, self.stream)

        calls = [*(call for call, _ in launches.values()), copy]
        rounds = [self.time_calls(calls) for _ in range(30)][10:]
        *times_us, copy_us = np.median(rounds, axis=0).tolist()
        rates = {
            name: work / us * 1e-6
            for (name, (_, work)), us in zip(launches.items(), times_us, strict=True)
        }
        rates["copy_tb_s"] = 2 * half / copy_us * 1e-6
        rates |= cuda_peaks.memory(
            self._support, self.time_calls, sms, self._attribute("L2_CACHE_SIZE"), copy
        )
        source.free()
        target.free()
        return rates

    def launch_us(self, times: int) -> float:
        fma = self._support.function("peak_fma", "iffP")

        def launch() -> None:
            fma.prepared_async_call(
                (1, 1), (32, 1, 1), self.stream, 0, 1.0, 0.0, self._support.address("sums")
            )

        graphs: list[Any] = []
        empty = self._graph([launch] * times, graphs) if times > 1 else launch
        us = float(np.median([self.time_calls([empty]) for _ in range(50)])) / times
        for graph in graphs:
            driver.cuGraphExecDestroy(graph)
        return us

    def close(self) -> None:
        self.context.synchronize()
        self.context.pop()


def visible(slug: str) -> list[str]:
    """Return the UUIDs of the GPUs of one model that this process may use (CUDA_VISIBLE_DEVICES
    counts).
    """
    cuda.init()
    devices = [cuda.Device(index) for index in range(cuda.Device.count())]
    return [uuid_at(device.pci_bus_id()) for device in devices if slugify(device.name()) == slug]
