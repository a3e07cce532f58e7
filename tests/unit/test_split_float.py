"""Rung 21's own splitting and scaling, compiled for the host: the halves and counts that the page
describes, and the bound of what is lost on the way through the tensor cores.
"""

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
from ladder.compiling.toolchain import nvcc
from planted import HOME

pytestmark = pytest.mark.slow
U = 2.0**-24
"""The unit roundoff of float32."""
LOST, DROPPED, CUT = 24, 4, 43
"""The parts of the bound, in units of u * sum of |a|*|b|: docs/float32-from-tensor-cores.md."""
KEPT_BITS = 25
"""Of an addend, below the power of two of an instruction's largest one: measured, not specified."""
CHUNK, STEP = 64, 16
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
constexpr int CHUNK = 64;
SCALING
extern "C" void split(int n, const float* x, const float* largest, uint16_t* high, uint16_t* low,
                      uint32_t* counts, float* down) {
  for (int i = 0; i < n; ++i) {
    const uint32_t bits = __float_as_uint(largest[i]);
    const Scaling scaling(bits);
    float eight[8];
    uint4 h, l;
    std::memcpy(eight, x + 8 * i, 32);
    counts[i] = scaling.split(eight, bits, h, l), down[i] = scaling.down;
    std::memcpy(high + 8 * i, &h, 16), std::memcpy(low + 8 * i, &l, 16);
  }
}
extern "C" float factor_of(float row, float column) { return factor(row, column, __float_as_uint(row) | ~GAINS); }
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    text = (HOME / "kernels" / "include" / "split_float.cuh").read_text()
    begin, end = text.index("constexpr float GAIN"), text.index("  // The record of 8 rows")
    folder = tmp_path_factory.mktemp("split")
    (folder / "split.cpp").write_text(SHIM.replace("SCALING", text[begin:end] + "};"))
    include = Path(nvcc()).resolve().parents[1] / "include"
    flags = ["-std=c++17", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-o", "split.so"]
    subprocess.run(["g++", f"-I{include}", *flags, "split.cpp"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "split.so"))


def split(compiled, x, largest):
    """Return the high and low halves of rows of eight, their counts, and what undoes the scaling."""
    high, low = np.zeros((2, *x.shape), np.float16)
    counts, down = np.zeros(len(x), np.uint32), np.zeros(len(x), np.float32)
    arrays = (x, largest, high, low, counts, down)
    compiled.split(len(x), *(ctypes.c_void_p(array.ctypes.data) for array in arrays))
    return high.astype(np.float64), low.astype(np.float64), counts, down


def test_halves_and_counts_are_what_the_page_describes(compiled):
    random = np.random.default_rng(6)
    x = random.standard_normal((4000, 8)) * np.ldexp(1.0, random.integers(-30, 31, (4000, 8)))
    x *= random.random((4000, 8)) < 0.9
    x *= np.ldexp(1.0, random.integers(-110, 80, (4000, 1)))
    x[:500] = np.round(x[:500])
    powers = np.ldexp(1.0, random.integers(-26, 16, (400, 8)))
    x[500:900] = powers * random.integers(-40, 41, (400, 8))
    x[900] = 0
    x = x.astype(np.float32)
    largest = np.abs(x).max(axis=1)
    largest[:2000] *= np.ldexp(np.float32(1), random.integers(0, 20, 2000))
    high, low, counts, down = split(compiled, x, largest)

    fields = (largest.view(np.uint32) >> 23).astype(np.int64)
    up = np.ldexp(1.0, np.where(largest == 0, 0, np.clip(141 - fields, -113, 126)))
    scaled, size = x * up[:, None], np.abs(high)
    assert (down == 1 / up).all()
    assert (high == scaled.astype(np.float16)).all()
    assert (low == (scaled - high).astype(np.float16)).all()
    small = (size < 0.125) & (x != 0)
    counted = {
        0: size >= 512,
        7: size >= 8,
        14: small & ((size < 2.0**-14) | (high != scaled)),
        21: size >= (0.125 * up * largest).astype(np.float16)[:, None],
    }
    for place, elements in counted.items():
        assert (counts >> place & 127 == elements.sum(axis=1)).all(), place
    has_low = (low != 0) | np.signbit(low)
    assert (counts >> 28 == has_low.any(axis=1)).all()


def instruction(total, a, b):
    """Return total + a b of 16 of K, each addend cut off below the largest, then the sum to 24 bits."""
    products = a[:, None, :] * b[None, :, :]
    largest = np.maximum(np.abs(products).max(axis=2), np.abs(total))
    unit = np.ldexp(1.0, np.frexp(largest)[1] - 1 - KEPT_BITS)
    result = (np.trunc(products / unit[:, :, None]).sum(axis=2) + np.trunc(total / unit)) * unit
    last = np.ldexp(1.0, np.frexp(result)[1] - 24)
    return np.trunc(result / last) * last


@pytest.mark.parametrize("kind", ["normal", "positive", "one to two", "integers"])
def test_a_chunk_on_the_tensor_cores_keeps_the_bound(compiled, kind):
    random = np.random.default_rng(0)
    shape = (48, CHUNK)
    x = {
        "normal": random.standard_normal(shape),
        "positive": random.uniform(0, 1, shape),
        "one to two": random.uniform(1, 2, shape),
        "integers": random.integers(-99, 100, shape),
    }[kind].astype(np.float32)
    largest = np.abs(x).max(axis=1).repeat(CHUNK // 8)
    parts = split(compiled, x.reshape(-1, 8), largest)
    high, low = (part.reshape(shape) for part in parts[:2])
    scaled = x / parts[3].astype(np.float64)[:: CHUNK // 8, None]

    total = np.zeros((16, 32))
    for left, right in ((low, high), (high, low), (high, high)):
        for at in range(0, CHUNK, STEP):
            total = instruction(total, left[:16, at : at + STEP], right[16:, at : at + STEP])
    a, b = scaled[:16], scaled[16:]
    off = np.abs(total - a @ b.T)
    assert (off <= (LOST + DROPPED + CUT) * U * (np.abs(a) @ np.abs(b).T)).all()
    assert off.any() == (kind != "integers")


def test_a_factor_has_the_gain_if_both_scales_have_it(compiled):
    compiled.factor_of.restype, compiled.factor_of.argtypes = ctypes.c_float, [ctypes.c_float] * 2
    gain = 1 + 2.0**-23
    for row, column in ((1, 1), (1, gain), (gain, 1), (gain, gain)):
        for power in (0, 60, -60):
            factor = compiled.factor_of(row * 2.0**power, column * 2.0**-20)
            assert factor == min(row, column) * 2.0 ** (power - 20)
