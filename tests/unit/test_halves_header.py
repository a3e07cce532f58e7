"""The kernel's own splitting and scaling, compiled for the host, beside the simulation: to the
bit.
"""

import ctypes
import subprocess
from pathlib import Path

import halves
import numpy as np
import pytest
from ladder.compiling.toolchain import nvcc
from planted import ROOT

SHIM = """
#include <cmath>
#include <cstdint>
#include <cstring>
#include <algorithm>
#include <cuda_fp16.h>
#undef __device__
#define __device__
using T = float;
using Acc = float;
using std::max, std::min;
static float __uint_as_float(uint32_t x) { float y; std::memcpy(&y, &x, 4); return y; }
static uint32_t __float_as_uint(float x) { uint32_t y; std::memcpy(&y, &x, 4); return y; }
static int __half2int_rn(__half x) { return int(std::nearbyint(__half2float(x))); }
SCALING
extern "C" void split(int n, const float* x, const uint32_t* scaled_by, const uint32_t* largest, uint16_t* high, uint16_t* low,
                      uint32_t* counts, float* down) {
  for (int i = 0; i < n; ++i) {
    const Scaling scaling(scaled_by[i]);
    float eight[8];
    uint4 h, l;
    std::memcpy(eight, x + 8 * i, 32);
    counts[i] = scaling.split(eight, largest[i], h, l), down[i] = scaling.down;
    std::memcpy(high + 8 * i, &h, 16), std::memcpy(low + 8 * i, &l, 16);
  }
}
extern "C" float factor_of(float row, float column) { return factor(row, column, __float_as_uint(row) | ~GAINS); }
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    text = (ROOT / "kernels" / "include" / "split_float.cuh").read_text()
    scaling = (
        text[text.index("constexpr float GAIN") : text.index("  // The record of 8 rows")] + "};"
    )
    scaling = scaling.replace(
        "constexpr uint32_t INFINITE", "constexpr int CHUNK = 64;\nconstexpr uint32_t INFINITE"
    )
    folder = tmp_path_factory.mktemp("halves")
    (folder / "split.cpp").write_text(SHIM.replace("SCALING", scaling))
    include = Path(nvcc()).resolve().parents[1] / "include"
    command = [
        "g++",
        "-std=c++17",
        "-O1",
        "-ffp-contract=off",
        "-shared",
        "-fPIC",
        f"-I{include}",
        "split.cpp",
        "-o",
        "split.so",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "split.so"))


@pytest.mark.slow
def test_halves_and_counts_are_the_kernel_s(compiled):
    random = np.random.default_rng(6)
    x = (
        random.standard_normal((4000, 8))
        * np.ldexp(1.0, random.integers(-30, 31, (4000, 8)))
        * (random.random((4000, 8)) < 0.9)
    )
    x *= np.ldexp(1.0, random.integers(-110, 80, (4000, 1)))
    x[:500] = np.round(x[:500])
    x[500:900] = np.ldexp(1.0, random.integers(-26, 16, (400, 8))) * random.integers(
        -40, 41, (400, 8)
    )
    x = x.astype(np.float32)
    largest = np.abs(x).max(axis=1)
    largest[:2000] = np.maximum(
        largest[:2000], (largest[:2000] * 2.0 ** random.integers(0, 20, 2000)).astype(np.float32)
    )
    bits = largest.view(np.uint32)
    high, low = np.zeros((4000, 8), np.float16), np.zeros((4000, 8), np.float16)
    counts, down = np.zeros(4000, np.uint32), np.zeros(4000, np.float32)

    def at(array):
        return array.ctypes.data_as(ctypes.c_void_p)

    compiled.split(4000, at(x), at(bits), at(bits), at(high), at(low), at(counts), at(down))
    for i in range(4000):
        vector = np.zeros((halves.GROUP, halves.CHUNK), np.float32)
        vector[0, :8], vector[0, 8] = x[i], largest[i]  # which so is the largest of its row
        mine = halves.split(vector, 0, 1, False, 0)
        assert (
            (mine.high[0, :8] == high[i]).all()
            and (mine.low[0, :8] == low[i]).all()
            and mine.scale[0] == down[i]
        ), i
        if largest[i] == 0:
            continue
        ones = [counts[i] >> place & 127 for place in (0, 7, 14, 21)]
        extra = halves.split(
            np.where(np.arange(halves.CHUNK) == 8, vector, 0)[:1].repeat(8, axis=0), 0, 1, False, 0
        )
        large, medium, kept, near = mine.fit[0, 0], mine.fit[0, 1], mine.fit[0, 2], mine.span[0, 3]
        alone = extra.fit[0, 0], extra.fit[0, 1], 64 - extra.fit[0, 2], extra.span[0, 3]
        assert [
            large - alone[0],
            medium - alone[1],
            64 - kept - alone[2],
            near - alone[3],
        ] == ones, i
        assert (counts[i] >> 28) == (low[i].view(np.uint16) != 0).any(), i


@pytest.mark.slow
def test_a_factor_has_the_gain_if_both_scales_have_it(compiled):
    compiled.factor_of.restype, compiled.factor_of.argtypes = ctypes.c_float, [ctypes.c_float] * 2
    for row in (1.0, halves.GAIN):
        for column in (1.0, halves.GAIN):
            for power in (0, 60, -60):
                assert compiled.factor_of(row * 2.0**power, column * 2.0**-20) == min(
                    row, column
                ) * 2.0 ** (power - 20)
