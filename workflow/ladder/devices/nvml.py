"""What NVML tells of a GPU: clocks, temperature, energy, its limits, and who else computes on it. Units are those that names end in."""

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
        """By which CUDA finds it, whatever CUDA_VISIBLE_DEVICES says."""

    def reading(self) -> dict[str, float | int | None]:
        """Clocks, temperature and what holds the clock down, now. It takes the host about a millisecond."""
        return _told({
            "sm_clock_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(self._handle, pynvml.NVML_CLOCK_SM),
            "memory_clock_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(self._handle, pynvml.NVML_CLOCK_MEM),
            "temperature_c": lambda: pynvml.nvmlDeviceGetTemperature(self._handle, pynvml.NVML_TEMPERATURE_GPU),
            "throttle_reasons": lambda: pynvml.nvmlDeviceGetCurrentClocksEventReasons(self._handle),
        })  # fmt: skip

    def millijoules(self) -> int | None:
        """The board's counter of energy."""
        counted: int | None = _or_none(lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(self._handle))
        return counted

    def other_processes(self) -> int | None:
        """How many processes besides this one compute on it."""
        # in a container NVML may know processes by other numbers, so not by os.getpid(): whatever it lists, one of them is this one
        listed = _or_none(lambda: pynvml.nvmlDeviceGetComputeRunningProcesses(self._handle))
        return len({process.pid for process in listed}) - 1 if listed else None

    def describe(self) -> dict[str, Any]:
        """What does not change while it computes: its limits, and which GPU it is."""
        return _told({
            "power_limit_w": lambda: pynvml.nvmlDeviceGetPowerManagementLimit(self._handle) / 1e3,
            "max_sm_clock_mhz": lambda: pynvml.nvmlDeviceGetMaxClockInfo(self._handle, pynvml.NVML_CLOCK_SM),
            "max_memory_clock_mhz": lambda: pynvml.nvmlDeviceGetMaxClockInfo(self._handle, pynvml.NVML_CLOCK_MEM),
            "ecc": lambda: bool(pynvml.nvmlDeviceGetEccMode(self._handle)[0]),
            "uuid": lambda: str(pynvml.nvmlDeviceGetUUID(self._handle)),
        })  # fmt: skip


def uuid_at(bus: str) -> str:
    """The UUID of the GPU at a place of the PCI bus: `0000:01:00.0`."""
    pynvml.nvmlInit()
    return str(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByPciBusId(bus.encode())))


def _told(reads: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    return {name: _or_none(read) for name, read in reads.items()}


def _or_none(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except pynvml.NVMLError:
        return None
