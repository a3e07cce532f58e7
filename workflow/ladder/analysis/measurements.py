"""What each measurement says: the label of its problem, its rates, its marks, and whether it failed."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ladder.core.stats import DRIFT, trend
from ladder.core.types import FAILED, flops, tflops
from ladder.model.problem import VARIED, Problem

MULTIMODAL = 1.05
"""The quotient of the 90th to the 10th percentile of the times from which one median tells too little."""
THROTTLED = 0xFC
"""Bits of NVML's clock event reasons that hold the clock down: power cap, slowdowns, sync boost; not idling and not clocks chosen."""

Record = Mapping[str, Any]
"""A measurement: a row of `samples.SCHEMA`, with the label of its problem as `problem`."""


def labelled(records: Sequence[Record]) -> list[Record]:
    """The records, each with its problem's label: the sizes, and of the rest what is not the same in all of them."""
    varied = [name for name in VARIED if len({record[name] for record in records}) > 1]
    return [{**record, "problem": label(record, varied)} for record in records]


def label(record: Record, varied: Sequence[str] = ()) -> str:
    """The label of a record's problem: its sizes, and those of its other properties that are named."""
    return Problem(record["m"], record["n"], record["k"], **{name: record[name] for name in varied}).label


def failures(records: Sequence[Record]) -> dict[tuple[str, str, str], Record]:
    """The kernels, element types and configurations that failed in the confirmation, each with its first record that failed."""
    failed: dict[tuple[str, str, str], Record] = {}
    for record in records:
        if record["process"] and record["status"] in FAILED:
            failed.setdefault((record["kernel"], record["element_type"], record["configuration"]), record)
    return failed


def uses_tensor_cores(record: Record) -> bool:
    """Whether what was measured uses the tensor cores: by its binary, or, of a baseline, by its precision."""
    return bool(record["tensor_cores"]) or record["precision"] == "tf32"


def rates(
    record: Record,
    time: tuple[float, float, float],
    ratio: tuple[float, float, float],
    reference_us: float,
    peak_tflops: float,
    per_clock: float | None,
) -> dict[str, Any]:
    """What follows from a time and a ratio, each with the ends of its interval: columns of tables.

    Times in microseconds, rates in TFLOP/s. `peak_tflops` is that of float32, measured, and `per_clock` the float32 operations of a clock.
    """
    size = record["m"], record["n"], record["k"]
    row: dict[str, Any] = {
        **dict(zip(("median_us", "low_us", "high_us"), time, strict=True)),
        **{name: tflops(*size, us) for name, us in zip(("tflops", "tflops_high", "tflops_low"), time, strict=True)},
        "reference_us": reference_us,
        "reference_tflops": tflops(*size, reference_us),
        **dict(zip(("ratio", "ratio_low", "ratio_high"), ratio, strict=True)),
        "tflop_per_j": flops(*size) / 1e12 / record["energy_j"] if record["energy_j"] else None,
    }
    if record["element_type"] == "float32":
        clock = record["sm_clock_mhz"]
        row["peak_fraction"] = row["tflops"] / peak_tflops
        row["clock_fraction"] = row["tflops"] * 1e6 / (per_clock * clock) if per_clock and clock else None
    return row


def disturbed(records: Sequence[Record]) -> str:
    """What to say of a value that was measured while others computed on the device, or ""."""
    others = max(record["other_processes"] or 0 for record in records)
    return f"timed while {others} other process(es) computed on the device" if others else ""


def throttled_share(records: Sequence[Record]) -> float | None:
    """The share of samples taken while something held the clock down; None where the device does not tell."""
    bits_of_samples = [bits for record in records for bits in record["samples_throttle_reasons"] or [] if bits is not None]
    return sum(bool(bits & THROTTLED) for bits in bits_of_samples) / len(bits_of_samples) if bits_of_samples else None


def marks(records: Sequence[Record]) -> list[str]:
    """What to know of a value that is made from these records: one of the sweep, or one a process of the confirmation.

    `throttled`: something held the clock down during a sample. `drifting`: times or ratios rise or fall within a process. `multimodal`: the
    90th percentile of all times is more than 5 % above the 10th. `raced`: it left the race early.
    """
    times = [record["samples_us"] for record in records]
    ratios = [np.divide(record["reference_us"], record["samples_us"]) for record in records]
    low, high = np.quantile(np.concatenate(times), (0.1, 0.9))
    present = {
        "throttled": bool(throttled_share(records)),
        "drifting": max(abs(trend(*times)), abs(trend(*ratios))) > DRIFT,
        "multimodal": bool(high > MULTIMODAL * low),
        "raced": any(record["stop"] == "race" for record in records),
    }
    return [mark for mark, holds in present.items() if holds]
