"""The devices of this machine, and those that a campaign measures on."""

import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import psutil

from ladder.core.errors import InputError
from ladder.devices.simulation import simulated
from ladder.model.campaign import Campaign, check_memory

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
"""Linux's description of a core's caches (Documentation/ABI/testing/sysfs-devices-system-cpu)."""


@dataclass(frozen=True)
class Device:
    """A device that can be measured. GPUs of one model are one device; `uuids` tells them apart."""

    slug: str
    kind: str
    name: str
    arch: str
    """The architecture that kernels are compiled for: `sm_90`. The CPU compiles for itself, so this is its slug."""
    memory: int
    """Bytes of memory; 0 if unknown."""
    uuids: tuple[str, ...] = ()
    driver: str = ""


def slugify(name: str) -> str:
    """Return a name's slug: `NVIDIA H200` -> `nvidia-h200`."""
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"\((r|tm)\)", "", name.lower())).strip("-")


def detect_gpus() -> list[Device]:
    """Return the GPUs that the driver's management library (NVML) reports; none without a driver."""
    if gpus := simulated():
        return list(gpus.detect())
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        devices: dict[str, Device] = {}
        driver = str(pynvml.nvmlSystemGetDriverVersion())
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            name = str(pynvml.nvmlDeviceGetName(handle))
            major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
            slug, uuid = slugify(name), str(pynvml.nvmlDeviceGetUUID(handle))
            others = devices[slug].uuids if slug in devices else ()
            memory = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
            devices[slug] = Device(slug, "cuda", name, f"sm_{major}{minor}", memory, (*others, uuid), driver)
        return list(devices.values())
    finally:
        pynvml.nvmlShutdown()


@lru_cache
def detect_cpu() -> Device:
    """Return the host CPU."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    name = re.sub(r"\s+", " ", match.group(1)) if match else platform.processor() or platform.machine()
    slug = "cpu-" + slugify(name.split("@")[0].replace("CPU", ""))
    return Device(slug, "cpu", name, slug, psutil.virtual_memory().total)


def resolve(campaign: Campaign, gpus: Sequence[Device], cpu: Device) -> list[Device]:
    """Return the devices of this machine that a campaign measures on; `auto` is its GPUs, or the CPU if it has none.

    With `partitions` they are the devices of a cluster's machines, taken on trust: the jobs that run there check them (`here`). Raises
    `InputError` for a device that is not on this machine, one without problems, and problems that do not fit a device's memory.
    """
    if campaign.partitions:
        return _partitions(campaign)
    devices: list[Device] = []
    for index, wanted in enumerate(campaign.devices):
        where = f"{campaign.source}: devices[{index}]: got {wanted!r}"
        match wanted:
            case "auto":
                usable = [device for device in gpus or [cpu] if device.kind in campaign.problem_sizes]
                # a device that no chosen kernel runs on is not measured; the kernels are compiled all the same
                chosen = [d for d in usable if any(kernel.kind == d.kind for kernel in campaign.kernels.values())]
                if not usable:
                    kinds = ", ".join(sorted({device.kind for device in gpus or [cpu]}))
                    raise InputError(f"{campaign.source}: problems: got none for {kinds}, the devices found here; expected some")
            case "cuda":
                if not gpus:
                    raise InputError(
                        f"{where}, but no GPU was found here; expected an NVIDIA GPU and its driver, or devices: auto"
                    )
                chosen = list(gpus)
            case "cpu":
                chosen = [cpu]
            case _:
                chosen = [device for device in [*gpus, cpu] if device.slug == wanted]
                if not chosen:
                    known = ", ".join(device.slug for device in [*gpus, cpu])
                    raise InputError(
                        f"{where}, which is not on this machine; expected auto, cuda, cpu or one of {known}; "
                        f"those of a cluster's other machines are named under `partitions`"
                    )
        devices += [device for device in chosen if device not in devices]
    for device in devices:
        if device.kind not in campaign.problem_sizes:
            raise InputError(f"{campaign.source}: problems.{device.kind}: missing; expected problems for {device.slug}")
        if device.memory:
            check_memory(campaign, device.kind, device.name, device.memory)
    return devices


def _partitions(campaign: Campaign) -> list[Device]:
    devices = []
    for index, name in enumerate(campaign.partitions if list(campaign.devices) == ["auto"] else campaign.devices):
        if name not in campaign.partitions:
            raise InputError(
                f"{campaign.source}: devices[{index}]: got {name!r}; expected one of the campaign's partitions, "
                f"{', '.join(campaign.partitions)}"
            )
        chosen = campaign.partitions[name]
        if chosen.kind not in campaign.problem_sizes:
            raise InputError(f"{campaign.source}: problems.{chosen.kind}: missing; expected problems for partition {name}")
        devices.append(Device(name, chosen.kind, chosen.device, chosen.architecture or chosen.device, 0))
    return devices


def here(campaign: Campaign, dataset: str) -> Device:
    """Return the device of this machine that a dataset is about. Raises `InputError` if it is not on this machine.

    In a partition any machine's GPU of the model will do: they are one device, and `uuids` is empty.
    """
    partition = campaign.partitions.get(dataset)
    slug = partition.device if partition else dataset
    devices = {device.slug: device for device in [*detect_gpus(), detect_cpu()]}
    where = f"{campaign.source}: partitions.{dataset}"
    if partition and slug not in devices:
        raise InputError(
            f"{where}.device: got {slug!r}, but this job was sent to {platform.node()}, which has {', '.join(devices)}; "
            f"expected one of these, or resources that ask for a machine with {slug}"
        )
    if slug not in devices:
        raise InputError(f"device {slug}: not on this machine; expected one of {', '.join(devices)}")
    if not partition:
        return devices[slug]
    if partition.kind == "cuda" and partition.architecture.rstrip("af") != devices[slug].arch:
        raise InputError(f"{where}.architecture: got {partition.architecture!r}; expected {devices[slug].arch}, that of {slug}")
    return replace(devices[slug], uuids=())


def check_native(arch: str) -> None:
    """Raise `InputError` if `arch` is another CPU than this machine's: compilers make code for the CPU that they run on."""
    if arch.startswith("cpu-") and arch != detect_cpu().slug:
        raise InputError(
            f"{arch}: code for it is compiled on it, and {platform.node()} has {detect_cpu().slug}; "
            f"expected resources under `partitions` that ask for a machine with {arch}"
        )


def last_level_cache() -> dict[str, int]:
    """Return the bytes of the largest cache that a core uses, if the system tells."""
    sizes = [path.read_text().strip() for path in CACHES.glob("index*/size")]
    known = [int(size.removesuffix("K")) << 10 for size in sizes if size.endswith("K")]
    return {"cache_bytes": max(known)} if known else {}
