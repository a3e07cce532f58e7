"""The devices of this machine, and those that a campaign measures on."""

import ctypes
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import psutil

from ladder.core.errors import InputError
from ladder.core.surroundings import memory
from ladder.devices import libraries
from ladder.devices.base import Refused
from ladder.devices.simulation import simulated
from ladder.model.baselines import OF_LIBRARY
from ladder.model.campaign import MOST_OF_MEMORY, Campaign, check_memory
from ladder.model.problem import Problem

CPUINFO = Path("/proc/cpuinfo")
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
"""Linux's description of a core's caches (Documentation/ABI/testing/sysfs-devices-system-cpu)."""
ARM_CORES = {
    ("0x41", "0xd4f"): "Neoverse V2",
    ("0x41", "0xd85"): "Cortex-X925",
    ("0x41", "0xd87"): "Cortex-A725",
}
"""Cores of GH200 and DGX Spark by implementer and part, which is all that Linux says of them
(arch/arm64/include/asm/cputype.h).
"""
LEAST_CAPABILITY = (7, 5)
"""The least compute capability that CUDA 13 compiles for (CUDA Toolkit 13.0 Release Notes,
"Deprecated Architectures").
"""
LEAST_CUDA = 13000
"""The least version of CUDA that the driver must run, as `cuDriverGetVersion` returns it."""
OF_NODE = {
    "/dev/nvidiactl": "In a container, expected NVIDIA_DRIVER_CAPABILITIES=compute,utility; else "
    "install the driver again",
    "/dev/dxg": "On WSL, expected NVIDIA's driver on Windows, 580 or later, and "
    "LD_LIBRARY_PATH=/usr/lib/wsl/lib",
}
"""Device nodes that are there only if a GPU is, and what to do if NVML is missing nevertheless."""
OR_CPU = "To measure the CPU instead: --config 'devices=[cpu]'"


@dataclass(frozen=True)
class DetectedDevice:
    """A device that can be measured. GPUs of one model are one device; `uuids` tells them apart."""

    slug: str
    kind: str
    name: str
    arch: str
    """The architecture that kernels are compiled for: `sm_90`. The CPU compiles for itself, so this
    is its slug.
    """
    memory: int
    """Bytes of memory; 0 if unknown."""
    uuids: tuple[str, ...] = ()
    driver: str = ""
    library: str = ""
    """The version of cuBLAS, if a campaign names some; "" for the one that is installed."""
    library_folder: str = ""
    """The folder of its files."""

    @property
    def full_name(self) -> str:
        """The name, and the version of the library if there is one."""
        return self.name + (f", cuBLAS {self.library}" if self.library else "")

    @property
    def dataset(self) -> str:
        """The name of its dataset: the slug, and the version of the library if there is one."""
        return self.slug + (f"{OF_LIBRARY}{slugify(self.library)}" if self.library else "")


def slugify(name: str) -> str:
    """Return a name's slug: `NVIDIA H200` -> `nvidia-h200`."""
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"\((r|tm)\)", "", name.lower())).strip("-")


def detect_gpus() -> list[DetectedDevice]:
    """Return the GPUs that can be measured: whole ones that CUDA 13 compiles for. `left_out` says
    which others there are.

    Raises `InputError` if there is an NVIDIA driver that does not work, or one that is too old:
    neither means that there is no GPU.
    """
    if gpus := simulated():
        return list(gpus.detect())
    devices, _, driver = _scan()
    if devices:
        _check_cuda(driver)
    return devices


def left_out() -> list[str]:
    """Return a message for each GPU that cannot be measured, with the reason. Raises `InputError`
    as `detect_gpus` does.
    """
    return [] if simulated() else _scan()[1]


def _scan() -> tuple[list[DetectedDevice], list[str], str]:
    """Return the GPUs that the driver's management library (NVML) reports, what it says of those
    left out, and the driver's version.
    """
    import pynvml

    from ladder.devices.nvml import or_none

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        node = next((node for node in OF_NODE if Path(node).exists()), "")
        if error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND and node:
            raise InputError(
                f"{node} exists, but libnvidia-ml.so.1 was not found. {OF_NODE[node]}. {OR_CPU}"
            ) from None
        if error.value in (
            pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
            pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        ):
            return [], [], ""
        raise InputError(
            f"NVIDIA driver: {pynvml.nvmlErrorString(error.value)}; expected one with which "
            "`nvidia-smi` works: after an upgrade of the "
            f"driver, reboot. {OR_CPU}"
        ) from None
    try:
        devices: dict[str, DetectedDevice] = {}
        refused, driver = [], str(pynvml.nvmlSystemGetDriverVersion())
        for index in range(pynvml.nvmlDeviceGetCount()):
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                name = str(pynvml.nvmlDeviceGetName(handle))
                capability = tuple(pynvml.nvmlDeviceGetCudaComputeCapability(handle))
                slug, uuid = slugify(name), str(pynvml.nvmlDeviceGetUUID(handle))
            except pynvml.NVMLError as error:
                refused.append(f"GPU {index}: left out: {error}")
                continue
            if capability < LEAST_CAPABILITY:
                got, least = "{}.{}".format(*capability), "{}.{}".format(*LEAST_CAPABILITY)
                refused.append(
                    f"GPU {index}, {name}: left out: compute capability {got}; expected {least} or "
                    "more (CUDA 13)"
                )
            elif (or_none(partial(pynvml.nvmlDeviceGetMigMode, handle)) or [0])[0]:
                refused.append(
                    f"GPU {index}, {name}: left out: split by MIG; expected a whole GPU: "
                    f"`nvidia-smi -i {index} -mig 0`"
                )
            else:
                uuids = (*(devices[slug].uuids if slug in devices else ()), uuid)
                memory = or_none(partial(pynvml.nvmlDeviceGetMemoryInfo, handle))
                size, arch = int(memory.total) if memory else 0, "sm_{}{}".format(*capability)
                devices[slug] = DetectedDevice(slug, "cuda", name, arch, size, uuids, driver)
        return list(devices.values()), refused, driver
    finally:
        pynvml.nvmlShutdown()


def _check_cuda(driver: str) -> None:
    """Raise `InputError` unless the driver's library runs CUDA 13. `driver` is the version that
    NVML names.
    """
    version = ctypes.c_int()
    try:
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError) as error:
        raise InputError(
            f"NVIDIA driver {driver}: NVML shows a GPU, but CUDA's library cannot be used: "
            f"{error}. In a container, expected "
            f"NVIDIA_DRIVER_CAPABILITIES=compute,utility. {OR_CPU}"
        ) from None
    if version.value < LEAST_CUDA:
        raise InputError(
            f"NVIDIA driver {driver}: it runs CUDA "
            f"{version.value // 1000}.{version.value % 1000 // 10} at most; expected CUDA 13.0, "
            "which "
            f"the driver 580 and later run. {OR_CPU}"
        )


def check_gate(gpu: str, answer: str) -> None:
    """Raise `InputError` unless the driver's answer to a first `cuStreamWaitValue32` is success."""
    if answer != "CUDA_SUCCESS":
        raise InputError(
            f"{gpu}: the driver refuses cuStreamWaitValue32 ({answer}), by which launches wait "
            "until all of a round are queued; expected "
            "a GPU and a driver that have it, which Windows and WSL have not"
        )


@lru_cache
def detect_cpu() -> DetectedDevice:
    """Return the host CPU."""
    name = cpu_name(CPUINFO.read_text() if CPUINFO.exists() else "")
    slug = "cpu-" + slugify(name.split("@")[0].replace("CPU", ""))
    return DetectedDevice(slug, "cpu", name, slug, memory())


def check_memory_left(problem: Problem) -> None:
    """Raise, before the system kills this process for it, if the memory left is too little for a
    problem.

    It is `Refused` if the machine has too little in all, else `OSError`: something else holds the
    memory.
    """
    left, most = psutil.virtual_memory().available, MOST_OF_MEMORY * detect_cpu().memory
    if problem.host_bytes > min(left, most):
        text = (
            f"{problem.host_bytes / 2**30:.1f} GiB are needed for {problem.label}, and "
            f"{left / 2**30:.1f} GiB are left"
        )
        if problem.host_bytes > most:
            raise Refused("not_supported", text)
        raise OSError(f"{text}: something else holds the memory")


def cpu_name(text: str) -> str:
    """Return the CPU's name from the text of /proc/cpuinfo: the model on x86, the kinds of cores on
    Arm.
    """
    if match := re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE):
        return re.sub(r"\s+", " ", match.group(1))
    cores = re.findall(
        r"^CPU implementer\s*:\s*(\S+)$.*?^CPU part\s*:\s*(\S+)$", text, re.MULTILINE | re.DOTALL
    )
    kinds = sorted(
        {ARM_CORES.get(core, f"Arm {core[0]} {core[1]}") for core in cores}, reverse=True
    )
    return " and ".join(kinds) or platform.processor() or platform.machine()


def resolve(
    campaign: Campaign, gpus: Sequence[DetectedDevice], cpu: DetectedDevice
) -> list[DetectedDevice]:
    """Return the devices of this machine that a campaign measures on; `auto` is its GPUs, or the
    CPU if it has none.

    With `partitions` they are the devices of a cluster's machines, taken on trust: the jobs that
    run there check them (`here`). Raises
    `InputError` for a device that is not on this machine, one without problems, and problems that
    do not fit a device's memory.
    """
    if campaign.partitions:
        return _partitions(campaign)
    devices: list[DetectedDevice] = []
    for index, wanted in enumerate(campaign.devices):
        where = f"{campaign.source}: devices[{index}]: got {wanted!r}"
        chosen = [device for device in [*gpus, cpu] if wanted in (device.kind, device.slug)]
        if wanted == "auto":
            chosen = _automatic(campaign, gpus or [cpu])
        elif wanted == "cuda" and not gpus:
            others = "".join(f"; {message}" for message in left_out())
            raise InputError(
                f"{where}, but no usable GPU was found here{others}; expected an NVIDIA GPU and "
                "its driver, or devices: auto"
            )
        elif not chosen:
            known = ", ".join(device.slug for device in [*gpus, cpu])
            raise InputError(
                f"{where}, which is not on this machine; expected auto, cuda, cpu or one of "
                f"{known}; those of a cluster's other machines are named under `partitions`"
            )
        devices += [device for device in chosen if device not in devices]
    for device in devices:
        _check_problems(campaign, device.kind, device.slug)
        if device.memory:
            check_memory(campaign, device.kind, device.name, device.memory)
    return [each for device in devices for each in _with_libraries(campaign, device)]


def _with_libraries(campaign: Campaign, device: DetectedDevice) -> list[DetectedDevice]:
    """Return a GPU once for each version of cuBLAS that a campaign names, and any other device as it
    is.
    """
    if device.kind == "cpu" or not campaign.libraries:
        return [device]
    return [
        replace(
            device,
            library=version,
            library_folder=libraries.find(
                version, folder, f"{campaign.source}: libraries.cublas[{index}]"
            ),
        )
        for index, (version, folder) in enumerate(campaign.libraries.items())
    ]


def _automatic(campaign: Campaign, found: Sequence[DetectedDevice]) -> list[DetectedDevice]:
    """Return those of the devices found that the campaign has problems and kernels for. Without
    kernels for a device, kernels are compiled all the same.
    """
    usable = [device for device in found if device.kind in campaign.problem_sizes]
    if not usable:
        kinds = ", ".join(sorted({device.kind for device in found}))
        raise InputError(
            f"{campaign.source}: problems: got none for {kinds}, the devices found here; expected "
            "some"
        )
    kinds_of_kernels = {kernel.kind for kernel in campaign.kernels.values()}
    return [device for device in usable if device.kind in kinds_of_kernels]


def _check_problems(campaign: Campaign, kind: str, whose: str) -> None:
    """Raise `InputError` if the campaign has no problems for a device kind."""
    if kind not in campaign.problem_sizes:
        raise InputError(
            f"{campaign.source}: problems.{kind}: missing; expected problems for {whose}"
        )


def _partitions(campaign: Campaign) -> list[DetectedDevice]:
    names = campaign.partitions if list(campaign.devices) == ["auto"] else campaign.devices
    devices = []
    for index, name in enumerate(names):
        if name not in campaign.partitions:
            raise InputError(
                f"{campaign.source}: devices[{index}]: got {name!r}; expected one of the "
                f"campaign's partitions, {', '.join(campaign.partitions)}"
            )
        chosen = campaign.partitions[name]
        _check_problems(campaign, chosen.kind, f"partition {name}")
        arch = chosen.architecture or chosen.device
        devices.append(DetectedDevice(name, chosen.kind, chosen.device, arch, 0))
    return devices


def here(
    slug: str,
    architecture: str = "",
    partition: str = "",
    library: str = "",
    library_folder: str = "",
) -> DetectedDevice:
    """Return the device of this machine with a slug, and with a version of cuBLAS. Raises
    `InputError` if it is not on this machine.

    In a `partition` any machine's GPU of the model will do: they are one device, and `uuids` is
    empty.
    """
    gpus = [] if slug.startswith("cpu-") else detect_gpus()  # whose driver may not work
    devices = {device.slug: device for device in [*gpus, detect_cpu()]}
    where = f"the campaign: partitions.{partition}"
    if partition and slug not in devices:
        raise InputError(
            f"{where}.device: got {slug!r}, but this job was sent to {platform.node()}, which has "
            f"{', '.join(devices)}; "
            f"expected one of these, or resources that ask for a machine with {slug}"
        )
    if slug not in devices:
        raise InputError(
            f"device {slug}: not on this machine; expected one of {', '.join(devices)}"
        )
    if not partition:
        return replace(devices[slug], library=library, library_folder=library_folder)
    if architecture and architecture.rstrip("af") != devices[slug].arch:
        raise InputError(
            f"{where}.architecture: got {architecture!r}; expected {devices[slug].arch}, that of "
            f"{slug}"
        )
    return replace(devices[slug], uuids=())


def check_native(arch: str) -> None:
    """Raise `InputError` if `arch` is another CPU than this machine's: compilers make code for the
    CPU that they run on.
    """
    if arch.startswith("cpu-") and arch != detect_cpu().slug:
        raise InputError(
            f"{arch}: code for it is compiled on it, and {platform.node()} has "
            f"{detect_cpu().slug}; "
            f"expected resources under `partitions` that ask for a machine with {arch}"
        )


def last_level_cache() -> dict[str, int]:
    """Return the bytes of the largest cache that a core uses, if the system tells."""
    sizes = [path.read_text().strip() for path in CACHES.glob("index*/size")]
    known = [int(size.removesuffix("K")) << 10 for size in sizes if size.endswith("K")]
    return {"cache_bytes": max(known)} if known else {}
