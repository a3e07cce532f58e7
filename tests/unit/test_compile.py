import faulthandler
import gc
import os
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
from planted import CU_RIGHT, HOME, c_kernel, cuda_kernel, written

NVRTC = ("compiler", "nvrtc")
TEXT = cuda_kernel("t", CU_RIGHT)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LADDER_STORE", str(tmp_path / "store"))
    shutil.copytree(HOME / "kernels" / "include", tmp_path / "kernels" / "include")
    return tmp_path


def build(folder, text, name="cuda/20_test.cu", workers=1, arch="sm_90", builds=((),)):
    kernel = kernel_file.parse(written(folder / "kernels" / name, text))
    configurations = list(kernel.expand({}, ["float32"], builds))
    return compiling.compile_kernel(kernel, configurations, arch, folder / "build", workers)


def test_resources_of_a_cubin(folder):
    body = "  __shared__ float s[100]; s[row] = beta; __syncthreads();"
    body += CU_RIGHT + "  C[0] += s[col];"
    rows = build(folder, cuda_kernel("t", body), workers=2)
    assert len(rows) == 2
    for row in rows:
        assert row.status == "compiled"
        assert row.static_shared == 400
        assert 8 <= row.registers <= 64
        assert row.spill_loads == row.spill_stores == 0
        assert (folder / "build" / row.binary).stat().st_size > 1000


@pytest.mark.slow
def test_the_loop_is_modeled_where_the_architecture_is_known(folder, monkeypatch):
    text = cuda_kernel(
        "t",
        "  float s = 0;\n#pragma unroll 64\n  for (int k = 0; k < K; ++k) s = fmaf(A[k], B[k], s);"
        "\n  C[row] = s;",
    )
    for arch, modeled in (("sm_90", True), ("sm_90a", True), ("sm_80", False)):
        row, *_ = build(folder, text, arch=arch)
        assert (row.multiply_adds_per_clock is not None) == modeled
        assert not modeled or 0.2 < row.multiply_adds_per_clock < 0.5  # two loads for each
    monkeypatch.setattr(compiling.cubin, "uses_tensor_cores", lambda binary: True)
    row, *_ = build(folder, text + "// else\n")
    assert row.multiply_adds_per_clock is None


@pytest.mark.parametrize(
    ("name", "build_with", "reason"),
    [
        ("cuda/20_test.cu", (), 'error: static assertion failed with "no eights"'),
        ("cuda/20_test.cu", (NVRTC,), 'error: static assertion failed with "no eights"'),
        ("cpu/20_test.c", (), "undeclared"),
    ],
)
def test_the_compilers_own_message_is_kept_and_the_rest_goes_on(folder, name, build_with, reason):
    text = cuda_kernel("t", '  static_assert(BX != 8, "no eights");' + CU_RIGHT)
    if name.endswith(".c"):
        text = c_kernel("t", '  undeclared;  // "no eights"')
    bad, *others = build(folder, text, name, builds=[build_with])
    assert [row.status for row in others] == ["compiled"] * len(others)
    assert bad.status == "compile_error"
    line = 1 + text[: text.index("no eights")].count("\n")
    assert f"{name.partition('/')[2]}" in bad.reason
    assert str(line) in bad.reason
    assert reason in bad.reason


def test_the_same_source_gives_the_same_bytes(folder, monkeypatch):
    first = build(folder, TEXT)
    monkeypatch.setenv("LADDER_STORE", str(folder / "empty"))
    assert [row.sha256 for row in build(folder, TEXT)] == [row.sha256 for row in first]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "arch", "status", "reason"),
    [
        ("architecture: sm_90a\n", "sm_90", "compiled", ""),
        ("architecture: sm_90a\n", "sm_80", "not_supported", "needs architecture sm_90a"),
        ("architecture: sm_90a\n", "sm_100", "not_supported", "needs architecture sm_90a"),
        ("compute_capability: 10.0\n", "sm_90", "not_supported", "needs compute capability 10.0"),
        ("", "sm_90", "compile_error", "setmaxnreg"),
    ],
)
def test_a_kernel_is_compiled_for_the_architectures_that_it_needs_only(
    folder, line, arch, status, reason
):
    code = CU_RIGHT + '  asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");'  # of sm_90a only
    row, *_ = build(folder, cuda_kernel("t", code).replace("title:", f"{line}title:"), arch=arch)
    assert row.status == status
    assert reason in row.reason
    assert row.arch == "sm_90a" or status != "compiled"


@pytest.mark.slow
@pytest.mark.parametrize("build_with", [(), (NVRTC,)])
def test_a_kernel_cannot_launch_one_that_outlives_it(folder, build_with):
    text = cuda_kernel("t", "if (threadIdx.x == 0) later<<<1, 1>>>(C);" + CU_RIGHT)
    text = text.replace('extern "C"', '__global__ void later(T* C) { C[0] = 0; }\nextern "C"', 1)
    for row in build(folder, text, builds=[build_with]):
        assert row.status == "compile_error"
        assert "kernel launch" in row.reason


@pytest.mark.slow
def test_two_compilers_with_options_make_binaries_of_their_own(folder):
    code = "  float s[64];\n  for (int i = 0; i < 64; ++i) s[i] = A[i * M];\n"
    code += "  for (int j = 0; j < N; ++j) for (int i = 0; i < 64; ++i) s[i] += B[j] * s[i ^ 1];\n"
    code += "  for (int i = 0; i < 64; ++i) C[i] = s[i] + alpha + uint32_t(K);\n"
    text = cuda_kernel("t", code + CU_RIGHT).replace('extern "C"', '#include <cstdint>\nextern "C"')
    few = ("maxrregcount", "32")
    builds = [(), (few,), (NVRTC,), (NVRTC, few), (NVRTC, ("dlcm", "cg"))]
    rows = build(folder, text.replace("[8, 16]", "[8]"), builds=builds)
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


def crash(monkeypatch, number, words=b""):
    """Let NVRTC end by a signal, with words on stderr."""

    def child(connection, errors, *_):
        faulthandler.disable()
        os.write(errors, words)
        os.kill(os.getpid(), number)

    monkeypatch.setattr(compilers, "_nvrtc_child", child)


@pytest.mark.parametrize(
    ("number", "words", "reason"),
    [
        (5, b"", "NVRTC died due to signal 5"),
        (11, b"", "NVRTC " + MAYBE_MEMORY.format(4)),
        (
            5,
            b"LLVM ERROR: out of memory\n",
            "the compiler may use 4 GiB of memory, and needed more: NVRTC died due to signal "
            "5\nLLVM ERROR: out of memory",
        ),
    ],
)
def test_an_nvrtc_that_crashes_is_a_row(folder, monkeypatch, number, words, reason):
    crash(monkeypatch, number, words)
    rows = build(folder, TEXT, builds=[(NVRTC,)])
    assert {(row.status, row.reason) for row in rows} == {("compile_error", reason)}


def test_an_nvrtc_that_is_killed_from_outside_says_nothing_of_the_kernel(folder, monkeypatch):
    crash(monkeypatch, 9)
    with pytest.raises(InputError, match=r"the kernel's fault; .* died due to signal 9"):
        build(folder, TEXT, builds=[(NVRTC,)])


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
    assert compilers.parse_ptxas(PTXAS) == {
        "function": "gemm",
        "registers": 168,
        "static_shared": 2048,
        "stack_frame": 0,
        "spill_stores": 20,
        "spill_loads": 12,
    }


NO_DRIVER = """
import sys
from pathlib import Path
sys.modules["pycuda._driver"] = None
from ladder.compiling.compilers import CompileError, compile_source
try:
    compile_source("nvcc", "oops;", "sm_80")
except CompileError as error:
    print("said:", error)
"""


def test_compiling_needs_no_driver(tmp_path):
    """The message of a compile error comes through, and no folder is left behind."""
    command = [sys.executable, "-c", NO_DRIVER]
    env = os.environ | {"TMPDIR": str(tmp_path)}
    said = subprocess.check_output(command, cwd=HOME / "workflow", env=env, text=True)
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
    with pytest.raises(InputError, match="not the kernel's fault; run again: ") as refused:
        raise compilers._refusal(message)
    assert message in str(refused.value)


@pytest.mark.parametrize("name", ["cpu/mine.c", "cuda/mine.cu"])
def test_a_kernel_that_is_a_symbolic_link_includes_as_one_in_its_place(folder, tmp_path, name):
    written(folder / "kernels" / "include" / "mine.h", "// mine\n")
    text = c_kernel("t", "") if name.endswith(".c") else TEXT
    written(tmp_path / "elsewhere" / name, text.replace("---*/", '---*/\n#include "mine.h"'))
    path = folder / "kernels" / name
    path.parent.mkdir()
    path.symlink_to(tmp_path / "elsewhere" / name)
    kernel = kernel_file.parse(path)
    assert kernel.includes
    configuration, *_ = kernel.expand({}, ["float32"])
    (row,) = compiling.compile_kernel(kernel, [configuration], "sm_90", folder / "build", 1)
    assert (row.status, row.reason) == ("compiled", "")


def use_as_cc(monkeypatch, path, script):
    """Write a script, and use it as the C compiler."""
    written(path, f"#!/bin/sh\n{script}\n", 0o755)
    monkeypatch.setattr(compilers, "cc", lambda: (str(path),))


def test_a_compiler_that_refuses_everything_is_not_the_kernels_fault(folder, monkeypatch):
    use_as_cc(monkeypatch, folder / "broken", "echo 'as: not found' >&2\nexit 1")
    message = "refuses an empty kernel too, so cpu/20_test is not at fault: as: not found"
    with pytest.raises(InputError, match=message):
        build(folder, c_kernel("t", ""), "cpu/20_test.c")


def test_what_a_compiler_says_is_printable_and_bounded():
    message = str(compilers._refusal("error: \x1b[31m\a\0" + "x" * 9999 + "\nend"))
    assert message.startswith(r"error: \x1b[31m\x07\x00xxx")
    assert [len(line) for line in message.splitlines()] == [400, 3]
    assert len(str(compilers._refusal(("x" * 99 + "\n") * 99))) == 4000


def built_under_a_limit(folder):
    return build(folder, c_kernel("a", ""), "cpu/a.c"), resource.getrlimit(resource.RLIMIT_CPU)


@pytest.mark.slow
def test_a_compiler_that_computes_for_ever_is_stopped(folder, monkeypatch):
    use_as_cc(monkeypatch, folder / "endless", "while :; do :; done")
    monkeypatch.setattr(compilers, "COMPILE_SECONDS", 1)
    monkeypatch.setattr(compiling, "_check_compiler", lambda *_: None)
    # what a process has computed is added to the limit: in one that has computed for nothing yet
    with get_context("fork").Pool(1) as pool:
        (row,), after = pool.apply(built_under_a_limit, (folder,))
    assert row.status == "compile_error"
    assert row.reason == "the compiler ended with status -24 and no output"
    assert after == resource.getrlimit(resource.RLIMIT_CPU)


NUMBERS = (
    "#define MANY(x) x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x\n"
    "static const double many[] = {MANY(MANY(MANY(MANY(MANY(MANY(MANY(1)))))))};\n"
)
"""2^28 numbers: some 10 GB."""
HUNGRY_C = c_kernel("t", "C[0] = many[M];").replace("---*/", "---*/\n" + NUMBERS, 1)
HUNGRY_CU = cuda_kernel("t", "C[0] = many[M];").replace(
    'extern "C"', '__device__ char many[1 << 30] = {1};\nextern "C"', 1
)


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
    row, *_ = build(folder, text.replace("[8, 16]", "[8]"), name, builds=[build_with])
    assert row.status == "compile_error"
    asked = row.reason.startswith("the compiler may use 0.5 GiB of memory, and needed more: ")
    # by what it wants the memory for that it does not get
    assert asked or row.reason.endswith(MAYBE_MEMORY.format("0.5"))
    assert resource.getrlimit(resource.RLIMIT_AS) == before


@pytest.mark.parametrize(
    ("bound", "error", "message"),
    [
        (
            4 << 30,
            compilers.CompileError,
            "^the compiler may use 4 GiB of memory, and needed more: ld: memory exhausted$",
        ),
        (1 << 50, InputError, "not the kernel's fault; run again: ld: memory exhausted"),
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


def collect(*_, kept=False):
    return None if kept else SimpleNamespace(status="compiled", freed=gc.collect())


def test_a_child_does_not_free_what_its_parent_made(folder, monkeypatch):
    monkeypatch.setattr(compiling, "_compile", collect)
    gc.disable()
    try:
        OnTheDevice()
        rows = build(folder, TEXT, workers=2)
    finally:
        gc.enable()
    assert [row.status for row in rows] == ["compiled"] * 2
