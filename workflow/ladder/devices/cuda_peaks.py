"""Measure a GPU's peaks: multiply-adds of its lanes and of its tensor cores, the bandwidth of the
L2 cache, the time of one load.

The loads are a pointer chase: each has the address of the next, so none can begin before the one
before it is done (Saavedra-Barrera, CPU Performance Evaluation and Execution Time Prediction Using
Narrow Spectrum Benchmarking, 1992, chapter 4).
"""

from collections.abc import Callable, Sequence

import numpy as np
import pycuda.driver as cuda
from numpy.typing import NDArray

from ladder.devices.base import Call
from ladder.devices.cuda_operands import CHECK_THREADS, Support

LINE = 128
"""Bytes of a cache line. A chase takes one load from each."""
OF_L2, BEYOND_L2 = 1 / 4, 8
"""Buffers as parts of the L2 cache: one that fits it, even if the cache is two halves that keep
copies, and one of which little fits it.
"""
PASSES = 200
"""How often a bandwidth sample reads its buffer."""
STEPS = 2000
"""Loads of a chase."""
SAMPLES = 5


def chain(size: int) -> NDArray[np.uint32]:
    """Return a row per cache line of a buffer of `size` bytes. Its first word is the place of the
    next line, as an index of words.

    One cycle in random order leads through all lines, so nothing can foresee an address, and no
    line comes twice in a chase.
    """
    order = np.random.default_rng(0).permutation(size // LINE).astype(np.uint32)
    words = np.zeros((order.size, LINE // 4), np.uint32)
    words[order, 0] = np.roll(order, -1) * (LINE // 4)
    return words


def arithmetic(support: Support, sms: int, tensor_cores: bool) -> dict[str, tuple[Call, float]]:
    """Return, by the name of its rate, a launch that only multiplies and adds, and its operations.

    `fp32_tflops` is of the lanes. With `tensor_cores`, `tensor_16_bit_tflops` and
    `tensor_8_bit_tflops` are of compute capability 9.0's tensor cores: products of 16 or 8 bits,
    FP32 sums.
    """
    fma, lane_rounds, tensor_rounds = support.function("peak_fma", "iffP"), 125, 500

    def multiply_add() -> None:
        fma.prepared_async_call(
            (8 * sms, 1),
            (256, 1, 1),
            support.stream,
            lane_rounds,
            0.999,
            0.001,
            support.address("sums"),
        )

    launches: dict[str, tuple[Call, float]] = {
        "fp32_tflops": (multiply_add, 8 * sms * 256 * lane_rounds * 1024 * 2.0)
    }

    def multiply_tiles(bits: int) -> Call:
        mma = support.function(f"peak_tensor_{bits}", "iP")
        return lambda: mma.prepared_async_call(
            (sms, 1), (256, 1, 1), support.stream, tensor_rounds, support.address("sums")
        )

    for bits in (16, 8) if tensor_cores else ():
        operations = sms * 2 * tensor_rounds * 8 * (64 * 256 * 256 / bits * 2.0)
        launches[f"tensor_{bits}_bit_tflops"] = multiply_tiles(bits), operations
    return launches


def memory(
    support: Support,
    time_calls: Callable[[Sequence[Call]], list[float]],
    sms: int,
    l2_bytes: int,
    flush: Call,
) -> dict[str, float]:
    """Return `l2_tb_s`, and `l2_latency_ns` and `memory_latency_ns`, the mean over the SMs. `flush`
    empties the L2 cache of buffers.
    """
    read, chase = support.function("peak_read", "PiiP"), support.function("peak_chase", "PiiP")
    near, far = (cuda.to_device(chain(int(part * l2_bytes))) for part in (OF_L2, BEYOND_L2))
    near_bytes, far_bytes = (int(part * l2_bytes) // LINE * LINE for part in (OF_L2, BEYOND_L2))

    def read_near() -> None:
        blocks = (8 * sms, 1), (CHECK_THREADS, 1, 1)
        read.prepared_async_call(
            *blocks, support.stream, int(near), near_bytes // 16, PASSES, support.address("sums")
        )

    def latency(buffer: int, size: int, before: Call) -> float:
        def launch() -> None:
            chase.prepared_async_call(
                (sms, 1),
                (1, 1, 1),
                support.stream,
                buffer,
                size // LINE,
                STEPS,
                support.address("sums"),
            )

        means, ns = [], np.empty(sms)
        for _ in range(SAMPLES):
            time_calls([before, launch])
            cuda.memcpy_dtoh(ns, support.address("sums"))
            means.append(ns.mean() / STEPS)
        return float(np.median(means))

    bandwidth = (
        PASSES * near_bytes / np.median([time_calls([read_near]) for _ in range(SAMPLES)]) * 1e-6
    )
    peaks = {
        "l2_tb_s": float(bandwidth),
        "l2_latency_ns": latency(int(near), near_bytes, read_near),
        "memory_latency_ns": latency(int(far), far_bytes, flush),
    }
    for buffer in (near, far):
        buffer.free()
    return peaks
