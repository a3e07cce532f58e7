"""Run nvcc, NVRTC, ptxas or the C compiler with limits on time and memory, and parse their
output.
"""

import contextlib
import json
import math
import os
import re
import resource
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from ladder.compiling import triton_child
from ladder.compiling.toolchain import FLAGS, TRITON, cc, environment, nvcc, ptxas
from ladder.core.errors import InputError, plain
from ladder.devices.simulation import simulated

STANDARD = ("cstddef", "cstdint", "stddef.h", "stdint.h")
"""Headers of the C library that kernels may include and NVRTC lacks; libcu++ provides
replacements.
"""
COMPILE_SECONDS = 600
"""The CPU time that each program of a compiler may use, in seconds."""
COMPILE_BYTES = 4 << 30
"""The memory that each program may use, in bytes. Compiling the project's kernels takes 0.2 GiB."""


_NO_MEMORY = re.compile(
    r"error: out of memory|out of memory allocating|memory exhausted|cannot allocate memory|memory "
    r"allocation failure|bad_alloc",
    re.IGNORECASE,
)
"""Compiler messages about too little memory."""
_CUT_OFF = re.compile(
    r"No space left on device|Disk quota exceeded|Killed signal terminated|died due to signal 9\b"
    r"|Resource temporarily unavailable|Input/output error|Read-only file system"
)
"""Messages of compilers, their drivers and the system when the machine ran out of something else or
killed a process.
"""


_PTXAS = {
    "registers": r"Used (\d+) registers",
    "static_shared": r"(\d+) bytes smem",
    "stack_frame": r"(\d+) bytes stack frame",
    "spill_stores": r"(\d+) bytes spill stores",
    "spill_loads": r"(\d+) bytes spill loads",
}


class CompileError(Exception):
    """The compiler refused the source; the message is the compiler's."""


Built = tuple[bytes, dict[str, Any]]
"""A binary, and the resources that its compiler reported: fields of `compile.Resource`."""


def compile_source(
    compiler: str,
    source: str,
    arch: str,
    includes: Sequence[Path] = (),
    options: Sequence[str] = (),
) -> Built:
    """Return what one of `COMPILERS` makes of a source. `includes` are the folders of headers,
    absolute, because the compilers run in their own folders.

    Simulated GPUs take the place of CUDA's compilers. Raises `CompileError` if the compiler refuses
    the source, and `InputError` if the machine cut it off.
    """
    if compiler != "cc" and (gpus := simulated()):
        built: Built = gpus.compile(source)
        return built
    with _limited():
        return COMPILERS[compiler](source, arch, includes, options)


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Limit processes started in this context to `COMPILE_SECONDS` of CPU time and `COMPILE_BYTES`
    of memory (setrlimit(2)).

    What this process has used already is added to both limits, because NVRTC runs in a fork of it.
    Raises `CompileError` if the memory was too little.
    """
    bounds = {
        resource.RLIMIT_CPU: math.ceil(time.process_time()) + COMPILE_SECONDS,
        resource.RLIMIT_AS: psutil.Process().memory_info().vms + COMPILE_BYTES,
    }
    before = {kind: resource.getrlimit(kind) for kind in bounds}
    for kind, (soft, hard) in before.items():
        bounds[kind] = min(
            limit for limit in (bounds[kind], soft, hard) if limit != resource.RLIM_INFINITY
        )
        resource.setrlimit(kind, (bounds[kind], hard))
    try:
        yield
    except (InputError, CompileError) as error:
        # the user's own limit was the lower one
        if bounds[resource.RLIMIT_AS] in before[resource.RLIMIT_AS]:
            raise
        may = f"may use {COMPILE_BYTES / 2**30:g} GiB of memory"
        if _NO_MEMORY.search(str(error)):
            # without the prefix of `_refusal`, which clears the kernel
            message = str(error).partition(": ")[2]
            raise CompileError(f"the compiler {may}, and needed more: {message}") from None
        # a compiler may use memory without checking that it got any
        if "died due to signal 11" in str(error):
            raise CompileError(
                f"{error}\nIt {may}; one that asks for more can end like this, too"
            ) from None
        raise
    finally:
        for kind, limits in before.items():
            resource.setrlimit(kind, limits)


def _nvcc(source: str, arch: str, includes: Sequence[Path], options: Sequence[str]) -> Built:
    """Return the cubin, made by PyCUDA's compiler, and the resources that ptxas reported.

    PyCUDA passes nvcc's output on only in a warning, or in an error that needs libcuda, and on an
    error it leaves its own folder behind. So it runs a script that records both.
    """
    from pycuda import compiler

    with tempfile.TemporaryDirectory() as scratch:
        record = Path(scratch)
        program, output, worked_in = (record / name for name in ("nvcc", "output", "folder"))
        program.write_text(_script(record, includes))
        program.chmod(0o700)
        for path in (output, worked_in):
            path.touch()
        try:
            cubin: bytes = compiler.compile_plain(
                source,
                [*FLAGS["nvcc"], *options, "-arch", arch],
                keep=False,
                nvcc=str(program),
                cache_dir=None,
            )
        # PyCUDA's CompileError, or an error on importing it: it needs libcuda, which may be absent
        except Exception as error:
            printed = output.read_text(errors="replace") or getattr(error, "stderr", "")
            if not printed:
                raise
            raise _refusal(printed) from None
        finally:
            shutil.rmtree(worked_in.read_text(), ignore_errors=True)
        return cubin, parse_ptxas(output.read_text(errors="replace"))


def _script(record: Path, folders: Sequence[Path]) -> str:
    """Return a script that runs nvcc, and writes what nvcc prints and its working folder to files
    in `record`.

    nvcc passes paths through a shell and splits them at commas. So the script links the toolkit and
    the folders to include into its working folder, by names that are plain whatever the paths of
    the checkout and of TMPDIR are.
    """
    links = {f"include{number or ''}": str(path) for number, path in enumerate(folders)}
    options = " ".join(f"-I{name}" for name in links)
    links["toolkit"] = str(Path(nvcc()).parents[1])
    passed = shlex.join(f"{name}={value}" for name, value in environment().items())
    return f"""#!/bin/sh
record={shlex.quote(str(record))}
printf %s "$PWD" > "$record/folder"
{"".join(f"ln -s {shlex.quote(path)} {name}; " for name, path in links.items())}
env -i {passed} TMPDIR=. toolkit/bin/nvcc {options} "$@" > "$record/output" 2>&1
status=$?
[ $status = 0 -o -s "$record/output" ] || echo "nvcc ended with status $status and no output" > "$record/output"
exit $status
"""


def _nvrtc(source: str, arch: str, includes: Sequence[Path], options: Sequence[str]) -> Built:
    """Compile like `_nvcc`, with NVRTC. The library runs in its own process, so that a crash ends
    nothing else.
    """
    from cuda.bindings import nvrtc

    nvrtc.nvrtcVersion()  # loads the library here, so that every child has it
    toolkit = Path(nvcc()).parents[1] / "include"
    options = [
        *FLAGS["nvrtc"],
        *options,
        f"--gpu-architecture={arch}",
        *(f"-I{folder}" for folder in (*includes, toolkit, toolkit / "cccl")),
    ]
    parents_end, childs_end = Pipe(duplex=False)
    with tempfile.TemporaryFile() as errors:
        child = get_context("fork").Process(
            target=_nvrtc_child, args=(childs_end, errors.fileno(), source, options)
        )
        child.start()
        childs_end.close()
        try:
            cubin, log = parents_end.recv()
            child.join()
        except EOFError:
            child.join()
            errors.seek(0)
            printed = errors.read().decode(errors="replace")
            cubin, log = b"", f"NVRTC died due to signal {-(child.exitcode or 0)}\n{printed}"
    if not cubin:
        raise _refusal(log)
    return cubin, parse_ptxas(log)


def _nvrtc_child(connection: Connection, errors: int, source: str, options: Sequence[str]) -> None:
    """Send the cubin, empty on failure, and the compiler's log (NVRTC, "User Interface"). Redirect
    stderr to `errors`.
    """
    from cuda.bindings import nvrtc

    os.dup2(errors, 2)
    passed = environment()
    os.environ.clear()
    os.environ.update(passed)
    headers = [
        f"#include <cuda/std/{'c' + name[:-2] if name.endswith('.h') else name}>".encode()
        for name in STANDARD
    ]
    names = [name.encode() for name in STANDARD]
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", len(names), headers, names)
    (result,) = nvrtc.nvrtcCompileProgram(
        program, len(options), [option.encode() for option in options]
    )
    log = bytearray(nvrtc.nvrtcGetProgramLogSize(program)[1])
    nvrtc.nvrtcGetProgramLog(program, log)
    cubin = bytearray(
        nvrtc.nvrtcGetCUBINSize(program)[1] if result == nvrtc.nvrtcResult.NVRTC_SUCCESS else 0
    )
    if cubin:
        nvrtc.nvrtcGetCUBIN(program, cubin)
    connection.send((bytes(cubin), log.decode(errors="replace").rstrip("\0") or str(result)))


def _ptxas(source: str, arch: str, includes: Sequence[Path], options: Sequence[str]) -> Built:
    """Return the cubin that the assembler makes of PTX, and the resources that it reports."""
    command = [ptxas(), *FLAGS["ptxas"], *options, f"-arch={arch}", "kernel.ptx", "-o", "made"]
    cubin, output = _run(command, "kernel.ptx", source)
    return cubin, parse_ptxas(output)


def _triton(source: str, arch: str, includes: Sequence[Path], options: Sequence[str]) -> Built:
    """Return the cubin of a Triton kernel, the resources, and `dynamic_shared`, the bytes of shared
    memory that it needs.

    Triton makes PTX in a process with its own environment, HOME and cache, and the toolkit's ptxas
    assembles it like any other.
    """
    with tempfile.TemporaryDirectory() as scratch:
        variables = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": scratch,
            "TMPDIR": scratch,
            "TRITON_CACHE_DIR": scratch,
        }
        variables |= dict.fromkeys(("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"), ptxas())
        variables["TRITON_DEFAULT_FP_FUSION"] = "1"  # a multiply and an add are one FMA, as in nvcc
        child, number = triton_child.__file__, re.sub(r"\D", "", arch)
        done = subprocess.run(
            [TRITON, "-I", child, number],
            cwd=scratch,
            env=variables,
            input=source,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        made = Path(scratch) / "made.json"
        if done.returncode or not made.exists():
            raise _refusal(
                done.stderr or f"Triton ended with status {done.returncode} and no output"
            )
        output = json.loads(made.read_text())
    binary, usage = _ptxas(output["ptx"], output["arch"], (), options)
    return binary, usage | {"dynamic_shared": output["shared"]}


def _cc(source: str, arch: str, includes: Sequence[Path], options: Sequence[str]) -> Built:
    """Return the shared object, made for this machine's CPU, and no resources."""
    searched = [f"-I{folder}" for folder in includes]
    command = [*cc(), *FLAGS["cc"], *options, *searched, "kernel.c", "-o", "made"]
    return _run(command, "kernel.c", source)[0], {}


COMPILERS: dict[str, Callable[[str, str, Sequence[Path], Sequence[str]], Built]] = {
    "nvcc": _nvcc,
    "nvrtc": _nvrtc,
    "ptxas": _ptxas,
    "triton": _triton,
    "cc": _cc,
}
"""The functions that make a binary of a source, by the names of `Kernel.compiler`."""


def _run(command: Sequence[str], name: str, source: str) -> tuple[bytes, str]:
    """Run a compiler on the source in a file of that name; return the file `made` that it writes,
    and what it printed.
    """
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / name).write_text(source)
        done = subprocess.run(
            command,
            cwd=scratch,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            raise _refusal(
                done.stdout or f"the compiler ended with status {done.returncode} and no output"
            )
        return (Path(scratch) / "made").read_bytes(), done.stdout


def _refusal(message: str) -> CompileError:
    """Return the compiler's message as an error.

    Raises `InputError` if the machine cut the compiler off, because that says nothing about the
    kernel.
    """
    if _NO_MEMORY.search(message) or _CUT_OFF.search(message):
        raise InputError(
            f"the compiler could not finish, which is not the kernel's fault; run again: {_tidy(message)}"
        )
    return CompileError(_tidy(message))


def _tidy(message: str) -> str:
    """Return the compiler's message without the lines of ptxas's statistics, at most 4,000
    characters and 400 a line.

    One line about a template of CuTe has thousands.
    """
    lines = [
        line
        for line in message.strip().splitlines()
        if not line.startswith(("ptxas info", "ptxas         ."))
    ]
    return plain("\n".join(plain(line, 400) for line in lines), 4000)


def parse_ptxas(text: str) -> dict[str, Any]:
    """Parse the output of `ptxas -v` into fields of `Resource`.

    They are registers per thread, and bytes of static shared memory, stack frame and spills.
    """
    functions: list[dict[str, Any]] = []
    for part in text.split("Compiling entry function '")[1:]:
        matches = {name: re.search(pattern, part) for name, pattern in _PTXAS.items()}
        functions.append(
            {"function": part.partition("'")[0]}
            | {name: int(m.group(1)) if m else 0 for name, m in matches.items()}
        )
    most: dict[str, Any] = max(functions, key=lambda function: function["registers"], default={})
    return most | {
        name: sum(function[name] for function in functions)
        for name in ("spill_stores", "spill_loads")
    }
