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
from ladder.core.files import digest
from ladder.devices.operands import scalars
from planted import HOME
from trying import Trials, stay_in_process

PAGE = (HOME / "docs" / "bring-your-kernel.md").read_text()
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
struct Index { int x, y; };
thread_local Index blockIdx, threadIdx;  // two launches at once have their own
"""
RUN = """
extern "C" void run(int M, int N, int K, float alpha, const float *A, int lda, const float *B, int ldb, float beta, float *C, int ldc) {
  for (blockIdx.y = 0; blockIdx.y < (M + 15) / 16; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x < (N + 15) / 16; ++blockIdx.x)
      for (threadIdx.y = 0; threadIdx.y < 16; ++threadIdx.y)
        for (threadIdx.x = 0; threadIdx.x < 16; ++threadIdx.x) gemm(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
}
"""


def emulate(library, a, b, c, p):
    """Run a library on copies of the matrices that have room round them. Copy C back, and the
    elements right behind it.
    """

    def held(matrix, rows, cols, ld, behind=0):
        numbers = ctypes.c_float * ((rows - 1) * ld + cols + behind)
        return np.ctypeslib.as_array(numbers.from_address(matrix.ctypes.data))

    matrices = held(a, p.m, p.k, p.lda), held(b, p.k, p.n, p.ldb), held(c, p.m, p.n, p.ldc, SEEN)
    room = np.full(SLACK * (max(p.lda, p.ldb, p.ldc) + SLACK), 3, np.float32)
    copies = [np.concatenate([matrix, room]) for matrix in matrices]
    before, after = matrices[2], copies[2][: len(matrices[2])]
    index = np.arange(len(before))
    outside = (index // p.ldc >= p.m) | (index % p.ldc >= p.n)
    after[outside] = MARK
    alpha, beta = (ctypes.c_float(float(value)) for value in scalars(p))
    at_a, at_b, at_c = (ctypes.c_void_p(copy.ctypes.data) for copy in copies)
    run = ctypes.CDLL(library).run
    run(p.m, p.n, p.k, alpha, at_a, p.lda, at_b, p.ldb, beta, at_c, p.ldc)
    written = ~outside | (after != MARK)
    before[written] = after[written]


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
    def compile_source(compiler, source, arch, includes=(), options=()):
        if "/*---" not in source:  # the pipeline's own code
            return compilers.compile_source(compiler, source, arch, includes, options)
        built, usage = compilers.COMPILERS[compiler](source, arch, includes, options)
        library = tmp_path / f"{digest(source)}.so"
        command = [
            *toolchain.cc(),
            *["-x", "c++", "-w", "-O2", "-shared", "-fPIC", "-", "-o"],
            library,
        ]
        # the first stage has no function gemm, and is not run
        subprocess.run(command, input=BEFORE + source + RUN, text=True, check=b"gemm\0" in built)
        code = f"import test_bring_your_kernel as page; page.emulate('{library}', a, b, c, p)"
        return simulated.cubin(code, cubin.information(built)), usage

    stay_in_process(monkeypatch)
    trials = Trials(tmp_path / "root", monkeypatch, capsys)
    monkeypatch.setattr(compile, "compile_source", compile_source)
    monkeypatch.setitem(sys.modules, "test_bring_your_kernel", sys.modules[__name__])
    (trials.root / "kernels" / "cuda" / "mine.cu").write_text(text)
    code = 0 if not message else 1 if text.startswith("/*---") else 2
    output = trials.ladder("try", "kernels/cuda/mine.cu", "--size", "32", code=code)
    assert (message or "\ncorrect; ") in output
