"""Find the compilers, their versions, their flags, and the architectures that they compile for."""

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from ladder.core.errors import InputError
from ladder.devices.detect import Device
from ladder.devices.simulation import simulated
from ladder.model.campaign import Campaign

DEFAULT_ARCHITECTURE = "sm_90"
"""What CUDA kernels are compiled for where there is no GPU and the campaign says `auto`."""
CPU_FLAGS = ("-O3", "-march=native", "-std=gnu11", "-fopenmp", "-shared", "-fPIC")
NVCC_FLAGS = ("-std=c++17", "-O3", "-Xptxas", "-v")
NVRTC_FLAGS = ("-std=c++17", "--ptxas-options=-v")
COMPILER = {"cuda": "nvcc", "cpu": "cc"}
"""What a device kind's code is compiled by unless a campaign says otherwise."""


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
    located = shutil.which("nvcc")
    if not located:
        raise InputError("nvcc was not found; expected the locked environment (`make setup`) or a CUDA toolkit on the PATH")
    return located


@lru_cache
def _known_architectures() -> list[str]:
    """What nvcc compiles for: `sm_90` and so on; variants such as `sm_90a` are not listed."""
    done = subprocess.run([nvcc(), "--list-gpu-code"], capture_output=True, text=True, check=True)
    return [word for word in done.stdout.split() if word.startswith("sm_")]


@lru_cache
def cc() -> str:
    """Path of the C compiler, `$CC` or gcc. Raises `InputError` where there is none."""
    path = shutil.which(os.environ.get("CC", "gcc"))
    if not path:
        raise InputError(
            f"the C compiler {os.environ.get('CC', 'gcc')} was not found; expected gcc, which comes with g++, or $CC"
        )
    return path


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
