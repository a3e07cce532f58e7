"""Run a CUDA kernel as it is on the CPU: clang lowers it to SPIR, an OpenCL implementation executes
that.

Two implementations, both packaged by Debian. **Oclgrind** interprets, and reports data races,
accesses outside a buffer, float4 on odd addresses and barriers that not all threads reach; it has
no half precision. **PoCL** compiles, and is fast; its version 3.1 miscompiles barriers that stand
in a branch, even one that all threads take. Both run in a child process: a crash then is a result,
not the end of the tests, and Oclgrind takes the place of the system's OpenCL only in a process that
its launcher starts.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

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
    cu, ll, bitcode, program = (
        folder / name for name in ("kernel.cu", "kernel.ll", "plain.bc", "kernel.bc")
    )
    cu.write_text(source)
    flags = (
        "-x hip --cuda-device-only --offload=spirv64 -nogpuinc -nogpulib -std=c++17 -fdeclspec "
        "-Wno-pass-failed -O2 -g1 -mllvm -inline-threshold=1000000 -Xclang -dwarf-version=4 "
        "-S -emit-llvm"
    )
    header = HERE / "cuda_spir.h"
    _call("clang-14", *flags.split(), "-include", header, f"-I{include}", "-o", ll, cu)
    ll.write_text(_to_opencl(ll.read_text()))
    passes = (
        f"-enable-new-pm=0 -internalize -internalize-public-api-list={ENTRY} -globaldce "
        "-infer-address-spaces -assume-default-is-flat-addrspace -sroa -instcombine -dce -S"
    )
    _call("opt-14", *passes.split(), ll, "-o", ll)
    ll.write_text(_to_spirv(ll.read_text()))
    _call("opt-14", "-enable-new-pm=0", "-dce", ll, "-o", bitcode)
    # Through SPIR-V and back: this gives the built-in functions and the kernel the form that OpenCL
    # 1.2 expects.
    spirv = folder / "kernel.spv"
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
            if tool == "pocl":
                # what is read behind A and B shows; Oclgrind finds the access itself
                arrays[:2] = [np.append(array, np.full_like(array, np.nan)) for array in arrays[:2]]
            np.savez(folder / f"in{i}.npz", **dict(zip("ABC", arrays, strict=True)))
        log = folder / "oclgrind.log"
        log.touch()
        command = [sys.executable, str(HERE / "emulator.py"), name]
        if tool == "oclgrind":
            options = f"--data-races --max-errors 20 --local-mem-size {227 << 10}".split()
            command = ["oclgrind", *options, "--log", str(log), *command]
        # `basic` computes in the calling thread
        variables = {"PYOPENCL_NO_CACHE": "1", "POCL_CACHE_DIR": name, "POCL_DEVICES": "basic"}
        done = subprocess.run(
            command, capture_output=True, text=True, env=os.environ | variables, check=False
        )
        printed = log.read_text()
        findings = [finding.strip() for finding in _FINDING.findall(printed)]
        if done.returncode and not findings:
            printed += done.stdout + done.stderr
            raise EmulatorError(f"{tool} ended with status {done.returncode}:\n{printed}")
        outputs = [folder / f"out{i}.npy" for i in range(len(launches))]
        return Outcome([np.load(path) for path in outputs if path.exists()], findings)


def _execute(folder: Path) -> None:
    """In the child process: every launch of `folder`, on the only OpenCL device there is."""
    import pyopencl as cl

    context = cl.Context(cl.get_platforms()[0].get_devices()[:1])
    (device,) = context.devices
    queue = cl.CommandQueue(context)
    kernels: dict[str, cl.Kernel] = {}

    def memory(array: np.ndarray) -> cl.Buffer:
        return cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=array)

    for i, record in enumerate(json.loads((folder / "launches.json").read_text())):
        launch = Launch(**record)
        for path in launch.programs:
            if path not in kernels:
                program = cl.Program(context, [device], [Path(path).read_bytes()])
                kernels[path] = cl.Kernel(program.build(), ENTRY)
        arrays = np.load(folder / f"in{i}.npz")
        scalar = np.float64 if arrays["C"].dtype == np.float64 else np.float32  # the type of sums
        buffers = [memory(arrays[name]) for name in "ABC"]
        arguments = [*map(np.int32, launch.sizes), scalar(launch.alpha)]
        for buffer, start, leading in zip(buffers, launch.starts, launch.leading, strict=True):
            arguments += [buffer, np.int32(start), np.int32(leading)]
        arguments.insert(-3, scalar(launch.beta))
        # NaN in every word: a kernel that expects zeros there gives a wrong result
        workspace = memory(np.full(max(launch.workspace, 8), 0xFF, np.uint8))
        for path, grid, block in zip(launch.programs, launch.grids, launch.blocks, strict=True):
            threads = tuple(blocks * size for blocks, size in zip(grid, block, strict=True))
            kernels[path](queue, threads, tuple(block), *arguments, workspace)
        result = np.empty_like(arrays["C"])
        cl.enqueue_copy(queue, result, buffers[2])
        np.save(folder / f"out{i}.npy", result)


if __name__ == "__main__":
    _execute(Path(sys.argv[1]))
