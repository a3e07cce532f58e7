"""A GPU through NVML: clocks, temperature, energy, limits, and other processes on it. Names end in
their units.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pynvml


class Board:
    """A GPU as NVML knows it. What a board or a driver does not tell is None."""

    def __init__(self, uuid: str) -> None:
        pynvml.nvmlInit()
        self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        bus = pynvml.nvmlDeviceGetPciInfo(self._handle).busId
        self.bus: str = bus if isinstance(bus, str) else bus.decode()
        """The PCI address, by which CUDA finds the GPU whatever CUDA_VISIBLE_DEVICES says."""

    def reading(self) -> dict[str, float | int | None]:
        """Return clocks, temperature and throttle reasons now. This takes the host about a
        millisecond.
        """
        return _readings(
            {
                "sm_clock_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(
                    self._handle, pynvml.NVML_CLOCK_SM
                ),
                "memory_clock_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(
                    self._handle, pynvml.NVML_CLOCK_MEM
                ),
                "temperature_c": lambda: pynvml.nvmlDeviceGetTemperature(
                    self._handle, pynvml.NVML_TEMPERATURE_GPU
                ),
                "throttle_reasons": lambda: pynvml.nvmlDeviceGetCurrentClocksEventReasons(
                    self._handle
                ),
            }
        )

    def millijoules(self) -> int | None:
        """Return the board's counter of energy; None if it has none."""
        counted: int | None = or_none(
            lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)
        )
        return counted

    def other_processes(self) -> int | None:
        """Return how many processes besides this one compute on the GPU; None if that is
        unknown.
        """
        # in a container NVML may list other pids than os.getpid() returns, but one of those it
        # lists is this process
        listed = or_none(lambda: pynvml.nvmlDeviceGetComputeRunningProcesses(self._handle))
        return len({process.pid for process in listed}) - 1 if listed else None

    def describe(self) -> dict[str, Any]:
        """Return what does not change while the GPU computes: its limits, and which GPU it is."""
        return _readings(
            {
                "power_limit_w": lambda: (
                    pynvml.nvmlDeviceGetPowerManagementLimit(self._handle) / 1e3
                ),
                "max_sm_clock_mhz": lambda: pynvml.nvmlDeviceGetMaxClockInfo(
                    self._handle, pynvml.NVML_CLOCK_SM
                ),
                "max_memory_clock_mhz": lambda: pynvml.nvmlDeviceGetMaxClockInfo(
                    self._handle, pynvml.NVML_CLOCK_MEM
                ),
                "ecc": lambda: bool(pynvml.nvmlDeviceGetEccMode(self._handle)[0]),
                "uuid": lambda: str(pynvml.nvmlDeviceGetUUID(self._handle)),
            }
        )


def uuid_at(bus: str) -> str:
    """Return the UUID of the GPU at a PCI address such as `0000:01:00.0`."""
    pynvml.nvmlInit()
    return str(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByPciBusId(bus.encode())))


def _readings(reads: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    return {name: or_none(read) for name, read in reads.items()}


def or_none(read: Callable[[], Any]) -> Any:
    """Return what NVML tells, or None if it does not."""
    try:
        return read()
    except pynvml.NVMLError:
        return None
