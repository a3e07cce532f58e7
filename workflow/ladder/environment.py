"""What runs where: the devices of this machine, the compilers and libraries, and the state of the project."""

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import psutil

from ladder.campaign import Campaign, check_memory
from ladder.simulation import simulated
from ladder.units import InputError

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_ARCHITECTURE = "sm_90"
"""What CUDA kernels are compiled for where there is no GPU and the campaign says `auto`."""
CPU_FLAGS = ("-O3", "-march=native", "-std=gnu11", "-fopenmp", "-shared", "-fPIC")
NVCC_FLAGS = ("-std=c++17", "-O3", "-Xptxas", "-v")
NVRTC_FLAGS = ("-std=c++17", "--ptxas-options=-v")
COMPILER = {"cuda": "nvcc", "cpu": "cc"}
"""What a device kind's code is compiled by unless a campaign says otherwise."""

PACKAGES = ("snakemake", "pycuda", "numpy", "pandas", "seaborn", "pyarrow", "nvmath-python", "cuda-bindings", "nvidia-cublas")


@dataclass(frozen=True)
class Device:
    """A device that can be measured. GPUs of one model are one device; `uuids` tells them apart."""

    slug: str
    kind: str
    name: str
    arch: str
    """What kernels are compiled for: `sm_90`; the CPU compiles for itself, and this is its slug."""
    memory: int
    """Bytes."""
    uuids: tuple[str, ...] = ()
    driver: str = ""


def slugify(name: str) -> str:
    """`NVIDIA H200` -> `nvidia-h200`."""
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"\((r|tm)\)", "", name.lower())).strip("-")


def detect_gpus() -> list[Device]:
    """The GPUs that the driver's management library (NVML) reports; none where there is no driver."""
    if gpus := simulated():
        return list(gpus.detect())
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        found: dict[str, Device] = {}
        driver = str(pynvml.nvmlSystemGetDriverVersion())
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            name = str(pynvml.nvmlDeviceGetName(handle))
            major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
            slug, uuid = slugify(name), str(pynvml.nvmlDeviceGetUUID(handle))
            others = found[slug].uuids if slug in found else ()
            memory = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
            found[slug] = Device(slug, "cuda", name, f"sm_{major}{minor}", memory, (*others, uuid), driver)
        return list(found.values())
    finally:
        pynvml.nvmlShutdown()


@lru_cache
def detect_cpu() -> Device:
    """The host CPU."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    name = re.sub(r"\s+", " ", found.group(1)) if found else platform.processor() or platform.machine()
    slug = "cpu-" + slugify(name.split("@")[0].replace("CPU", ""))
    return Device(slug, "cpu", name, slug, psutil.virtual_memory().total)


def resolve(campaign: Campaign, gpus: Sequence[Device], cpu: Device) -> list[Device]:
    """The devices a campaign measures on, of those this machine has; `auto` is its GPUs, or the CPU where it has none.

    With `partitions` they are those of a cluster's machines, taken on trust: the jobs that run there check them (`here`).
    Raises `InputError` for a device that is not here, one without problems, and problems that do not fit a device's memory.
    """
    if campaign.partitions:
        return _partitions(campaign)
    devices: list[Device] = []
    for index, wanted in enumerate(campaign.devices):
        where = f"{campaign.source}: devices[{index}]: got {wanted!r}"
        match wanted:
            case "auto":
                found = [device for device in gpus or [cpu] if device.kind in campaign.problem_sizes]
                # what no chosen kernel runs on is not measured: what was chosen is compiled
                chosen = [d for d in found if any(kernel.kind == d.kind for kernel in campaign.kernels.values())]
                if not found:
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
    """The device of this machine that a dataset is about; raises `InputError` where it has none.

    In a partition any machine's GPU of the model will do: they are one device, and `uuids` does not tell them apart.
    """
    partition = campaign.partitions.get(dataset)
    slug = partition.device if partition else dataset
    found = {device.slug: device for device in [*detect_gpus(), detect_cpu()]}
    where = f"{campaign.source}: partitions.{dataset}"
    if partition and slug not in found:
        raise InputError(
            f"{where}.device: got {slug!r}, but this job was sent to {platform.node()}, which has {', '.join(found)}; "
            f"expected one of these, or resources that ask for a machine with {slug}"
        )
    if slug not in found:
        raise InputError(f"device {slug}: not on this machine; expected one of {', '.join(found)}")
    if not partition:
        return found[slug]
    if partition.kind == "cuda" and partition.architecture.rstrip("af") != found[slug].arch:
        raise InputError(f"{where}.architecture: got {partition.architecture!r}; expected {found[slug].arch}, that of {slug}")
    return replace(found[slug], uuids=())


def check_native(arch: str) -> None:
    """Raise `InputError` where `arch` is a CPU other than this machine's: compilers make code for the CPU that they run on."""
    if arch.startswith("cpu-") and arch != detect_cpu().slug:
        raise InputError(
            f"{arch}: code for it is compiled on it, and {platform.node()} has {detect_cpu().slug}; "
            f"expected resources under `partitions` that ask for a machine with {arch}"
        )


def check_alike(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Raise `InputError` where this machine's fingerprint is not that of `environment.json`: a dataset has one environment."""
    for key in sorted({*found, *expected}):
        if found.get(key) != expected.get(key):
            raise InputError(
                f"{platform.node()}: {key} is {found.get(key)!r}; expected {expected.get(key)!r}, as in environment.json. "
                f"Name resources under `partitions` that only machines alike have, or let `--forcerun probe` describe it anew"
            )


def architectures(campaign: Campaign, devices: Sequence[Device], gpus: Sequence[Device]) -> list[str]:
    """What CUDA kernels are compiled for: those of the campaign and of the devices measured.

    Raises `InputError` for one of the campaign's that nvcc does not compile for.
    """
    asked = {f"architectures[{index}]": arch for index, arch in enumerate(campaign.architectures)}
    asked |= {f"partitions.{name}.architecture": it.architecture for name, it in campaign.partitions.items() if it.architecture}
    known = _known_architectures() if asked else []
    for key, arch in asked.items():
        if arch.rstrip("af") not in known:
            raise InputError(
                f"{campaign.source}: {key}: got {arch!r}; expected one that {nvcc()} compiles for: {', '.join(known)}"
            )
    present = [gpu.arch for gpu in gpus] or [DEFAULT_ARCHITECTURE]
    chosen = list(campaign.architectures) or ([] if campaign.partitions else present)
    return list(dict.fromkeys([*chosen, *(device.arch for device in devices if device.kind == "cuda")]))


@lru_cache
def nvcc() -> str:
    """Path of nvcc: that of the locked toolkit, else the one on the PATH. Raises `InputError` where there is neither."""
    spec = importlib.util.find_spec("nvidia.cu13") if importlib.util.find_spec("nvidia") else None
    for folder in spec.submodule_search_locations or [] if spec else []:
        path = Path(folder) / "bin" / "nvcc"
        if path.exists():
            return str(path)
    found = shutil.which("nvcc")
    if not found:
        raise InputError("nvcc was not found; expected the locked environment (`make setup`) or a CUDA toolkit on the PATH")
    return found


@lru_cache
def _known_architectures() -> list[str]:
    """What nvcc compiles for: `sm_90` and so on; variants such as `sm_90a` are not listed."""
    done = subprocess.run([nvcc(), "--list-gpu-code"], capture_output=True, text=True, check=True)
    return [word for word in done.stdout.split() if word.startswith("sm_")]


@lru_cache
def cc() -> str:
    """Path of the C compiler, `$CC` or gcc. Raises `InputError` where there is none."""
    found = shutil.which(os.environ.get("CC", "gcc"))
    if not found:
        raise InputError(
            f"the C compiler {os.environ.get('CC', 'gcc')} was not found; expected gcc, which comes with g++, or $CC"
        )
    return found


@lru_cache
def compiler_version(compiler: str) -> str:
    """The version line of `nvcc`, or of the C compiler, `cc`; the version of `nvrtc`, the toolkit's compiler as a library."""
    if compiler != "cc" and (gpus := simulated()):
        return str(gpus.compiler_version(compiler))
    if compiler == "nvrtc":
        return importlib.metadata.version("nvidia-cuda-nvrtc")
    path = {"nvcc": nvcc, "cc": cc}[compiler]()
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    if done.returncode or not done.stdout.strip():
        raise InputError(f"{path} --version: exit code {done.returncode}; expected a compiler, which says its version")
    return done.stdout.strip().splitlines()[-1 if compiler == "nvcc" else 0]


def package_versions() -> dict[str, str]:
    """Versions of the Python packages that a measurement or a figure depends on; those not installed are left out."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def project_state() -> dict[str, Any]:
    """The project's commit, and whether files differed from it or were new; None where neither git nor an image's build tells."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        return done.stdout.strip()

    image = ROOT / "REVISION"  # an image has no git; its build has left this there
    if image.exists():
        commit, _, dirty = image.read_text().strip().partition("-")
        return {"commit": commit or None, "dirty": bool(dirty) if commit else None}
    changes = git("status", "--porcelain")
    return {"commit": git("rev-parse", "HEAD"), "dirty": None if changes is None else bool(changes)}


def fingerprint(device: Device) -> dict[str, Any]:
    """What a measurement depends on besides the project: a change of any of it makes earlier measurements stale."""
    versions = package_versions()
    common = {"device": device.name, "compiler": compiler_version(COMPILER[device.kind]), "numpy": versions["numpy"]}
    if device.kind == "cuda":
        return common | {
            "uuids": list(device.uuids),
            "driver": device.driver,
            **{p: versions.get(p) for p in ("pycuda", "nvidia-cublas")},
            **({"simulated": True} if simulated() else {}),
        }
    return common | {"cores": os.cpu_count(), "python": platform.python_version()}


def describe(device: Device) -> dict[str, Any]:
    """`environment.json` less what only the device itself can tell (its attributes and peaks)."""
    return {
        "device": device.slug,
        "kind": device.kind,
        "name": device.name,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "fingerprint": fingerprint(device),
        "compiler": {
            "path": Path(nvcc() if device.kind == "cuda" else cc()).name,
            "version": compiler_version(COMPILER[device.kind]),
        },
        "host": {
            "cpu": detect_cpu().name,
            "cores": os.cpu_count(),
            "memory_bytes": psutil.virtual_memory().total,
            "system": f"{platform.system()} {platform.release()}",
        },
        "python": {"version": sys.version.split()[0], "packages": package_versions()},
        "project": project_state(),
    }
