"""Compile the configurations of a kernel in parallel; each is one row of `resources.csv`."""

import gc
import hashlib
import json
import re
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from ladder.compiling import cubin, interface, issue_model
from ladder.compiling.compilers import CompileError, compile_source
from ladder.compiling.toolchain import COMPILER, FLAGS, compiler_version, library_folders, versions
from ladder.core import places, store
from ladder.core.errors import InputError
from ladder.core.files import digest, write_whole
from ladder.devices import detect
from ladder.devices.simulation import simulated
from ladder.model.kernel import Configuration, Kernel

SUFFIX = {"cuda": ".cubin", "cpu": ".so"}


@dataclass(frozen=True)
class Resource:
    """One row of `resources.csv`: a configuration compiled for an architecture. Memory sizes are in
    bytes.
    """

    kernel: str
    slug: str
    element_type: str
    configuration: str
    arch: str
    status: str
    """`compiled`, `compile_error`, `not_supported` (by this architecture) or `skipped` (not
    legal).
    """
    compiler: str = ""
    """`nvcc`, `nvrtc`, `ptxas`, `triton` or `cc`; empty if nothing was compiled."""
    version: str = ""
    """The compiler's version, and that of each library that the kernel uses."""
    options: str = ""
    """The compiler options that the campaign sets."""
    reason: str = ""
    """The compiler's message, or why the configuration was not compiled."""
    binary: str = ""
    """The file name beside `resources.csv`."""
    sha256: str = ""
    function: str = ""
    """The kernel's function with the most registers. `registers`, `static_shared` and `stack_frame`
    are the values of this function.
    """
    registers: int | None = None
    static_shared: int | None = None
    stack_frame: int | None = None
    spill_stores: int | None = None
    spill_loads: int | None = None
    """Both spill sizes are sums over all functions of the kernel."""
    multiply_adds_per_clock: float | None = None
    """Float32 multiply-adds per clock and quarter of an SM by `issue_model`.

    None if the kernel uses tensor cores, has no loop of multiply-adds, or the model does not cover
    the architecture.
    """
    seconds: float | None = None
    """The time that the compiler took."""


def _begin_child() -> None:
    # Ctrl-C ends a child without a traceback; the job reports it
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # what the parent made is the parent's to free: in a child, PyCUDA would abort over a GPU's
    # memory
    gc.freeze()


def compile_kernel(
    kernel: Kernel,
    configurations: Sequence[tuple[Configuration, str]],
    arch: str,
    folder: Path,
    workers: int,
) -> list[Resource]:
    """Compile every legal configuration for `arch` in up to `workers` processes, and write the
    binaries to `folder`.

    What the same compiler made from the same source is taken from the store. If the compiler
    refuses a configuration, its row has the compiler's message, and nothing is raised. Raises
    `InputError` if no configuration compiles and the compiler refuses an empty kernel too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    job = partial(_compile, kernel, arch, folder)
    workers = min(workers, len(configurations))
    rows = [job(item, kept=workers > 1) for item in configurations]
    if None in rows:
        # fork, because a spawned child would import the main module, which under Snakemake is the
        # whole job script
        context = get_context("fork")
        with ProcessPoolExecutor(workers, context, initializer=_begin_child) as pool:
            rows = list(pool.map(job, configurations))
    statuses = [row.status for row in rows]
    if "compile_error" in statuses and "compiled" not in statuses:
        _check_compiler(kernel, rows[statuses.index("compile_error")].arch)
    return rows


EMPTY = {"cuda": 'extern "C" __global__ void gemm() {}\n', "cpu": "void gemm(void) {}\n"}
"""Empty kernels, which every working compiler accepts."""


def _check_compiler(kernel: Kernel, arch: str) -> None:
    """Raise `InputError` if an empty kernel does not compile either: then the kernel is not at
    fault.
    """
    try:
        compile_source(COMPILER[kernel.kind], EMPTY[kernel.kind], arch)
    except CompileError as error:
        raise InputError(
            f"the compiler refuses an empty kernel too, so {kernel.id} is not at fault: {error}"
        ) from None


def _unmet(kernel: Kernel, arch: str) -> str:
    """Return what a kernel needs that an architecture does not have, or ""."""
    if kernel.architecture and capability(arch) != capability(kernel.architecture):
        return f"needs architecture {kernel.architecture}"
    if kernel.kind == "cuda" and capability(arch) < kernel.compute_capability:
        return f"needs compute capability {kernel.compute_capability}"
    return ""


def _compile(
    kernel: Kernel, arch: str, folder: Path, item: tuple[Configuration, str], kept: bool = False
) -> Any:
    """Return the `Resource` of a configuration and its objection. With `kept`, None if it has to be
    compiled.
    """
    configuration, objection = item
    row: dict[str, Any] = {
        "kernel": kernel.name,
        "slug": configuration.slug,
        "element_type": configuration.element_type,
        "configuration": configuration.label,
        "arch": arch,
    }
    if objection:
        return Resource(**row, status="skipped", reason=objection)
    if reason := _unmet(kernel, arch):
        return Resource(**row, status="not_supported", reason=reason)
    row["arch"] = arch = kernel.architecture or arch
    try:
        libraries = library_folders(kernel)
    except InputError as error:
        return Resource(**row, status="not_supported", reason=str(error))
    source = kernel.source(configuration)
    compiler, options = kernel.compiler(configuration), configuration.options
    row |= {
        "compiler": compiler,
        "version": versions(kernel, compiler),
        "options": " ".join(options),
    }
    key = _key(compiler, arch, source, kernel.digest, row)
    binary = folder / f"{configuration.slug}{SUFFIX[kernel.kind]}"
    if found := store.take(key):
        made, built = found.split(b"\n", 1)
        write_whole(binary, built)
        return Resource(**json.loads(made))
    if kept:
        return None
    # the functions of such headers are host functions too, which NVRTC refuses
    if libraries and compiler == "nvrtc":
        options.append("-default-device")
    start, includes = time.perf_counter(), [*places.include_folders(kernel.path), *libraries]
    try:
        built, usage = compile_source(compiler, source, arch, includes, options)
        interface.check(kernel, configuration, built, usage.pop("dynamic_shared", 0))
    except CompileError as error:
        seconds = round(time.perf_counter() - start, 3)
        return Resource(**row, status="compile_error", reason=str(error), seconds=seconds)
    modeled = arch.startswith(issue_model.MODELED) and not cubin.uses_tensor_cores(built)
    resource = Resource(
        **row,
        **usage,
        multiply_adds_per_clock=issue_model.multiply_adds_per_clock(built) if modeled else None,
        status="compiled",
        binary=binary.name,
        sha256=hashlib.sha256(built).hexdigest(),
        seconds=round(time.perf_counter() - start, 3),
    )
    write_whole(binary, built)
    store.keep(key, json.dumps(asdict(resource)).encode() + b"\n" + built)
    return resource


def _key(compiler: str, arch: str, *sources: Any) -> str:
    """Return a digest of all that the result of a compilation depends on.

    The C compiler makes code for this CPU, and machines that share a home may show the same name
    for CPUs with other instructions.
    """
    made_by = compiler_version(compiler), FLAGS[compiler], bool(simulated())
    depends: list[Any] = [sources, arch, made_by, _code()]
    if compiler == "cc" and detect.CPUINFO.exists():
        cores = re.findall(r"^(?:flags|Features)\b.*", detect.CPUINFO.read_text(), re.MULTILINE)
        depends.append(sorted(set(cores)))
    return digest(depends)


@lru_cache
def _code() -> str:
    """Return a digest of this package: what it reads from a compiler's output is kept too."""
    return digest([path.read_text() for path in sorted(Path(__file__).parent.glob("*.py"))])


def compile_support(kind: str, arch: str, threads: int = 0) -> bytes:
    """Return the compiled device code of the pipeline itself (`devices/support.*`). The assembler
    of a GPU's code uses up to `threads` threads, or one for each CPU if 0.

    Raises `InputError` if the compiler refuses it.
    """
    folder = Path(__file__).resolve().parents[1] / "devices"
    compiler, name = COMPILER[kind], {"cuda": "support.cu", "cpu": "support.c"}[kind]
    if arch == "sm_90":
        arch = "sm_90a"  # the same devices; only it has wgmma, by which the tensor cores are timed
    source = (folder / name).read_text()
    key = _key(compiler, arch, source, (folder / "operands.h").read_text())
    if kept := store.take(key):
        return kept
    try:
        # ptxas takes two thirds of the time, and its code is the same from any number of threads
        options = [f"-Xptxas=--split-compile={threads}"] if kind == "cuda" else []
        built, _ = compile_source(compiler, source, arch, [folder], options)
    except CompileError as error:
        raise InputError(
            f"the compiler refuses the pipeline's own {name}, which compiles elsewhere: {error}"
        ) from None
    store.keep(key, built)
    return built


def capability(arch: str) -> float:
    """Return the compute capability of an architecture: 9.0 for `sm_90` and `sm_90a`."""
    return int(re.sub(r"\D", "", arch)) / 10
