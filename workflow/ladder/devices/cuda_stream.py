"""Launches on a stream: of functions with their arguments, graphs of them, and windows that follow
each other without a gap.
"""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import pycuda.driver as cuda
from cuda.bindings import driver

from ladder.devices.base import Call
from ladder.model.kernel import LaunchShape


def succeed(result: tuple[Any, ...]) -> Any:
    """Return the value of a driver call. Raises `cuda.RuntimeError` with the driver's own name of a
    failure.
    """
    if result[0] != driver.CUresult.CUDA_SUCCESS:
        raise cuda.RuntimeError(str(result[0]))
    return result[1] if len(result) > 1 else None


def capture(calls: Sequence[Call], stream: Any) -> Any:
    """Return an executable graph of all calls, which somebody must destroy (CUDA C++ Programming
    Guide, "CUDA Graphs").
    """
    raw = driver.CUstream(stream.handle)
    succeed(
        driver.cuStreamBeginCapture(raw, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    )
    try:
        for call in calls:
            call()
    finally:
        graph = succeed(driver.cuStreamEndCapture(raw))
    executable = succeed(driver.cuGraphInstantiate(graph, 0))
    succeed(driver.cuGraphDestroy(graph))
    succeed(driver.cuGraphUpload(executable, raw))
    return executable


class Function:
    """A function of a module, and its launches. The driver puts the arguments where the function
    expects them.
    """

    def __init__(self, module: Any, name: str) -> None:
        self.handle = succeed(driver.cuModuleGetFunction(module, name.encode()))

    def load(self) -> bool:
        """Load its code, which else the first launch does. Return whether that waits for nothing:
        it makes local memory.
        """
        succeed(driver.cuFuncLoad(self.handle))
        return self.attribute("LOCAL_SIZE_BYTES") == 0

    def attribute(self, name: str) -> int:
        """Return an attribute by the driver's name: `NUM_REGS`."""
        return int(
            succeed(
                driver.cuFuncGetAttribute(
                    driver.CUfunction_attribute[f"CU_FUNC_ATTRIBUTE_{name}"], self.handle
                )
            )
        )

    def allow_shared(self, size: int) -> None:
        """Let blocks have `size` bytes of dynamic shared memory."""
        name = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        succeed(driver.cuFuncSetAttribute(self.handle, name, size))

    def launch(self, shape: LaunchShape, stream: Any, arguments: Sequence[Any]) -> None:
        """Queue a launch. Arguments are of `ctypes`; the driver copies them."""
        pointers = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        raw, shared = driver.CUstream(stream.handle), shape.dynamic_shared
        succeed(
            driver.cuLaunchKernel(
                self.handle, *shape.grid, *shape.block, shared, raw, ctypes.addressof(pointers), 0
            )
        )


def clusters_at_once(support: bytes, blocks: int, shared: int) -> int:
    """Return how many clusters of `blocks` blocks run at once if each block has an SM to itself; 0
    on a GPU without clusters.

    It is the driver's answer for a function of the compiled `support.cu` whose blocks request
    `shared` bytes of shared memory, the most that a block can: an SM has no room for two.
    """
    attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH
    if not succeed(driver.cuDeviceGetAttribute(attribute, succeed(driver.cuCtxGetDevice()))):
        return 0
    # a copy: what its function may request stays there
    module = succeed(driver.cuModuleLoadData(support))
    try:
        function = Function(module, "stamp")
        function.allow_shared(shared)
        config, size = driver.CUlaunchConfig(), driver.CUlaunchAttribute()
        size.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        extent = size.value.clusterDim
        extent.x, extent.y, extent.z = blocks, 1, 1
        config.gridDimX, config.gridDimY, config.gridDimZ = blocks, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = 32, 1, 1  # a warp
        config.sharedMemBytes, config.attrs, config.numAttrs = shared, [size], 1
        return int(succeed(driver.cuOccupancyMaxActiveClusters(function.handle, config)))
    finally:
        succeed(driver.cuModuleUnload(module))


class Windows:
    """Windows of calls back to back. While one runs, the next is queued, so the device never waits
    for the host.
    """

    def __init__(self, call: Call, stream: Any, us: float) -> None:
        self._call, self._stream, self._us = call, stream, us
        self.look: Callable[[bool], None] = lambda launching: None
        """Called all the while; `launching` says whether the host still has calls to make."""
        self.calls: list[int] = []
        """The calls of each window."""
        self._ends = [cuda.Event().record(stream)]

    def run(self, calls: int) -> float:
        """Queue a window of `calls`, and wait for the one before; return the microseconds of one of
        its calls.
        """
        for _ in range(calls):
            self._call()
            self.look(True)
        self.calls.append(calls)
        self._ends.append(cuda.Event().record(self._stream))
        while not self._ends[-2].query():
            self.look(False)
        return (
            self.us(len(self.calls) - 2, len(self.calls) - 1) / self.calls[-2]
            if len(self.calls) > 1
            else self._us
        )

    def us(self, first: int, end: int) -> float:
        """Return the microseconds from the beginning of window `first` to that of window `end`.
        They must have ended.
        """
        return float(self._ends[first].time_till(self._ends[end])) * 1e3
