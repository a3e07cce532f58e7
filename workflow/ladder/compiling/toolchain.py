"""Find the compilers, their versions and flags, and the architectures that they support."""

import contextlib
import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from ladder.core import places
from ladder.core.errors import InputError
from ladder.devices.detect import DetectedDevice
from ladder.devices.simulation import simulated
from ladder.model.campaign import Campaign
from ladder.model.kernel import Kernel

DEFAULT_ARCHITECTURE = "sm_90"
"""The architecture for which `ladder` compiles a CUDA kernel if there is no GPU."""
_ASSEMBLER_FLAGS = ("-O3", "-v")
FLAGS = {
    "nvcc": ("-std=c++17", "-O3", "-Xptxas", "-v"),
    "nvrtc": ("-std=c++17", "--ptxas-options=-v"),
    "ptxas": _ASSEMBLER_FLAGS,
    "triton": _ASSEMBLER_FLAGS,
    "cc": ("-O3", "-march=native", "-std=gnu11", "-fopenmp", "-shared", "-fPIC"),
}
"""The arguments of each compiler for every kernel. ptxas assembles what Triton makes."""
PASSED = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")
"""The environment variables that compilers and workers see, and no others.

Many variables change what compilers make, and no table would say so: NVCC_APPEND_FLAGS,
PTXAS_FLAGS, NVRTC_APPEND_FLAGS, CPATH, COMPILER_PATH, LD_RUN_PATH and more. Without LANG and LC_*
their messages are in English, as `compilers` expects. docs/method.md lists those that change what a
worker measures. LD_LIBRARY_PATH stays, because some machines have the driver there only.
"""
TRITON = places.find(".venv-triton") / "bin" / "python"
"""The Python of the environment that `make setup-triton` makes."""
LIBRARIES = {"cutlass": ("nvidia-cutlass", "cutlass_library/source/include")}
"""Headers that a kernel may use: the header's name for them, their package, and their folder in it.
`make setup-NAME` installs it.
"""
NO_CUDA = (
    "needs gemm-ladder[cuda]: pip install 'gemm-ladder[cuda]', or in a checkout `make setup`. pip "
    "builds PyCUDA, with g++, Python's headers, and a CUDA toolkit in CUDA_ROOT"
)
"""What a machine without the compiler is told."""
COMPILER = {"cuda": "nvcc", "cpu": "cc"}
"""The compiler for each device kind, unless a campaign names another."""


def architectures(
    campaign: Campaign, devices: Sequence[DetectedDevice], gpus: Sequence[DetectedDevice]
) -> list[str]:
    """Return the architectures to compile CUDA kernels for: those of the campaign and of the
    measured devices.

    Raises `InputError` if nvcc does not support an architecture of the campaign.
    """
    asked = {f"architectures[{index}]": arch for index, arch in enumerate(campaign.architectures)}
    asked |= {
        f"partitions.{name}.architecture": partition.architecture
        for name, partition in campaign.partitions.items()
        if partition.architecture
    }
    known = _known_architectures() if asked else []
    for key, arch in asked.items():
        if arch.rstrip("af") not in known:
            raise InputError(
                f"{campaign.source}: {key}: got {arch!r}; expected one that {nvcc()} compiles for: "
                f"{', '.join(known)}"
            )
    present = [gpu.arch for gpu in gpus]
    chosen = list(campaign.architectures) or ([] if campaign.partitions else present)
    return list(
        dict.fromkeys([*chosen, *(device.arch for device in devices if device.kind == "cuda")])
    )


def environment() -> dict[str, str]:
    """Return the environment for a compiler or a worker: those of `PASSED` that are set."""
    return {name: os.environ[name] for name in PASSED if name in os.environ}


@lru_cache
def nvcc() -> str:
    """Return the path of nvcc: from the locked toolkit, else from the PATH. Raises `InputError` if
    there is neither, or no PyCUDA.
    """
    with contextlib.suppress(ModuleNotFoundError):
        for folder in importlib.import_module("nvidia.cu13").__path__:
            path = Path(folder) / "bin" / "nvcc"
            if path.exists():
                return str(path)
    located = shutil.which("nvcc")
    if not located or not importlib.util.find_spec("pycuda"):
        raise InputError(NO_CUDA)
    return located


def ptxas() -> str:
    """Return the path of nvcc's own assembler. Raises `InputError` as `nvcc` does."""
    return str(Path(nvcc()).with_name("ptxas"))


@lru_cache
def _known_architectures() -> list[str]:
    """Return the architectures that nvcc supports, such as `sm_90`, without variants such as
    `sm_90a`.
    """
    done = subprocess.run(
        [nvcc(), "--list-gpu-code"], env=environment(), capture_output=True, text=True, check=True
    )
    return [word for word in done.stdout.split() if word.startswith("sm_")]


@lru_cache
def cc() -> tuple[str, ...]:
    """Return the path of the C compiler and its first arguments: the words of `$CC`, or gcc. Raises
    `InputError` if there is none.
    """
    given = os.environ.get("CC") or "gcc"
    try:
        program, *arguments = shlex.split(given)
    except ValueError as error:
        raise InputError(
            f"CC: got {given}: {error}; expected a C compiler, perhaps with arguments"
        ) from None
    path = shutil.which(program)
    if not path:
        raise InputError(
            f"CC: the C compiler {program} was not found; expected gcc, which comes with g++, or $CC"
        )
    return path, *arguments


def compiler_version(compiler: str) -> str:
    """Return the version line of `nvcc`, `ptxas` or the C compiler `cc`, or the version of the
    library `nvrtc`.

    Raises `InputError` if the compiler does not state its version.
    """
    if compiler != "cc" and (gpus := simulated()):
        return str(gpus.compiler_version(compiler))
    if compiler == "triton":
        return f"triton {triton_version() or 'missing'}, {_version('ptxas')}"
    return _version(compiler)


@lru_cache
def _version(compiler: str) -> str:
    if compiler != "cc":
        nvcc()  # whose package all of them need
    if compiler == "nvrtc":
        return importlib.metadata.version("nvidia-cuda-nvrtc")
    command = (nvcc(),) if compiler == "nvcc" else (ptxas(),) if compiler == "ptxas" else cc()
    done = subprocess.run(
        [*command, "--version"], env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode or not done.stdout.strip():
        raise InputError(
            f"{shlex.join(command)} --version: exit code {done.returncode}; expected a compiler, "
            "which says its version"
        )
    version = done.stdout.strip().splitlines()[0 if compiler == "cc" else -1]
    # arguments can change what it makes
    return f"{version}, as {named(command)}" if command[1:] else version


def named(command: Sequence[str]) -> str:
    """Return a compiler's command without the folder of its program."""
    return shlex.join([Path(command[0]).name, *command[1:]])


def library_folders(kernel: Kernel) -> list[Path]:
    """Return the folders of the libraries that a kernel uses. Raises `InputError` if one, or the
    kernel's compiler, is not installed.
    """
    folders = []
    if kernel.path.suffix == ".py" and not TRITON.exists():
        raise InputError("needs Triton; `make setup-triton` installs it")
    for name in kernel.uses:
        package, folder = LIBRARIES[name]
        try:
            located = importlib.metadata.distribution(package).locate_file(folder)
            folders.append(Path(str(located)))
        except importlib.metadata.PackageNotFoundError:
            raise InputError(
                f"needs the headers of {package}; `make setup-{name}` installs them"
            ) from None
    return folders


def versions(kernel: Kernel, compiler: str) -> str:
    """Return the version of the compiler, then those of the libraries that the kernel uses, if they
    are installed.
    """
    installed = package_versions(LIBRARIES[name][0] for name in kernel.uses)
    return ", ".join(
        [
            compiler_version(compiler),
            *(f"{package} {version}" for package, version in installed.items()),
        ]
    )


def package_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of Python packages, without what is not installed."""
    versions = {}
    for package in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return versions


def triton_version() -> str:
    """Return the version of Triton in its own environment, "" if it is not installed. Raises
    `InputError` if the lock has another.
    """
    (folder,) = [
        path.name for path in TRITON.parents[1].glob("lib/python*/site-packages/triton-*.dist-info")
    ] or [""]
    version = folder.removesuffix(".dist-info").partition("-")[2]
    (locked,) = re.findall(
        r"^triton==([^ \\]+)", (places.HOME / "envs" / "triton.lock").read_text(), re.MULTILINE
    )
    if version not in ("", locked):
        raise InputError(
            f"{TRITON}: got Triton {version}; expected {locked}, as in envs/triton.lock: `make "
            "setup-triton`"
        )
    return version
