import ctypes
import faulthandler
import gc
import os
import re
import resource
import shutil
import subprocess
import sys
from multiprocessing import get_context
from types import SimpleNamespace

import pytest
from ladder.compiling import compile as compiling
from ladder.compiling import compilers
from ladder.core.errors import InputError
from ladder.model import kernel_file
from planted import CU_RIGHT, ROOT, c_kernel, cuda_kernel, written


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(ROOT / "kernels" / "include", tmp_path / "kernels" / "include")
    (tmp_path / "kernels" / "cuda").mkdir()
    (tmp_path / "kernels" / "cpu").mkdir()
    return tmp_path


def build(folder, name, text, workers=1, arch="sm_90", builds=((),)):
    path = folder / "kernels" / name
    path.write_text(text)
    kernel = kernel_file.parse(path)
    configurations = list(kernel.expand({}, ["float32"], builds))
    arch = arch if kernel.kind == "cuda" else "here"
    return compiling.compile_kernel(kernel, configurations, arch, folder / "build", workers)


def test_resources_of_a_cubin(folder):
    body = (
        "  __shared__ float s[100]; s[row] = beta; __syncthreads();"
        + CU_RIGHT
        + "  C[0] += s[col];"
    )
    rows = build(folder, "cuda/20_test.cu", cuda_kernel("t", body), workers=2)
    assert len(rows) == 2
    for row in rows:
        assert row.status == "compiled"
        assert row.static_shared == 400
        assert 8 <= row.registers <= 64
        assert row.spill_loads == row.spill_stores == 0
        assert (folder / "build" / row.binary).stat().st_size > 1000


@pytest.mark.slow
def test_the_loop_is_modelled_where_the_architecture_is_known(folder, monkeypatch):
    body = (
        "  float s = 0;\n#pragma unroll 64\n  for (int k = 0; k < K; ++k) s = fmaf(A[k], B[k], "
        "s);\n  C[row] = s;"
    )
    text = cuda_kernel("t", body)
    for arch, modelled in (("sm_90", True), ("sm_90a", True), ("sm_80", False)):
        row, *_ = build(folder, "cuda/20_test.cu", text, arch=arch)
        assert (row.multiply_adds_per_clock is not None) == modelled
        assert not modelled or 0.2 < row.multiply_adds_per_clock < 0.5  # two loads for each
    (row,) = build(folder, "cpu/20_test.c", c_kernel("t", ""))
    assert row.multiply_adds_per_clock is None
    monkeypatch.setattr(compiling.cubin, "uses_tensor_cores", lambda binary: True)
    row, *_ = build(folder, "cuda/20_test.cu", text + "// else\n")
    assert row.multiply_adds_per_clock is None


@pytest.mark.slow
def test_what_a_version_with_other_columns_compiled_is_compiled_anew(folder, monkeypatch):
    text, every = cuda_kernel("t", CU_RIGHT), compiling.fields
    monkeypatch.setattr(compiling, "fields", lambda row: every(row)[:-1])
    row, *_ = build(folder, "cuda/20_test.cu", text)
    note = folder / "build" / f"{row.slug}.json"
    before = note.stat().st_mtime_ns
    monkeypatch.undo()
    build(folder, "cuda/20_test.cu", text)
    assert note.stat().st_mtime_ns > before


NVRTC = ("compiler", "nvrtc")


@pytest.mark.parametrize(("build_with", "label"), [((), "BX=8"), ((NVRTC,), "BX=8 compiler=nvrtc")])
def test_the_compilers_own_message_is_kept_and_the_rest_goes_on(folder, build_with, label):
    text = cuda_kernel("t", '  static_assert(BX != 8, "no eights");' + CU_RIGHT)
    bad, good = build(folder, "cuda/20_test.cu", text, builds=[build_with])
    assert (bad.configuration, bad.status, good.status) == (label, "compile_error", "compiled")
    line = 1 + text[: text.index("no eights")].count("\n")
    assert f'20_test.cu({line}): error: static assertion failed with "no eights"' in bad.reason


def test_the_message_of_the_c_compiler_is_kept(folder):
    (row,) = build(folder, "cpu/20_test.c", c_kernel("t", "  undeclared;"))
    assert row.status == "compile_error"
    assert re.search("20_test.c:7.*undeclared", row.reason)


@pytest.mark.slow
def test_the_same_source_gives_the_same_bytes_and_is_compiled_once(folder):
    text = cuda_kernel("t", CU_RIGHT).replace('extern "C"', '#include "store.cuh"\nextern "C"', 1)
    first = build(folder, "cuda/20_test.cu", text)
    binary = folder / "build" / first[0].binary
    time = binary.stat().st_mtime_ns
    assert build(folder, "cuda/20_test.cu", text) == first
    assert binary.stat().st_mtime_ns == time
    binary.write_bytes(b"half")  # a damaged one is compiled again
    assert [row.sha256 for row in build(folder, "cuda/20_test.cu", text)] == [
        row.sha256 for row in first
    ]
    assert binary.stat().st_size > 1000
    header = folder / "kernels" / "include" / "store.cuh"
    header.write_text(header.read_text() + "#error changed\n")
    assert {row.status for row in build(folder, "cuda/20_test.cu", text)} == {"compile_error"}


@pytest.mark.slow
def test_a_kernel_is_compiled_for_the_architectures_that_it_needs_only(folder):
    code = CU_RIGHT + '  asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");'  # of sm_90a only
    text = cuda_kernel("t", code)
    of_one = text.replace("title:", "architecture: sm_90a\ntitle:")
    too_new = text.replace("title:", "compute_capability: 10.0\ntitle:")
    for given, arch, status, reason in (
        (of_one, "sm_90", "compiled", ""),
        (of_one, "sm_80", "not_supported", "needs architecture sm_90a"),
        (of_one, "sm_100", "not_supported", "needs architecture sm_90a"),
        (too_new, "sm_90", "not_supported", "needs compute capability 10.0"),
    ):
        row, *_ = build(folder, "cuda/20_test.cu", given, arch=arch)
        assert (row.status, row.reason) == (status, reason)
        assert row.arch == "sm_90a" or status != "compiled"
    assert {row.status for row in build(folder, "cuda/20_test.cu", text)} == {"compile_error"}


@pytest.mark.slow
@pytest.mark.parametrize("build_with", [(), (NVRTC,)])
def test_a_kernel_cannot_launch_one_that_outlives_it(folder, build_with):
    text = cuda_kernel("t", "if (threadIdx.x == 0) later<<<1, 1>>>(C);" + CU_RIGHT)
    text = text.replace('extern "C"', '__global__ void later(T* C) { C[0] = 0; }\nextern "C"', 1)
    rows = build(folder, "cuda/20_test.cu", text, builds=[build_with])
    assert {row.status for row in rows} == {"compile_error"}
    assert "kernel launch" in rows[0].reason


@pytest.mark.slow
def test_two_compilers_with_options_make_binaries_of_their_own(folder):
    code = "  float s[64];\n  for (int i = 0; i < 64; ++i) s[i] = A[i * M];\n"
    code += "  for (int j = 0; j < N; ++j) for (int i = 0; i < 64; ++i) s[i] += B[j] * s[i ^ 1];\n"
    code += "  for (int i = 0; i < 64; ++i) C[i] = s[i] + alpha + uint32_t(K);\n"
    text = cuda_kernel("t", code + CU_RIGHT).replace('extern "C"', '#include <cstdint>\nextern "C"')
    few = ("maxrregcount", "32")
    builds = [(), (few,), (NVRTC,), (NVRTC, few), (NVRTC, ("dlcm", "cg"))]
    rows = build(folder, "cuda/20_test.cu", text.replace("[8, 16]", "[8]"), builds=builds)
    assert [f"{row.status} {row.compiler} {row.options}".strip() for row in rows] == [
        "compiled nvcc",
        "compiled nvcc --maxrregcount=32",
        "compiled nvrtc",
        "compiled nvrtc --maxrregcount=32",
        "compiled nvrtc --ptxas-options=-dlcm=cg",
    ]
    assert len({row.sha256 for row in rows}) == len({row.binary for row in rows}) == 5
    assert [row.registers <= 32 for row in rows] == [False, True, False, True, False]
    assert rows[0].version != rows[2].version


MAYBE_MEMORY = (
    "died due to signal 11\nIt may use {} GiB of memory; one that asks for more can end "
    "like this, too"
)


@pytest.mark.parametrize(
    ("number", "words", "reason"),
    [
        (5, b"", "NVRTC died due to signal 5"),
        (11, b"", "NVRTC " + MAYBE_MEMORY.format(4)),
        (
            5,
            b"LLVM ERROR: out of memory\n",
            "the compiler may use 4 GiB of memory, and asked for more: NVRTC died due to signal "
            "5\nLLVM ERROR: out of memory",
        ),
    ],
)
def test_an_nvrtc_that_crashes_is_a_row(folder, monkeypatch, number, words, reason):
    def crash(connection, errors, *_):
        faulthandler.disable()
        os.write(errors, words)
        os.kill(os.getpid(), number)

    monkeypatch.setattr(compilers, "_nvrtc_child", crash)
    rows = build(folder, "cuda/20_test.cu", cuda_kernel("t", CU_RIGHT), builds=[(NVRTC,)])
    assert {(row.status, row.reason) for row in rows} == {("compile_error", reason)}


def test_an_nvrtc_that_is_killed_from_outside_says_nothing_of_the_kernel(folder, monkeypatch):
    monkeypatch.setattr(compilers, "_nvrtc_child", lambda *_: os.kill(os.getpid(), 9))
    message = (
        "the compiler was cut off, which says nothing of the kernel; .* NVRTC died due to signal 9"
    )
    with pytest.raises(InputError, match=message):
        build(folder, "cuda/20_test.cu", cuda_kernel("t", CU_RIGHT), builds=[(NVRTC,)])


PTXAS = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'reduce' for 'sm_90'
ptxas info    : Function properties for reduce
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers
ptxas info    : Compiling entry function 'gemm' for 'sm_90'
ptxas info    : Function properties for gemm
    0 bytes stack frame, 16 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 2048 bytes smem
"""


def test_resources_are_of_the_function_with_the_most_registers_and_spills_of_all():
    for text in (
        PTXAS,
        PTXAS.replace("reduce", "x").replace("gemm", "reduce").replace("x", "gemm"),
    ):
        resources = compilers.parse_ptxas(text)
        assert resources.pop("function") == text.split("entry function '")[2].split("'")[0]
        assert resources == {
            "registers": 168,
            "static_shared": 2048,
            "stack_frame": 0,
            "spill_stores": 20,
            "spill_loads": 12,
        }


def test_cpu_kernels_are_shared_objects(folder):
    (row,) = build(folder, "cpu/20_test.c", c_kernel("t", "  *C = alpha * K;"))
    out = ctypes.c_float()
    library = ctypes.CDLL(str(folder / "build" / row.binary))
    zero, nothing = ctypes.c_float(0), ctypes.c_void_p()
    library.gemm(1, 1, 5, ctypes.c_float(2), nothing, 1, nothing, 1, zero, ctypes.byref(out), 1)
    assert out.value == 10


NO_DRIVER = """
import sys
from pathlib import Path
sys.modules["pycuda._driver"] = None
from ladder.compiling.compilers import CompileError, _nvcc
try:
    _nvcc("oops;", "sm_80", Path("."))
except CompileError as error:
    print("said:", error)
"""


def test_compiling_needs_no_driver(tmp_path):
    """The message of a compile error comes through, and no folder is left behind."""
    command = [sys.executable, "-c", NO_DRIVER]
    env = os.environ | {"TMPDIR": str(tmp_path)}
    said = subprocess.check_output(command, cwd=ROOT / "workflow", env=env, text=True)
    assert "said:" in said
    assert "oops" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "message",
    [
        "cc1: out of memory allocating 65536 bytes after a total of 0 bytes",
        "virtual memory exhausted: Cannot allocate memory",
        "ptxas fatal   : Memory allocation failure",
        "k.cu(1): catastrophic error: out of memory",
        "/tmp/x.s: No space left on device",
        "gcc: fatal error: Killed signal terminated program cc1",
        "nvcc error : 'cicc' died due to signal 9 (Kill signal)",
        "gcc: fatal error: cannot execute 'as': posix_spawnp: Resource temporarily unavailable",
    ],
)
def test_what_the_machine_did_to_the_compiler_is_no_fault_of_the_kernel(message):
    with pytest.raises(InputError, match="says nothing of the kernel; run again: ") as refused:
        raise compilers._refusal(message)
    assert message in str(refused.value)
    assert isinstance(compilers._refusal("kernel.c:3: error: memory"), compilers.CompileError)


def script(path, text):
    """Write a program in place of a compiler."""
    written(path, f"#!/bin/sh\n{text}\n", 0o755)
    return str(path)


@pytest.mark.parametrize("name", ["cpu/mine.c", "cuda/mine.cu"])
def test_a_kernel_that_is_a_symbolic_link_includes_as_one_in_its_place(folder, tmp_path, name):
    written(folder / "kernels" / "include" / "mine.h", "// mine\n")
    text = c_kernel("t", "") if name.endswith(".c") else cuda_kernel("t", CU_RIGHT)
    written(tmp_path / "elsewhere" / name, text.replace("---*/", '---*/\n#include "mine.h"'))
    (folder / "kernels" / name).symlink_to(tmp_path / "elsewhere" / name)
    kernel = kernel_file.parse(folder / "kernels" / name)
    assert kernel.includes
    configuration, *_ = kernel.expand({}, ["float32"])
    (row,) = compiling.compile_kernel(kernel, [configuration], "sm_90", folder / "build", 1)
    assert (row.status, row.reason) == ("compiled", "")


def test_a_compiler_that_refuses_everything_is_not_the_kernels_fault(folder, tmp_path, monkeypatch):
    broken = script(tmp_path / "broken", "echo 'as: not found' >&2\nexit 1")
    kernel = kernel_file.parse(ROOT / "kernels" / "cpu" / "01_naive_ijk.c")
    configurations = list(kernel.expand({}, ["float32"]))
    monkeypatch.setattr(compilers, "cc", lambda: (broken,))
    with pytest.raises(
        InputError,
        match="refuses an empty kernel too, so it says nothing of cpu/01_naive_ijk: as: not found",
    ):
        compiling.compile_kernel(kernel, configurations, "cpu-x", tmp_path / "build", 1)


def test_what_a_compiler_says_is_printable_and_bounded():
    message = str(compilers._refusal("error: \x1b[31m\a\0" + "x" * 9999 + "\nend"))
    assert message.startswith(r"error: \x1b[31m\x07\x00xxx")
    assert [len(line) for line in message.splitlines()] == [400, 3]
    assert len(str(compilers._refusal(("x" * 99 + "\n") * 99))) == 4000


def compiled_under_a_limit(kernel, build):
    rows = compiling.compile_kernel(kernel, list(kernel.expand({}, ["float32"])), "here", build, 1)
    return rows, resource.getrlimit(resource.RLIMIT_CPU)


@pytest.mark.slow
def test_a_compiler_that_computes_for_ever_is_stopped(folder, tmp_path, monkeypatch):
    endless = script(
        tmp_path / "endless", "case $PWD in *stop*) exit 1;; esac\nwhile :; do :; done"
    )
    monkeypatch.setattr(compilers, "cc", lambda: (endless,))
    monkeypatch.setattr(compilers, "COMPILE_SECONDS", 1)
    monkeypatch.setattr(compiling, "_check_compiler", lambda *_: None)
    path = folder / "kernels" / "cpu" / "a.c"
    path.write_text(c_kernel("a", ""))
    # what a process has computed is added to the limit: in one that has computed for nothing yet
    with get_context("fork").Pool(1) as pool:
        (row,), after = pool.apply(
            compiled_under_a_limit, (kernel_file.parse(path), folder / "build")
        )
    assert (row.status, row.reason) == (
        "compile_error",
        "the compiler ended with status -24 and no word",
    )
    assert after == resource.getrlimit(resource.RLIMIT_CPU)


CLASSES = (
    "template <int N, int M> struct S { static constexpr long v = S<N - 1, 2 * M>::v + S<N - 1, 2 "
    "* M + 1>::v; };\n"
    "template <int M> struct S<0, M> { static constexpr long v = M; };\n"
)
NUMBERS = (
    "#define MANY(x) x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x\n"
    "static const double many[] = {MANY(MANY(MANY(MANY(MANY(MANY(MANY(1)))))))};\n"
)
"""2^26 classes, and 2^28 numbers: some 10 GB each."""


HUNGRY_C = c_kernel("t", "C[0] = many[M];").replace("---*/", "---*/\n" + NUMBERS, 1)
HUNGRY_CU = cuda_kernel("t", "C[0] = S<26, 1>::v;").replace('extern "C"', CLASSES + 'extern "C"', 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "build_with"),
    [
        ("cpu/20_test.c", HUNGRY_C, ()),
        ("cuda/20_test.cu", HUNGRY_CU, ()),
        ("cuda/20_test.cu", HUNGRY_CU, (NVRTC,)),
    ],
)
def test_a_compiler_that_is_too_hungry_is_stopped(folder, monkeypatch, name, text, build_with):
    monkeypatch.setattr(compilers, "COMPILE_BYTES", 1 << 29)
    before = resource.getrlimit(resource.RLIMIT_AS)
    row, *_ = build(folder, name, text.replace("[8, 16]", "[8]"), builds=[build_with])
    assert row.status == "compile_error"
    asked = row.reason.startswith("the compiler may use 0.5 GiB of memory, and asked for more: ")
    # by what it wants the memory for that it does not get
    assert asked or row.reason.endswith(MAYBE_MEMORY.format("0.5"))
    assert resource.getrlimit(resource.RLIMIT_AS) == before


@pytest.mark.parametrize(
    ("bound", "error", "message"),
    [
        (
            4 << 30,
            compilers.CompileError,
            "^the compiler may use 4 GiB of memory, and asked for more: ld: memory exhausted$",
        ),
        (1 << 50, InputError, "says nothing of the kernel; run again: ld: memory exhausted"),
    ],
)
def test_too_little_memory_is_the_kernels_fault_only_within_our_bound(
    monkeypatch, bound, error, message
):
    """A shell or batch system may have set a lower one."""
    monkeypatch.setattr(compilers, "COMPILE_BYTES", bound)
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 40, before[1]))
    try:
        with pytest.raises(error, match=message), compilers._limited():
            raise compilers._refusal("ld: memory exhausted")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


class OnTheDevice:
    """What only the process that made it may free, and what nothing refers to but itself."""

    def __init__(self):
        self.itself, self.process = self, os.getpid()

    def __del__(self):
        if os.getpid() != self.process:
            os.abort()


def collect(kernel, arch, folder, item):
    return SimpleNamespace(status="compiled", freed=gc.collect())


def test_a_child_does_not_free_what_its_parent_made(tmp_path, monkeypatch):
    kernel = kernel_file.discover(ROOT)["cpu/01_naive_ijk"]
    configuration = next(configuration for configuration, _ in kernel.expand({}, ["float32"]))
    monkeypatch.setattr(compiling, "_compile_or_reuse", collect)
    gc.disable()
    try:
        OnTheDevice()
        rows = compiling.compile_kernel(kernel, [(configuration, "")] * 2, "here", tmp_path, 2)
    finally:
        gc.enable()
    assert [row.status for row in rows] == ["compiled"] * 2
