"""docs/bring-your-kernel.md: every stage of the kernel gets the message that the page shows, and
the last one is right.

nvcc compiles each stage. Then a C++ compiler builds it for the CPU, thread by thread, and the
simulated GPU runs that.
"""

import ctypes
import re
import subprocess
import sys

import numpy as np
import pytest
import simulated
from ladder.compiling import compile, compilers, cubin, toolchain
from ladder.devices.operands import scalars
from planted import ROOT
from trying import Trials, stay_in_process

PAGE = (ROOT / "docs" / "bring-your-kernel.md").read_text()
BLOCKS = re.findall(r"^```(cuda|console|diff)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SLACK = 16
"""Rows of A and C, and columns, that a tile of 16 may touch beyond the matrix."""
SEEN = 512
"""Elements behind C that the device sees overwritten."""
MARK = 12345
"""An element outside C that nobody has written. A NaN would not do: this machine computes the same
NaN from it again, a GPU another one.
"""
BEFORE = """
#include <cstddef>
#define __global__
struct Index { int x, y; } blockIdx, threadIdx;
"""
RUN = """
extern "C" void run(int M, int N, int K, float alpha, const float *A, int lda, const float *B, int ldb, float beta, float *C, int ldc) {
  for (blockIdx.y = 0; blockIdx.y < (M + 15) / 16; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x < (N + 15) / 16; ++blockIdx.x)
      for (threadIdx.y = 0; threadIdx.y < 16; ++threadIdx.y)
        for (threadIdx.x = 0; threadIdx.x < 16; ++threadIdx.x) gemm(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
}
"""
LIBRARIES = {}


def emulate(name, a, b, c, p):
    """Run a library on copies of the matrices that have room round them. Copy C back, and the
    elements right behind it.
    """

    def copied(matrix, rows, cols, ld, behind=0):
        needed = (rows - 1) * ld + cols + behind
        held = np.ctypeslib.as_array((ctypes.c_float * needed).from_address(matrix.ctypes.data))
        return held, np.concatenate([held, np.full(SLACK * (max(ld, cols) + SLACK), 3, np.float32)])

    _, left = copied(a, p.m, p.k, p.lda)
    _, below = copied(b, p.k, p.n, p.ldb)
    held, result = copied(c, p.m, p.n, p.ldc, SEEN)
    index = np.arange(len(held))
    outside = (index // p.ldc >= p.m) | (index % p.ldc >= p.n)
    result[: len(held)][outside] = MARK
    alpha, beta = (ctypes.c_float(float(value)) for value in scalars(p))
    at = [ctypes.c_void_p(array.ctypes.data) for array in (left, below, result)]
    LIBRARIES[name].run(p.m, p.n, p.k, alpha, at[0], p.lda, at[1], p.ldb, beta, at[2], p.ldc)
    written = ~outside | (result[: len(held)] != MARK)
    held[written] = result[: len(held)][written]


def stages():
    """The kernel before each change and after the last, with the message that it gets; the last
    gets none.
    """
    text, after = (body for kind, body in BLOCKS if kind == "cuda")
    steps = [body for kind, body in BLOCKS if kind != "cuda"]
    for message, diff in zip(steps[::2], steps[1::2], strict=True):
        yield text, message.strip()
        old, new = (
            "".join(line[1:] for line in diff.splitlines(keepends=True) if line[0] in f" {sign}")
            for sign in "-+"
        )
        assert old in text
        text = text.replace(old, new, 1)
    assert text == after
    yield text, ""


STAGES = list(stages())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize(("text", "message"), STAGES, ids=range(len(STAGES)))
def test_every_stage_gets_the_message_of_the_page(
    text, message, tmp_path, monkeypatch, capsys, gpus
):
    simulated_nvcc = compile._nvcc

    def nvcc(source, arch, include, options=()):
        if "/*---" not in source:  # the pipeline's own code
            return simulated_nvcc(source, arch, include, options)
        with monkeypatch.context() as real:
            real.setattr(compilers, "simulated", lambda: None)
            built, usage = compilers._nvcc(source, arch, include, options)
        if b"_Z5sgemm" not in built:
            library = tmp_path / f"{len(LIBRARIES)}.so"
            command = [
                *toolchain.cc(),
                "-x",
                "c++",
                "-w",
                "-O2",
                "-shared",
                "-fPIC",
                "-",
                "-o",
                str(library),
            ]
            subprocess.run(command, input=BEFORE + source + RUN, text=True, check=True)
            LIBRARIES[library.name] = ctypes.CDLL(str(library))
        code = (
            f"import test_bring_your_kernel as it; it.emulate('{len(LIBRARIES) - 1}.so', a, b, "
            "c, p)"
        )
        return simulated.cubin(code, cubin.information(built)), usage

    stay_in_process(monkeypatch)
    trials = Trials(tmp_path / "root", monkeypatch, capsys)
    monkeypatch.setattr(compile, "_nvcc", nvcc)
    monkeypatch.setitem(sys.modules, "test_bring_your_kernel", sys.modules[__name__])
    (trials.root / "kernels" / "cuda" / "mine.cu").write_text(text)
    header = text.startswith("/*---")
    output = trials.ladder(
        "try", "kernels/cuda/mine.cu", "--size", "32", code=(1 if header else 2) if message else 0
    )
    assert message in output
    assert message or "\ncorrect; " in output
