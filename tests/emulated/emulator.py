"""Run a CUDA kernel as it is on the CPU: clang lowers it to SPIR, an OpenCL implementation executes
that.

Two implementations, both packaged by Debian. **Oclgrind** interprets, and reports data races,
accesses outside a buffer, float4 on odd addresses and barriers that not all threads reach; it has
no half precision. **PoCL** compiles, and is fast; its version 3.1 miscompiles barriers that stand
in a branch, even one that all threads take. Both run in a child process: a crash then is a result,
not the end of the tests, and Oclgrind takes the place of the system's OpenCL only in a process that
its launcher starts. PoCL takes longer to start than to compile a kernel, so its child processes are
forks of one that has started it.
"""

import atexit
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

HERE = Path(__file__).resolve().parent
COMMANDS = {
    "clang-14": "clang-14",
    "opt-14": "llvm-14",
    "llvm-spirv-14": "llvm-spirv-14",
    "oclgrind": "oclgrind",
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
    "qemu-aarch64": "qemu-user",
}
"""What is run, and the Debian package that has it."""

ENTRY = "entry"
_ENTRY_SOURCE = """
extern "C" __attribute__((global)) void ENTRY(int M, int N, int K, Acc alpha, const T* A, int startA, int lda, const T* B, int startB,
                                              int ldb, Acc beta, T* C, int startC, int ldc, Acc* workspace) {
  FUNCTION(M, N, K, alpha, A + startA, lda, B + startB, ldb, beta, C + startC, ldc WORKSPACE);
}
"""
_EXTERN = re.compile(r"extern __shared__ (?:__align__\(\d+\) )?T ring\[\];")
_FINDING = re.compile(r"^(?:Invalid|.*data race|Work-(?:item|group) divergence).*", re.MULTILINE)

Tool = Literal["pocl", "oclgrind"]
HANGS_S = 1800.0
"""Seconds after which launches hang: a safety limit and no expectation, however busy the machine
is.
"""


class EmulatorError(Exception):
    """A tool failed; the message holds what it printed."""


@dataclass(frozen=True)
class Launch:
    """The launches of one GEMM: for each a lowered program, its grid and block; and the arguments
    of `gemm` other than the arrays.

    A matrix begins `start` elements into its array, so that arrays can hold guards and matrices can
    begin on odd addresses.
    """

    programs: list[str]
    grids: list[tuple[int, int, int]]
    blocks: list[tuple[int, int, int]]
    workspace: int
    """Bytes."""
    sizes: tuple[int, int, int]
    leading: tuple[int, int, int]
    starts: tuple[int, int, int]
    alpha: float
    beta: float


@dataclass(frozen=True)
class Outcome:
    """The array of C after each launch, in order, and what the tool complained about."""

    arrays: list[np.ndarray]
    findings: list[str]


def missing() -> str:
    """Why kernels cannot be emulated here, or ""."""
    packages = sorted(
        {package for command, package in COMMANDS.items() if not shutil.which(command)}
    )
    if not list(Path("/etc/OpenCL/vendors").glob("pocl*.icd")):
        packages.append("pocl-opencl-icd")
    if not Path("/usr/aarch64-linux-gnu/lib/crti.o").exists():
        packages.append("libc6-dev-arm64-cross")
    if packages:
        return f"needs apt-get install --no-install-recommends {' '.join(packages)}"
    try:
        import pyopencl  # noqa: F401
    except ImportError as error:
        return f"needs pip install pyopencl ({error})"
    return ""


def _call(*command: str | Path) -> None:
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise EmulatorError(f"{command[0]} failed:\n{done.stderr}")


def lower(
    tool: Tool,
    source: str,
    include: Path,
    folder: Path,
    functions: Sequence[str] = ("gemm",),
    workspace: bool = False,
    dynamic_shared: int = 0,
) -> dict[str, str]:
    """The SPIR bitcode of each function that a kernel launches, as files in `folder`; `include` is
    where its headers are.

    Headers of the emulator's own, of the same name, take their place. Dynamic shared memory, of so
    many bytes, becomes an array of all functions; it has one name in a kernel. For PoCL loops are
    left rolled, whatever
    `#pragma unroll` says: it compiles code for every work-item of a block, and long code takes it
    long.
    """
    shutil.copytree(include, folder / "headers")
    shutil.copytree(HERE / "include", folder / "headers", dirs_exist_ok=True)
    source, declared = _EXTERN.subn("", source)
    if declared:
        source = source.replace(
            "#line 1",
            f"__shared__ __align__(128) T ring[{dynamic_shared} / sizeof(T)];\n#line 1",
            1,
        )
    if tool == "pocl":
        for header in (folder / "headers").iterdir():
            header.write_text(header.read_text().replace("#pragma unroll", "#pragma nounroll"))
        source = source.replace("#pragma unroll", "#pragma nounroll")
    programs = {}
    for function in functions:
        (folder / function).mkdir()
        entry = _ENTRY_SOURCE.replace("ENTRY", ENTRY).replace("FUNCTION", function)
        entry = entry.replace("WORKSPACE", ", workspace" if workspace else "")
        programs[function] = str(
            _lower_one(f'{source}\n#line 1 "entry"\n{entry}', folder / "headers", folder / function)
        )
    return programs


def _lower_one(source: str, include: Path, folder: Path) -> Path:
    names = (
        "kernel.cu",
        "clang.ll",
        "flat.ll",
        "inferred.ll",
        "plain.ll",
        "plain.bc",
        "kernel.spv",
        "kernel.bc",
    )
    cu, ll, flat, inferred, plain, bitcode, spirv, program = (folder / name for name in names)
    cu.write_text(source)
    _call(
        "clang-14",
        "-x",
        "hip",
        "--cuda-device-only",
        "--offload=spirv64",
        "-nogpuinc",
        "-nogpulib",
        "-std=c++17",
        "-fdeclspec",
        "-include",
        HERE / "cuda_spir.h",
        f"-I{include}",
        "-Wno-pass-failed",
        "-O2",
        "-g1",
        "-mllvm",
        "-inline-threshold=1000000",
        "-Xclang",
        "-dwarf-version=4",
        "-S",
        "-emit-llvm",
        "-o",
        ll,
        cu,
    )
    flat.write_text(_to_opencl(ll.read_text()))
    _call(
        "opt-14",
        "-enable-new-pm=0",
        "-internalize",
        f"-internalize-public-api-list={ENTRY}",
        "-globaldce",
        "-infer-address-spaces",
        "-assume-default-is-flat-addrspace",
        "-sroa",
        "-instcombine",
        "-dce",
        "-S",
        flat,
        "-o",
        inferred,
    )
    plain.write_text(_to_spirv(inferred.read_text()))
    _call("opt-14", "-enable-new-pm=0", "-dce", plain, "-o", bitcode)
    # Through SPIR-V and back: this gives the built-in functions and the kernel the form that OpenCL
    # 1.2 expects.
    _call("llvm-spirv-14", bitcode, "-o", spirv)
    _call("llvm-spirv-14", "-r", "--spirv-target-env=CL1.2", spirv, "-o", program)
    return program


def _to_opencl(text: str) -> str:
    """LLVM assembly as clang writes it for HIP, made to look like OpenCL's.

    Shared variables are renamed `<kernel>.<variable>`, by which OpenCL implementations find a
    kernel's local memory. Generic pointers (address space 4) become flat ones (0), which lets
    LLVM's own pass infer what they really point to.
    """
    for name in re.findall(r"^@([\w.]+) = [^\n]*addrspace\(3\)", text, re.MULTILINE):
        text = re.sub(rf"@{re.escape(name)}\b", f"@{ENTRY}.{name}", text)
    text = re.sub(
        r"^(@\S+ = ).*?(addrspace\(3\) global)", r"\1internal \2", text, flags=re.MULTILINE
    )
    text = re.sub(r"^\$.* = comdat any\n", "", text, flags=re.MULTILINE)
    text = re.sub(r",? comdat(\(\$[\w.]+\))?(?=[\s,])", "", text)
    text = re.sub(r"\.p4(?=\w)", ".p0", text.replace(" addrspace(4)*", "*"))
    return re.sub(r"addrspacecast (.+?\*) (%[\w.]+) to \1(?!\*)", r"bitcast \1 \2 to \1", text)


def _to_spirv(text: str) -> str:
    """LLVM assembly without what SPIR-V cannot say: `freeze`, and the number of a pointer taken
    through a flat pointer.
    """
    text = re.sub(r"freeze (\w+|<[^>]*>) (%[\w.]+)", r"bitcast \1 \2 to \1", text)
    for flat, pointer, origin in re.findall(
        r"(%[\w.]+) = addrspacecast (\w+ addrspace\(\d\)\*) (%[\w.]+) to \w+\*", text
    ):
        text = re.sub(rf"ptrtoint \w+\* {re.escape(flat)}\b", f"ptrtoint {pointer} {origin}", text)
    return text


def run(
    tool: Tool, launches: Sequence[tuple[Launch, np.ndarray, np.ndarray, np.ndarray]]
) -> Outcome:
    """Execute launches, each with its arrays of A, B and C, one after another in one child
    process.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "launches.json").write_text(
            json.dumps([asdict(launch) for launch, *_ in launches])
        )
        for i, (_, *arrays) in enumerate(launches):
            np.savez(folder / f"in{i}.npz", **dict(zip("ABC", arrays, strict=True)))
        status, text = _in_pocl(folder) if tool == "pocl" else _in_oclgrind(folder)
        log = folder / "oclgrind.log"
        findings = (
            [finding.strip() for finding in _FINDING.findall(log.read_text())]
            if log.exists()
            else []
        )
        if status and not findings:
            raise EmulatorError(f"{tool} ended with status {status}:\n{text}")
        outputs = [folder / f"out{i}.npy" for i in range(len(launches))]
        return Outcome([np.load(path) for path in outputs if path.exists()], findings)


def _in_oclgrind(folder: Path) -> tuple[int, str]:
    """Execute the launches of a folder; returns the exit status and what was printed."""
    log = folder / "oclgrind.log"
    options = [
        "--data-races",
        "--max-errors",
        "20",
        "--local-mem-size",
        str(227 << 10),
        "--log",
        str(log),
    ]
    command = ["oclgrind", *options, sys.executable, str(HERE / "emulator.py"), str(folder)]
    environment = os.environ | {"PYOPENCL_NO_CACHE": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=HANGS_S, env=environment, check=False
    )
    return done.returncode, done.stdout + done.stderr + (log.read_text() if log.exists() else "")


def _in_pocl(folder: Path) -> tuple[int, str]:
    """The same, in a fork of the process that has started PoCL."""
    server = _server()
    timer = threading.Timer(HANGS_S, os.killpg, (server.pid, signal.SIGKILL))
    timer.start()
    try:
        server.stdin.write(f"{folder}\n")
        server.stdin.flush()
        status = server.stdout.readline().strip()
    finally:
        timer.cancel()
    if not status:
        _server.cache_clear()
        raise EmulatorError(f"PoCL ended with status {server.wait()}")
    return int(status), (folder / "log").read_text()


@functools.cache
def _server() -> subprocess.Popen[str]:
    cache = tempfile.TemporaryDirectory(prefix="pocl")
    # `basic` computes in the calling thread: a process with other threads cannot be forked
    environment = os.environ | {
        "POCL_CACHE_DIR": cache.name,
        "PYOPENCL_NO_CACHE": "1",
        "POCL_DEVICES": "basic",
    }
    server = subprocess.Popen(
        [sys.executable, str(HERE / "emulator.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )

    def end() -> None:
        server.stdin.close()
        server.wait()
        cache.cleanup()

    atexit.register(end)
    return server


def _serve() -> None:
    """Start PoCL once. For each folder on standard input, execute its launches in a fork and print
    the exit status.
    """
    import pyopencl as cl

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    context = cl.Context(cl.get_platforms()[0].get_devices()[:1])
    kernel = cl.Kernel(
        cl.Program(
            context, "kernel void start(global float* x) { x[0] = fma(x[0], 2, 1); }"
        ).build(),
        "start",
    )
    queue = cl.CommandQueue(context)
    kernel(queue, (1,), (1,), cl.Buffer(context, cl.mem_flags.READ_WRITE, 4))
    queue.finish()
    for line in sys.stdin:
        folder = Path(line.strip())
        child = os.fork()
        if not child:
            status = 1
            try:
                log = os.open(folder / "log", os.O_CREAT | os.O_WRONLY)
                os.dup2(log, 1)
                os.dup2(log, 2)
                _execute(folder, context)
                status = 0
            except Exception:
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(status)
        _, ended = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(ended), file=answers, flush=True)


def _execute(folder: Path, context: Any = None) -> None:
    """In the child process: every launch of `folder`, on the only OpenCL device there is."""
    import pyopencl as cl

    context = context or cl.Context(cl.get_platforms()[0].get_devices()[:1])
    (device,) = context.devices
    queue = cl.CommandQueue(context)
    kernels: dict[str, cl.Kernel] = {}
    for i, record in enumerate(json.loads((folder / "launches.json").read_text())):
        launch = Launch(**record)
        for path in launch.programs:
            if path not in kernels:
                kernels[path] = cl.Kernel(
                    cl.Program(context, [device], [Path(path).read_bytes()]).build(), ENTRY
                )
        arrays = np.load(folder / f"in{i}.npz")
        scalar = np.float64 if arrays["C"].dtype == np.float64 else np.float32  # the type of sums
        a, b, c = (
            cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=arrays[name]) for name in "ABC"
        )
        start_a, start_b, start_c = map(np.int32, launch.starts)
        lda, ldb, ldc = map(np.int32, launch.leading)
        # NaN in every word: a kernel that expects zeros there gives a wrong result
        workspace = cl.Buffer(
            context,
            cl.mem_flags.COPY_HOST_PTR,
            hostbuf=np.full(max(launch.workspace, 8), 0xFF, np.uint8),
        )
        for path, grid, block in zip(launch.programs, launch.grids, launch.blocks, strict=True):
            threads = tuple(blocks * size for blocks, size in zip(grid, block, strict=True))
            kernels[path](
                queue,
                threads,
                tuple(block),
                *map(np.int32, launch.sizes),
                scalar(launch.alpha),
                a,
                start_a,
                lda,
                b,
                start_b,
                ldb,
                scalar(launch.beta),
                c,
                start_c,
                ldc,
                workspace,
            )
        result = np.empty_like(arrays["C"])
        cl.enqueue_copy(queue, result, c)
        np.save(folder / f"out{i}.npy", result)


if __name__ == "__main__":
    _execute(Path(sys.argv[1])) if len(sys.argv) > 1 else _serve()
