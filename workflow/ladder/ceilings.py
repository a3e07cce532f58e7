"""What a device can do at most: a result that is faster has not been computed."""

from collections.abc import Mapping
from typing import Any

from ladder.campaign import Problem
from ladder.units import ELEMENT_TYPES

FEW_LANES = ("6.0", "7.0", "7.2", "7.5", "8.0")
"""Compute capabilities with 64 float32 lanes an SM; other GPUs since Maxwell have 128 (CUDA Programming Guide, "Arithmetic Instructions")."""
TENSOR_FLOP_PER_CLOCK = {"7.0": 1024, "7.5": 1024, "8.0": 2048, "8.6": 1024, "8.9": 2048, "9.0": 4096}
"""Dense float16 operations a clock and SM on the tensor cores (the architectures' white papers: A100 312 TFLOP/s, H100 SXM 989 TFLOP/s)."""
MOST_TENSOR_FLOP_PER_CLOCK = 16384
"""For what is not in the table."""
HALF_LANES = 4
"""Lanes of float16 that a lane of float32 stands for at most."""
MEMORY_SLACK, CPU_SLACK = 1.25, 1.5
"""What memory may do beyond the measured copy rate, and a CPU beyond its measured peak, which other work may have disturbed."""


def flop_per_clock(environment: Mapping[str, Any]) -> float | None:
    """What a GPU can do at most in a clock, 2 * lanes * SMs float32 operations; None for a CPU."""
    if environment["kind"] != "cuda":
        return None
    attributes = environment["attributes"]
    lanes = 64 if attributes["compute_capability"] in FEW_LANES else 128
    return 2.0 * lanes * float(attributes["sm_count"])


def peak_tflops(environment: Mapping[str, Any], element_type: str = "float32", tensor_cores: bool = False) -> float:
    """The rate that no kernel can pass: all lanes, or all tensor cores, at the highest clock; of a CPU, half again what was measured.

    There it counts too what one thread reached, times the cores: where others use the machine, all threads together find less of it.
    """
    per_clock, attributes = flop_per_clock(environment), environment["attributes"]
    if per_clock is None or not attributes.get("max_sm_clock_mhz"):
        peaks = environment["peaks"]
        of_one = attributes.get("cores", 0) * peaks.get("fp32_one_thread_tflops", 0.0)
        return CPU_SLACK * float(max(peaks["fp32_tflops"], of_one))
    if tensor_cores:
        of_sm = TENSOR_FLOP_PER_CLOCK.get(attributes["compute_capability"], MOST_TENSOR_FLOP_PER_CLOCK)
        per_clock = max(per_clock, float(of_sm * attributes["sm_count"]))
    elif element_type == "float16":
        per_clock *= HALF_LANES
    return per_clock * float(attributes["max_sm_clock_mhz"]) * 1e-6


def least_us(environment: Mapping[str, Any], problem: Problem, tensor_cores: bool) -> float:
    """The time in microseconds that a problem takes at the least: for its operations, and for what of its operands fits no cache."""
    size = ELEMENT_TYPES[problem.element_type].size
    moved = size * (problem.m * problem.k + problem.k * problem.n + problem.m * problem.n)
    beyond = max(0, moved - environment["attributes"].get("cache_bytes", moved))
    bandwidth = MEMORY_SLACK * environment["peaks"]["copy_tb_s"]
    computing = problem.flops / peak_tflops(environment, problem.element_type, tensor_cores)
    return float(max(computing, beyond / bandwidth) * 1e-6)
