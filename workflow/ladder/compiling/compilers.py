"""Run nvcc, NVRTC or the C compiler within limits of time and memory, and read what they say."""

import contextlib
import math
import os
import re
import resource
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from ladder.compiling.toolchain import CPU_FLAGS, NVCC_FLAGS, NVRTC_FLAGS, cc, compiler_version, nvcc
from ladder.core.errors import InputError, plain
from ladder.devices.simulation import simulated

STANDARD = ("cstddef", "cstdint", "stddef.h", "stdint.h")
"""The C library's headers that a kernel may want and NVRTC does not have; libcu++'s stand in for them."""
COMPILE_SECONDS = 600
"""Time of a core that each program of a compiler may use."""
COMPILE_BYTES = 4 << 30
"""Memory that each may use; those of the project's kernels take 0.2 GiB."""


_NO_MEMORY = re.compile(
    r"error: out of memory|out of memory allocating|memory exhausted|cannot allocate memory|memory allocation failure|bad_alloc",
    re.IGNORECASE,
)
"""What compilers say of too little memory."""
_CUT_OFF = re.compile(
    r"No space left on device|Disk quota exceeded|Killed signal terminated|died due to signal 9\b"
    r"|Resource temporarily unavailable|Input/output error|Read-only file system"
)
"""What compilers, their drivers and the system say of a machine that gave them too little else."""


_PTXAS = {
    "registers": r"Used (\d+) registers",
    "static_shared": r"(\d+) bytes smem",
    "stack_frame": r"(\d+) bytes stack frame",
    "spill_stores": r"(\d+) bytes spill stores",
    "spill_loads": r"(\d+) bytes spill loads",
}


class CompileError(Exception):
    """The compiler refused the source; the message is its own."""


def _load(compiler: str) -> None:
    """Have its version known and, where it is one, its library in this process."""
    compiler_version(compiler)
    if compiler == "nvrtc" and not simulated():
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """What is started meanwhile is ended by the system once it has computed for `COMPILE_SECONDS`, and gets `COMPILE_BYTES` (setrlimit(2)).

    Raises `CompileError` where that memory was too little. What this process has used is added: NVRTC runs in a copy of it.
    """
    bounds = {
        resource.RLIMIT_CPU: math.ceil(time.process_time()) + COMPILE_SECONDS,
        resource.RLIMIT_AS: psutil.Process().memory_info().vms + COMPILE_BYTES,
    }
    before = {kind: resource.getrlimit(kind) for kind in bounds}
    for kind, (soft, hard) in before.items():
        bounds[kind] = min(limit for limit in (bounds[kind], soft, hard) if limit != resource.RLIM_INFINITY)
        resource.setrlimit(kind, (bounds[kind], hard))
    try:
        yield
    except (InputError, CompileError) as error:
        if bounds[resource.RLIMIT_AS] in before[resource.RLIMIT_AS]:  # a limit of the user's own
            raise
        may = f"may use {COMPILE_BYTES / 2**30:g} GiB of memory"
        if _NO_MEMORY.search(str(error)):
            message = str(error).partition(": ")[2]  # without that it says nothing of the kernel
            raise CompileError(f"the compiler {may}, and asked for more: {message}") from None
        if "died due to signal 11" in str(error):  # it may well use memory before it looks whether it was given any
            raise CompileError(f"{error}\nIt {may}; one that asks for more can end like this, too") from None
        raise
    finally:
        for kind, limits in before.items():
            resource.setrlimit(kind, limits)


def _nvcc(source: str, arch: str, include: Path, options: Sequence[str] = ()) -> tuple[bytes, dict[str, Any]]:
    """The cubin, through PyCUDA's compiler, and the resources that ptxas reported."""
    if gpus := simulated():
        built: tuple[bytes, dict[str, Any]] = gpus.compile(source)
        return built
    from pycuda import compiler

    options = [*NVCC_FLAGS, *options, "-arch", arch, f"-I{include}"]
    with tempfile.TemporaryDirectory() as scratch:
        record = _Record(Path(scratch))
        try:
            cubin: bytes = compiler.compile_plain(source, options, keep=False, nvcc=str(record.program), cache_dir=None)
        except Exception as error:  # PyCUDA's CompileError, or one of importing it: it comes with libcuda, which need not be here
            status, printed = record.status(), record.output() or getattr(error, "stderr", "")
            if not status and not printed:
                raise
            raise _refusal(printed or f"nvcc ended with status {status} and no word") from None
        finally:
            record.remove_folder()
        return cubin, parse_ptxas(record.output())


class _Record:
    """A program in a folder that runs nvcc and records there what it prints, its exit status and the folder that it worked in.

    PyCUDA gives nvcc's output away only in a warning, or in an error that needs libcuda, and leaves its own folder behind on an error.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.program = folder, folder / "nvcc"
        here = shlex.quote(str(folder))
        self.program.write_text(
            f'#!/bin/sh\npwd > {here}/folder\n{shlex.quote(nvcc())} "$@" > {here}/output 2>&1\n'
            f"status=$?\necho $status > {here}/status\nexit $status\n"
        )
        self.program.chmod(0o700)

    def _read(self, name: str) -> str:
        path = self.folder / name
        return path.read_text(errors="replace") if path.exists() else ""

    def output(self) -> str:
        """All that nvcc printed."""
        return self._read("output")

    def status(self) -> int:
        """The exit status of nvcc, 0 if it did not run."""
        return int(self._read("status") or 0)

    def remove_folder(self) -> None:
        """Remove the folder that nvcc worked in, if PyCUDA has not."""
        if worked_in := self._read("folder").rstrip("\n"):
            shutil.rmtree(worked_in, ignore_errors=True)


def _nvrtc(source: str, arch: str, include: Path, options: Sequence[str] = ()) -> tuple[bytes, dict[str, Any]]:
    """The same by NVRTC. It is a library, so it has a process of its own: one that crashes takes nothing else along."""
    if simulated():
        return _nvcc(source, arch, include, options)
    _load("nvrtc")  # for all processes to come
    toolkit = Path(nvcc()).parents[1] / "include"
    options = [
        *NVRTC_FLAGS,
        *options,
        f"--gpu-architecture={arch}",
        *(f"-I{folder}" for folder in (include, toolkit, toolkit / "cccl")),
    ]
    parents_end, childs_end = Pipe(duplex=False)
    with tempfile.TemporaryFile() as errors:
        child = get_context("fork").Process(target=_nvrtc_child, args=(childs_end, errors.fileno(), source, options))
        child.start()
        childs_end.close()
        try:
            cubin, log = parents_end.recv()
        except EOFError:
            child.join()
            errors.seek(0)
            cubin, log = b"", f"NVRTC died due to signal {-(child.exitcode or 0)}\n{errors.read().decode(errors='replace')}"
        child.join()
    if not cubin:
        raise _refusal(log)
    return cubin, parse_ptxas(log)


def _nvrtc_child(connection: Connection, errors: int, source: str, options: Sequence[str]) -> None:
    """Send the cubin, empty where there is none, and what the compiler said (NVRTC, "User Interface"); its last words go to `errors`."""
    from cuda.bindings import nvrtc

    os.dup2(errors, 2)
    headers = [f"#include <cuda/std/{'c' + name[:-2] if name.endswith('.h') else name}>".encode() for name in STANDARD]
    names = [name.encode() for name in STANDARD]
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", len(names), headers, names)
    (result,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
    log = bytearray(nvrtc.nvrtcGetProgramLogSize(program)[1])
    nvrtc.nvrtcGetProgramLog(program, log)
    cubin = bytearray(nvrtc.nvrtcGetCUBINSize(program)[1] if result == nvrtc.nvrtcResult.NVRTC_SUCCESS else 0)
    if cubin:
        nvrtc.nvrtcGetCUBIN(program, cubin)
    connection.send((bytes(cubin), log.decode(errors="replace").rstrip("\0") or str(result)))


def _cc(source: str, arch: str, include: Path, options: Sequence[str] = ()) -> tuple[bytes, dict[str, Any]]:
    """The shared object for the CPU that it runs on, and nothing about it."""
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "kernel.c").write_text(source)
        done = subprocess.run(
            [cc(), *CPU_FLAGS, *options, f"-I{include}", "kernel.c", "-o", "kernel.so"],
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            raise _refusal(done.stderr or f"the compiler ended with status {done.returncode} and no word")
        return (Path(scratch) / "kernel.so").read_bytes(), {}


def _refusal(message: str) -> CompileError:
    """What the compiler said of the source. Raises `InputError` where it did not come to that: nothing of the kernel's then."""
    if _NO_MEMORY.search(message) or _CUT_OFF.search(message):
        raise InputError(f"the compiler was cut off, which says nothing of the kernel; run again: {_tidy(message)}")
    return CompileError(_tidy(message))


def _tidy(message: str) -> str:
    """The compiler's message without what ptxas says of itself, at most 4,000 characters."""
    lines = [line for line in message.strip().splitlines() if not line.startswith(("ptxas info", "ptxas         ."))]
    return plain("\n".join(lines), 4000)


def parse_ptxas(text: str) -> dict[str, Any]:
    """What `ptxas -v` prints of a cubin, as fields of `Resource`: registers a thread, and bytes of static shared memory, stack and spills."""
    functions: list[dict[str, Any]] = []
    for part in text.split("Compiling entry function '")[1:]:
        matches = {name: re.search(pattern, part) for name, pattern in _PTXAS.items()}
        functions.append(
            {"function": part.partition("'")[0]} | {name: int(m.group(1)) if m else 0 for name, m in matches.items()}
        )
    most: dict[str, Any] = max(functions, key=lambda function: function["registers"], default={})
    return most | {name: sum(function[name] for function in functions) for name in ("spill_stores", "spill_loads")}
