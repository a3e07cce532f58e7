"""Upper limits of a device. A result that beats them was not computed."""

from collections.abc import Mapping
from typing import Any

from ladder.core.types import ELEMENT_TYPES, OF_CUDA
from ladder.model.problem import Problem

FEW_LANES = ("6.0", "7.0", "7.2", "7.5", "8.0")
"""Compute capabilities with 64 float32 lanes per SM; other GPUs since Maxwell have 128 (CUDA
Programming Guide, "Arithmetic Instructions").
"""
TENSOR_FLOP_PER_CLOCK = {
    "7.0": 1024,
    "7.5": 1024,
    "8.0": 2048,
    "8.6": 1024,
    "8.9": 2048,
    "9.0": 4096,
}
"""Dense operations on 16 bits per clock and SM on tensor cores (the architectures' white papers:
A100 312 TFLOP/s, H100 SXM 989 TFLOP/s).
"""
MOST_TENSOR_FLOP_PER_CLOCK = 16384
"""For compute capabilities that are not in the table."""
HALF_LANES = 4
"""The most lanes for elements of 16 bits per float32 lane."""
MEMORY_SLACK, UNKNOWN_CLOCK_SLACK = 1.25, 1.5
"""Factors by which a GPU's memory may beat the measured copy rate, and a GPU of unknown highest
clock its measured peak.
"""
CORE_TFLOPS = 0.4
"""The most that a CPU core does in float32: two fused multiply-adds of 512 bits per clock, 64
operations, at 6.2 GHz.
"""


def flop_per_clock(environment: Mapping[str, Any]) -> float | None:
    """Return the most float32 operations of a GPU per clock, 2 * lanes * SMs; None for a CPU."""
    if environment["kind"] != "cuda":
        return None
    attributes = environment["attributes"]
    lanes = 64 if attributes["compute_capability"] in FEW_LANES else 128
    return 2.0 * lanes * float(attributes["sm_count"])


def measured_peak(environment: Mapping[str, Any], element_type: str) -> float | None:
    """Return the measured peak in TFLOP/s: of the lanes in float32, of the tensor cores in 16 and 8
    bits; None where it is not measured.
    """
    name = (
        f"tensor_{8 * ELEMENT_TYPES[element_type].size}_bit_tflops"
        if element_type in OF_CUDA
        else f"{element_type.replace('float', 'fp')}_tflops"
    )
    peak: float | None = environment["peaks"].get(name)
    return peak


def peak_tflops(
    environment: Mapping[str, Any], element_type: str = "float32", tensor_cores: bool = False
) -> float:
    """Return the TFLOP/s that no kernel can exceed: on a GPU all lanes or all tensor cores at the
    highest clock, on a CPU all cores.

    A CPU's measured peak is no bound: while other work has the cores, it may be any fraction of
    what a later run reaches.
    """
    per_clock, attributes = flop_per_clock(environment), environment["attributes"]
    if per_clock is None:
        # a quota allows bursts on more
        return CORE_TFLOPS * float(attributes.get("cores_in_mask", attributes["cores"]))
    if not attributes.get("max_sm_clock_mhz"):
        return UNKNOWN_CLOCK_SLACK * float(environment["peaks"]["fp32_tflops"])
    if tensor_cores:
        of_sm = TENSOR_FLOP_PER_CLOCK.get(
            attributes["compute_capability"], MOST_TENSOR_FLOP_PER_CLOCK
        )
        per_byte = 2 if ELEMENT_TYPES[element_type].size == 1 else 1  # twice as fast in 8 bits
        per_clock = max(per_clock, float(per_byte * of_sm * attributes["sm_count"]))
    elif element_type in OF_CUDA:
        per_clock *= HALF_LANES
    return per_clock * float(attributes["max_sm_clock_mhz"]) * 1e-6


def least_us(environment: Mapping[str, Any], problem: Problem, tensor_cores: bool) -> float:
    """Return the least time in microseconds of a problem: for its operations, and on a GPU for the
    part of its operands beyond the cache.
    """
    computing = problem.flops / peak_tflops(environment, problem.element_type, tensor_cores)
    if environment["kind"] != "cuda":
        return computing * 1e-6
    moved = problem.least_bytes
    beyond = max(0, moved - environment["attributes"].get("cache_bytes", moved))
    return float(max(computing, beyond / (MEMORY_SLACK * environment["peaks"]["copy_tb_s"])) * 1e-6)
