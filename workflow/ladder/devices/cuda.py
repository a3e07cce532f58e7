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
from ladder.devices import CANARY, GUARD, Device, Errors, Launch, Refused, buffer_elements, host_operands, scalars
from ladder.environment import slugify
from ladder.kernels import Configuration, Kernel, LaunchShape
from ladder.units import ELEMENT_TYPES

MAX_GRID = (2**31 - 1, 65535, 65535)
"""Blocks of a grid in x, y, z (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability")."""
FREE_SHARED = 48 << 10
"""Bytes of shared memory a block gets without asking for more."""
CHECK_BLOCKS, CHECK_THREADS = 1024, 256
SCALAR_CODES = {"float32": "f", "float64": "d", "float16": "H"}
"""`struct` codes of alpha and beta as kernel arguments."""
READING_SECONDS = 0.02
"""A reading of NVML serves the rounds of this long: it takes the host about a millisecond."""
ENERGY_LEAD_SECONDS = 0.1
"""Of a stretch of launches, what passes before their energy is counted: what the counter adds lags behind."""
SAMPLED = 64
"""Elements of the float64 reference that are computed a second time on the host."""


class Cuda(Device):
    """One GPU, chosen by its UUID, with the primary context (which cuBLAS shares) current in this thread."""

    kind = "cuda"
    rotates = True

    def __init__(self, uuid: str, support: bytes, baselines: Callable[["Cuda"], Any]) -> None:
        cuda.init()
        pynvml.nvmlInit()
        self.nvml = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        bus = pynvml.nvmlDeviceGetPciInfo(self.nvml).busId
        self.device = cuda.Device(bus if isinstance(bus, str) else bus.decode())
        self.context = self.device.retain_primary_context()
        self.context.push()
        self.stream = cuda.Stream()
        self._support = cuda.module_from_buffer(support)
        self._events: list[tuple[Any, Any]] = []
        self._gate = cuda.pagelocked_zeros(1, np.uint32, mem_flags=cuda.host_alloc_flags.DEVICEMAP)
        self._gate_address = int(self._gate.base.get_device_pointer())
        self._turn = 0
        l2 = self.device.get_attribute(cuda.device_attribute.L2_CACHE_SIZE)
        self._flush_bytes = max(2 * l2, 64 << 20)
        self._flush: Any = None
        self._sums = cuda.mem_alloc(CHECK_BLOCKS * 4 * 8)
        self._counts = cuda.mem_alloc(CHECK_BLOCKS * 2 * 8)
        self._modules: dict[bytes, Any] = {}
        self._graphs: list[Any] = []
        self._sets: list[tuple[Any, Any, int]] = []
        self._read_at = -math.inf
        self.a: Any = None
        self.b: Any = None
        self.c = 0
        self._buffers: list[Any] = []
        self._workspace: Any = None
        self._workspace_bytes = 0
        self.blas = baselines(self)

    def allocate(self, count: int, size: int) -> Any:
        """Device memory for `count` elements of `size` bytes, freed with the problem."""
        try:
            self._buffers.append(cuda.mem_alloc(count * size))
        except cuda.MemoryError:
            raise Refused("not_supported", f"the device has no {count * size / 2**30:.1f} GiB left for an operand") from None
        return self._buffers[-1]

    def _free_problem(self) -> None:
        for graph in self._graphs:
            driver.cuGraphExecDestroy(graph)
        for buffer in self._buffers:
            buffer.free()
        self._graphs, self._buffers, self._sets = [], [], []

    def problem(self, problem: Problem) -> None:
        self._free_problem()
        self.given, size = problem, ELEMENT_TYPES[problem.element_type].size
        a, b, c0 = host_operands(problem)
        self.a, self.b = self.allocate(a.size, size), self.allocate(b.size, size)
        self._bytes = a.nbytes, b.nbytes, buffer_elements(problem) * size
        cuda.memcpy_htod(self.a, a)
        cuda.memcpy_htod(self.b, b)
        self._total = buffer_elements(problem)
        self.c_buffer = self.allocate(self._total, size)
        self.c = int(self.c_buffer) + GUARD * size
        self._image: Any = None
        if problem.beta != 0:
            image = np.full(self._total * size // 4, CANARY, np.uint32).view(c0.dtype)
            image[GUARD : GUARD + c0.size].reshape(c0.shape)[:, : problem.n] = c0[:, : problem.n]
            self._image = self.allocate(image.size, size)
            cuda.memcpy_htod(self._image, image)
        self._poison()
        self._make_reference(a, b, c0)

    def _make_reference(self, a: NDArray[Any], b: NDArray[Any], c0: NDArray[Any]) -> None:
        """R = alpha*A*B + beta*C and S = |alpha| |A| |B| + |beta| |C| in float64, by cuBLAS DGEMM."""
        m, n, k = self.given.m, self.given.n, self.given.k
        alpha, beta = (float(value) for value in scalars(self.given))
        self._reference, self._scale = self.allocate(m * n, 8), self.allocate(m * n, 8)
        a64, b64 = self.allocate(m * k, 8), self.allocate(k * n, 8)

        def run() -> None:
            for absolute, out in ((0, self._reference), (1, self._scale)):
                self._widen(self.a, self.given.lda, m, k, a64, absolute)
                self._widen(self.b, self.given.ldb, k, n, b64, absolute)
                if beta != 0:
                    self._widen(self.c, self.given.ldc, m, n, out, absolute)
                factor = abs if absolute else float
                self.blas.product64(m, n, k, factor(alpha), a64, b64, factor(beta), out)

        self._timed(run)
        for _ in range(2):
            self._buffers.pop().free()
        self._check_reference(a, b, c0, alpha, beta)

    def _check_reference(self, a: NDArray[Any], b: NDArray[Any], c0: NDArray[Any], alpha: float, beta: float) -> None:
        """Sampled elements of the reference agree with the host's arithmetic: the judge is judged too."""
        random = np.random.default_rng(self.given.seed)
        rows, cols = random.integers(0, self.given.m, SAMPLED), random.integers(0, self.given.n, SAMPLED)
        got = np.empty(1)
        for row, col in zip(rows.tolist(), cols.tolist(), strict=True):
            cuda.memcpy_dtoh(got, int(self._reference) + 8 * (row * self.given.n + col))
            terms = a[row, : self.given.k].astype(np.float64) * b[:, col].astype(np.float64)
            expected = alpha * terms.sum() + (beta * float(c0[row, col]) if beta != 0 else 0.0)
            scale = abs(alpha) * np.abs(terms).sum() + (abs(beta * float(c0[row, col])) if beta != 0 else 0.0)
            if not abs(got[0] - expected) <= 2.0**-52 * (self.given.k + 2) * scale:
                raise RuntimeError(f"the float64 reference is wrong at C[{row}][{col}]: {got[0]} instead of {expected}")

    def _widen(self, source: Any, ld: int, rows: int, cols: int, out: Any, absolute: int) -> None:
        function = self._support.get_function(f"widen_{self.given.element_type}")
        function.prepare("PqqqPi")
        function.prepared_async_call(
            (CHECK_BLOCKS, 1), (CHECK_THREADS, 1, 1), self.stream, int(source), ld, rows, cols, int(out), absolute
        )

    def kernel(self, kernel: Kernel, configuration: Configuration, binary: bytes) -> Launch:
        p, names = self.given, self.given.names()
        code = SCALAR_CODES[p.element_type]
        # PyCUDA packs no half; its bits as a 16-bit integer are the same argument
        alpha, beta = (value.view(np.uint16) if p.element_type == "float16" else value for value in scalars(p))
        workspace = kernel.workspace_of(configuration, names)
        if workspace is not None:
            self._reserve(workspace)
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

        def call() -> None:
            # looked up at every call: the operands rotate, and the workspace grows when another configuration needs more
            arguments = (p.m, p.n, p.k, alpha, int(self.a), p.lda, int(self.b), p.ldb, beta, self.c, p.ldc)
            extra = () if workspace is None else (int(self._workspace),)
            for launch, shape in calls:
                launch(shape.grid, shape.block, self.stream, *arguments, *extra, shared_size=shape.dynamic_shared)

        return Launch(call)

    def _reserve(self, size: int) -> None:
        """Make the workspace at least `size` bytes large."""
        if size > self._workspace_bytes:
            if self._workspace is not None:
                self._workspace.free()
            self._workspace, self._workspace_bytes = None, 0
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
        limit = self.device.get_attribute(cuda.device_attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
        if shared > limit:
            raise Refused("not_supported", f"{shared} bytes of shared memory a block; at most {limit}")
        if shape.dynamic_shared > FREE_SHARED:
            function.set_attribute(cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, shape.dynamic_shared)

    def baseline(self, name: str) -> Launch:
        launch: Launch = self.blas.launch(name)
        return launch

    def _poison(self) -> None:
        size = self._total * ELEMENT_TYPES[self.given.element_type].size
        if self._image is None:
            cuda.memset_d32_async(int(self.c_buffer), CANARY, size // 4, self.stream)
        else:
            cuda.memcpy_dtod_async(int(self.c_buffer), int(self._image), size, self.stream)

    def check(self, launch: Launch) -> Errors:
        compare = self._support.get_function(f"compare_{self.given.element_type}")
        compare.prepare("PqqqqqPPPP")
        p = self.given

        if self._workspace is not None:  # a kernel that expects zeros there fails
            cuda.memset_d32_async(int(self._workspace), CANARY, self._workspace_bytes // 4, self.stream)

        def run() -> None:
            self._poison()
            launch.before()
            launch.call()
            compare.prepared_async_call(
                (CHECK_BLOCKS, 1), (CHECK_THREADS, 1, 1), self.stream, int(self.c_buffer), self._total, GUARD, p.m, p.n, p.ldc,
                int(self._reference), int(self._scale), int(self._sums), int(self._counts),
            )  # fmt: skip

        try:
            self._timed(run)
            sums, counts = np.empty((CHECK_BLOCKS, 4)), np.empty((CHECK_BLOCKS, 2), np.uint64)
            cuda.memcpy_dtoh(sums, self._sums)
            cuda.memcpy_dtoh(counts, self._counts)
        except cuda.Error as error:
            raise Refused("launch_error", str(error), fatal=True) from None
        total = sums.sum(axis=0)
        wild, stray = (int(count) for count in counts.sum(axis=0))
        return Errors(float(total[0]), float(total[1]), float(total[2]), float(sums[:, 3].max()), wild, stray)

    def _timed(self, run: Callable[[], None]) -> None:
        """Run to the end, counting the time as busy."""
        start, end = cuda.Event(), cuda.Event()
        start.record(self.stream)
        run()
        end.record(self.stream)
        end.synchronize()
        self.busy_us += start.time_till(end) * 1e3

    def _rotation(self, times: int) -> list[tuple[Any, Any, int]]:
        """The operands and as many copies as `times` launches need: a set's turn comes when the others have filled the L2 twice."""
        originals = self.a, self.b, self.c_buffer
        if not self._sets:
            self._sets.append((self.a, self.b, self.c))
        wanted = min(times, 1 + math.ceil(self._flush_bytes / sum(self._bytes)))
        while len(self._sets) < wanted:
            copies = [self.allocate(size, 1) for size in self._bytes]
            for copy, original, size in zip(copies, originals, self._bytes, strict=True):
                cuda.memcpy_dtod(int(copy), int(original), size)
            self._sets.append((copies[0], copies[1], int(copies[2]) + self.c - int(self.c_buffer)))
        return self._sets[:wanted]

    def repeated(self, launch: Launch, times: int, cold: bool = False) -> Launch:
        if times == 1:
            return launch
        raw, own = driver.CUstream(self.stream.handle), (self.a, self.b, self.c)
        sets = self._rotation(times) if cold else [own]
        _succeed(driver.cuStreamBeginCapture(raw, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
        try:
            for index in range(times):
                self.a, self.b, self.c = sets[index % len(sets)]
                launch.call()
        finally:
            self.a, self.b, self.c = own
            graph = _succeed(driver.cuStreamEndCapture(raw))
        executable = _succeed(driver.cuGraphInstantiate(graph, 0))
        _succeed(driver.cuGraphDestroy(graph))
        self._graphs.append(executable)
        _succeed(driver.cuGraphUpload(executable, raw))

        def call() -> None:
            _succeed(driver.cuGraphLaunch(executable, raw))

        return Launch(call)

    def time_round(self, launches: Sequence[Launch], cold: bool) -> list[float]:
        while len(self._events) < len(launches):
            self._events.append((cuda.Event(), cuda.Event()))
        if cold and self._flush is None:
            self._flush = cuda.mem_alloc(self._flush_bytes)
        raw = driver.CUstream(self.stream.handle)
        self._turn += 1
        try:
            _succeed(driver.cuStreamWaitValue32(raw, self._gate_address, self._turn,
                                                driver.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_EQ.value))  # fmt: skip
            try:
                for launch, (start, end) in zip(launches, self._events, strict=False):
                    if cold:
                        cuda.memset_d8_async(int(self._flush), self._turn % 256, self._flush_bytes, self.stream)
                    start.record(self.stream)
                    launch.call()
                    end.record(self.stream)
            finally:
                self._gate[0] = self._turn  # opens the gate, also when queueing failed
            if time.monotonic() - self._read_at > READING_SECONDS:
                self.reading, self._read_at = self.monitor(), time.monotonic()
            self.stream.synchronize()
        except cuda.Error as error:
            raise Refused("launch_error", str(error), fatal=True) from None
        times = [start.time_till(end) * 1e3 for start, end in self._events[: len(launches)]]
        self.busy_us += sum(times)
        return times

    def monitor(self) -> dict[str, float | int | None]:
        readings: dict[str, Callable[[], float | int]] = {
            "sm_clock_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(self.nvml, pynvml.NVML_CLOCK_SM),
            "memory_clock_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(self.nvml, pynvml.NVML_CLOCK_MEM),
            "power_w": self._power,
            "temperature_c": lambda: pynvml.nvmlDeviceGetTemperature(self.nvml, pynvml.NVML_TEMPERATURE_GPU),
            "throttle_reasons": lambda: pynvml.nvmlDeviceGetCurrentClocksEventReasons(self.nvml),
        }
        return {name: _or_none(read) for name, read in readings.items()}

    def _power(self) -> float:
        """Watts now; where the driver has only an average (over a second, since Ampere), that."""
        (field,) = pynvml.nvmlDeviceGetFieldValues(self.nvml, [pynvml.NVML_FI_DEV_POWER_INSTANT])
        if field.nvmlReturn == pynvml.NVML_SUCCESS:
            return int(field.value.uiVal) / 1e3
        return float(pynvml.nvmlDeviceGetPowerUsage(self.nvml)) / 1e3

    def energy(self, launch: Launch, calls: int) -> float | None:
        """From the board's counter, between two of its steps: it moves some ten times a second, and both ends must be on a step."""

        def read() -> int | None:
            counted: int | None = _or_none(lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(self.nvml))
            return counted

        last = read()
        if last is None:
            return None
        steps: list[tuple[float, int]] = []
        try:
            start, end = cuda.Event(), cuda.Event()
            begin = asked = time.monotonic()
            start.record(self.stream)
            for _ in range(calls):
                launch.call()
            end.record(self.stream)
            while not end.query():
                before, asked = asked, time.monotonic()
                millijoules = read()
                if millijoules is not None and millijoules != last:
                    last = millijoules
                    steps.append(((before + asked) / 2 - begin, last))
            us = float(start.time_till(end)) * 1e3
        except cuda.Error as error:
            raise Refused("launch_error", str(error), fatal=True) from None
        self.busy_us += us
        steps = [step for step in steps if step[0] > ENERGY_LEAD_SECONDS]
        if len(steps) < 2:
            return None
        (first_at, first), (last_at, last) = steps[0], steps[-1]
        return (last - first) / 1e3 / (last_at - first_at) * us / 1e6 / calls

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
        blocks, rounds = self.device.get_attribute(cuda.device_attribute.MULTIPROCESSOR_COUNT) * 8, 2000
        fma = self._support.get_function("peak_fma")
        fma.prepare("iffP")

        def multiply_add() -> None:
            fma.prepared_async_call((blocks, 1), (256, 1, 1), self.stream, rounds, 0.999, 0.001, int(self._sums))

        half = min(2 << 30, cuda.mem_get_info()[0] // 4)
        source, target = cuda.mem_alloc(half), cuda.mem_alloc(half)
        cuda.memset_d32(int(source), 0x3F800001, half // 4)

        def copy() -> None:
            cuda.memcpy_dtod_async(int(target), int(source), half, self.stream)

        times = np.array([self.time_round([Launch(multiply_add), Launch(copy)], cold=False) for _ in range(30)])
        source.free()
        target.free()
        fma_us, copy_us = np.median(times[10:], axis=0).tolist()
        return {"fp32_tflops": blocks * 256 * rounds * 64 * 2 / fma_us * 1e-6, "copy_tb_s": 2 * half / copy_us * 1e-6}

    def launch_us(self, times: int) -> float:
        fma = self._support.get_function("peak_fma")
        fma.prepare("iffP")
        one = Launch(lambda: fma.prepared_async_call((1, 1), (32, 1, 1), self.stream, 0, 1.0, 0.0, int(self._sums)))
        empty = self.repeated(one, times)
        return float(np.median([self.time_round([empty], cold=False) for _ in range(50)])) / times

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
