"""Every CPU rung on an aarch64 processor that QEMU emulates: cross-compiled with the project's
flags, through the gauntlet.
"""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from ladder.compiling.toolchain import FLAGS as COMPILER_FLAGS
from ladder.devices.operands import places
from ladder.measuring.gauntlet import describe, problems
from ladder.model.kernel import Configuration, Kernel
from ladder.model.problem import Problem
from problems import complaint, stored
from rungs import ALL

ROOT = Path(__file__).resolve().parents[2]
KERNELS = [kernel for kernel in ALL.values() if kernel.kind == "cpu"]
CASES = [(kernel, element_type) for kernel in KERNELS for element_type in kernel.element_types]
FLAGS = [flag for flag in COMPILER_FLAGS["cc"] if flag != "-march=native"] + ["-march=armv9-a"]
"""A cross-compiler knows no native processor; GH200 and DGX Spark have Armv9."""

CALLER = r"""
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define ADDRESS(which) (matrix[which] + given.first[which])

/* Reads problems and their buffers A, B and C, calls gemm, and writes each C. What a kernel or a user has set for the processor is undone. */
int main(int argc, char **argv) {
  void *kernel = dlopen(argv[1], RTLD_NOW), *support = dlopen(argv[2], RTLD_NOW);
  if (!kernel || !support) return fprintf(stderr, "%s\n", dlerror()), 2;
  void (*gemm)(int, int, int, T, const T *, int, const T *, int, T, T *, int) = dlsym(kernel, "gemm");
  void (*restore)(int) = dlsym(support, "restore");
  int (*evict)(const void *, long long) = dlsym(support, "evict");
  double (*peak_fma)(int, float, float, float *) = dlsym(support, "peak_fma");
  if (argc > 3) {
    uint64_t modes = 3ull << 22 | 1ull << 24; /* round to zero, flush to zero */
    __asm__ volatile("msr fpcr, %0" ::"r"(modes));
    restore(3);
    __asm__ volatile("mrs %0, fpcr" : "=r"(modes));
    float out;
    printf("%d %.0f", (int)modes, peak_fma(10, 0.999f, 0.001f, &out));
    return 0;
  }
  struct { int m, n, k, ld[3]; double alpha, beta; long long total[3], first[3]; } given;
  while (fread(&given, sizeof given, 1, stdin) == 1) {
    T *matrix[3];
    for (int which = 0; which < 3; ++which) {
      matrix[which] = malloc(given.total[which] * sizeof(T));
      if (fread(matrix[which], sizeof(T), given.total[which], stdin) != given.total[which]) return 3;
      if (!evict(matrix[which], given.total[which] * sizeof(T))) return 4;
    }
    gemm(given.m, given.n, given.k, given.alpha, ADDRESS(0), given.ld[0], ADDRESS(1), given.ld[1], given.beta, ADDRESS(2), given.ld[2]);
    fwrite(matrix[2], sizeof(T), given.total[2], stdout);
    for (int which = 0; which < 3; ++which) free(matrix[which]);
  }
  return 0;
}
"""
GIVEN = np.dtype([("size", "6i4"), ("factors", "2f8"), ("places", "6i8")])


def build(source: str, into: Path, *flags: str) -> Path:
    # Python's process has libm, which what is loaded may use
    command = [
        "aarch64-linux-gnu-gcc",
        "-x",
        "c",
        "-",
        *flags,
        "-Wl,--no-as-needed",
        "-lm",
        "-o",
        into,
    ]
    done = subprocess.run(command, input=source, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return into


def emulate(*command: str | Path, given: bytes = b"") -> bytes:
    done = subprocess.run(
        ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", *command],
        input=given,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.fixture(scope="module")
def support(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = ROOT / "workflow" / "ladder" / "devices"
    return build(
        (folder / "support.c").read_text(),
        tmp_path_factory.mktemp("support") / "support.so",
        *FLAGS,
        f"-I{folder}",
    )


def as_read(problem: Problem) -> bytes:
    totals, firsts = zip(*((place.total, place.first) for place in places(problem)), strict=True)
    size = problem.m, problem.n, problem.k, problem.lda, problem.ldb, problem.ldc
    head = np.array((size, (problem.alpha, problem.beta), (*totals, *firsts)), GIVEN)
    return head.tobytes() + b"".join(buffer.tobytes() for buffer in stored(problem)[0])


@pytest.mark.parametrize(
    ("kernel", "element_type"), CASES, ids=[f"{kernel.name}-{t}" for kernel, t in CASES]
)
def test_every_cpu_rung_is_right_on_aarch64(
    kernel: Kernel, element_type: str, support: Path, tmp_path: Path
) -> None:
    source = kernel.source(Configuration(element_type, tuple(kernel.parameters.items())))
    made = build(source, tmp_path / "kernel.so", *FLAGS, f"-I{ROOT / 'kernels' / 'include'}")
    caller = build(
        CALLER,
        tmp_path / "caller",
        "-O1",
        f"-DT={'float' if element_type == 'float32' else 'double'}",
    )
    asked = problems(element_type)
    result = np.frombuffer(
        emulate(caller, made, support, given=b"".join(map(as_read, asked))), element_type
    )
    ends = np.cumsum([places(problem)[2].total for problem in asked])
    assert len(result) == ends[-1]
    complaints = {
        describe(p): complaint(p, part)
        for p, part in zip(asked, np.split(result, ends[:-1]), strict=True)
    }
    assert {problem: message for problem, message in complaints.items() if message} == {}


def test_what_a_kernel_has_set_is_undone_on_aarch64(support: Path, tmp_path: Path) -> None:
    caller = build(CALLER, tmp_path / "caller", "-DT=float")
    assert emulate(caller, support, support, "modes") == b"0 3840"  # 10 * 8 * 12 vectors of 4
