"""Evaluate single measurements: the label of the problem, rates, marks, and failures."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ladder.core.stats import DRIFT, trend
from ladder.core.types import FAILED, flops, tflops
from ladder.model.baselines import BASELINES
from ladder.model.problem import VARIED, Problem

MULTIMODAL = 1.05
"""The quotient of the 90th and the 10th percentile of the times above which one median says too
little.
"""
THROTTLED = 0xFC
"""Bits of NVML's clock event reasons that mean throttling: power cap, slowdowns and sync boost, but
not idling or chosen clocks.
"""

SHORT = "short gauntlet"
"""The mark of `short_gauntlet`."""
SUMS_16_BIT = "16-bit sums"
"""The mark of a baseline that adds parts of K in 16 bits."""
NAN_AT_ALPHA_0 = "NaN at alpha 0"
"""The mark of a candidate that gives NaN where A or B has NaN although alpha is 0."""
FEW_PROBLEMS = 20
"""A verdict from fewer problems of the gauntlet says little."""

Record = Mapping[str, Any]
"""A measurement: a row of `samples.SCHEMA`, with the label of its problem as `problem`."""


def labelled(records: Sequence[Record]) -> list[Record]:
    """Return the records with their problems' labels: the sizes, and the other properties that are
    not the same in all records.
    """
    varied = [name for name in VARIED if len({record[name] for record in records}) > 1]
    return [{**record, "problem": label(record, varied)} for record in records]


def label(record: Record, varied: Sequence[str] = ()) -> str:
    """Return the label of a record's problem: its sizes, and those of its other properties that
    `varied` names.
    """
    return Problem(
        record["m"], record["n"], record["k"], **{name: record[name] for name in varied}
    ).label


def failures(records: Sequence[Record]) -> dict[tuple[str, str, str], Record]:
    """Return the kernels, element types and configurations that failed in the confirmation, each
    with its first failed record.
    """
    failed: dict[tuple[str, str, str], Record] = {}
    for record in records:
        if record["process"] and record["status"] in FAILED:
            failed.setdefault(
                (record["kernel"], record["element_type"], record["configuration"]), record
            )
    return failed


def uses_tensor_cores(record: Record) -> bool:
    """Return whether the candidate uses the tensor cores: by its binary, or for a baseline by its
    precision.
    """
    return bool(record["tensor_cores"]) or record["precision"] == "tf32"


def rates(
    record: Record,
    time: tuple[float, float, float],
    ratio: tuple[float, float, float],
    reference_us: float,
    peak_tflops: float,
    per_clock: float | None,
) -> dict[str, Any]:
    """Return columns of tables that follow from a time and a ratio, each with the ends of its
    interval.

    Times are in microseconds, rates in TFLOP/s. `peak_tflops` is the measured float32 peak, and
    `per_clock` the device's float32 operations per clock.
    """
    size = record["m"], record["n"], record["k"]
    row: dict[str, Any] = {
        **dict(zip(("median_us", "low_us", "high_us"), time, strict=True)),
        **{
            name: tflops(*size, us)
            for name, us in zip(("tflops", "tflops_high", "tflops_low"), time, strict=True)
        },
        "reference_us": reference_us,
        "reference_tflops": tflops(*size, reference_us),
        **dict(zip(("ratio", "ratio_low", "ratio_high"), ratio, strict=True)),
        "tflop_per_j": flops(*size) / 1e12 / record["energy_j"] if record["energy_j"] else None,
    }
    if record["element_type"] == "float32":
        clock = record["sm_clock_mhz"]
        row["peak_fraction"] = row["tflops"] / peak_tflops
        row["clock_fraction"] = (
            row["tflops"] * 1e6 / (per_clock * clock) if per_clock and clock else None
        )
    return row


def disturbed(records: Sequence[Record]) -> str:
    """Return the reason for a value that was measured while other processes computed on the device,
    or "".
    """
    kind = "cpu" if records[0]["reference"] in BASELINES["cpu"] else "cuda"
    return disturbance(kind, max(record["other_processes"] or 0 for record in records))


def disturbance(kind: str, others: float, of: str = "") -> str:
    """Return what other processes did on a device meanwhile, in words: how many computed on a GPU,
    or how many cores they used.
    """
    if kind == "cuda":
        return (
            f"timed while {others:.0f} other process(es) computed on the device" if others else ""
        )
    return f"timed while other processes used {others:.1f}{of} cores" if others else ""


def throttled_share(records: Sequence[Record]) -> float | None:
    """Return the share of samples taken while the clock was throttled; None if the device does not
    report it.
    """
    bits_of_samples = [
        bits
        for record in records
        for bits in record["samples_throttle_reasons"] or []
        if bits is not None
    ]
    return (
        sum(bool(bits & THROTTLED) for bits in bits_of_samples) / len(bits_of_samples)
        if bits_of_samples
        else None
    )


def short_gauntlet(record: Record) -> bool:
    """Return whether a candidate was asked fewer than `FEW_PROBLEMS` of the gauntlet's problems,
    because it needs something.
    """
    asked = record["gauntlet_problems"]
    return bool(asked is not None and asked < FEW_PROBLEMS)


def marks(records: Sequence[Record], swept: Record) -> list[str]:
    """Return the marks of a value made from these records: one record of the sweep, or one per
    process of the confirmation.

    `swept` is the record of the sweep, whose sums and gauntlet were checked.

    `throttled`: something held the clock down during a sample. `drifting`: times or ratios rise or
    fall within a process.
    `multimodal`: the 90th percentile of all times is more than 5 % above the 10th. `raced`: early
    stopping ended its measurement.
    `disturbed`: other processes computed on the device meanwhile. `short gauntlet`: see
    `short_gauntlet`. `16-bit sums`: sums of whole numbers were not exact, because parts of K were
    added up in 16 bits. `NaN at alpha 0`: see `verify.is_open`.
    """
    times = [record["samples_us"] for record in records]
    ratios = [np.divide(record["reference_us"], record["samples_us"]) for record in records]
    low, high = np.quantile(np.concatenate(times), (0.1, 0.9))
    present = {
        "throttled": bool(throttled_share(records)),
        "drifting": max(abs(trend(*times)), abs(trend(*ratios))) > DRIFT,
        "multimodal": bool(high > MULTIMODAL * low),
        "disturbed": bool(disturbed(records)),
        "raced": any(record["stop"] == "race" for record in records),
        SHORT: short_gauntlet(swept),
        SUMS_16_BIT: bool(swept["sums_16_bit"]),
        NAN_AT_ALPHA_0: bool(swept["nan_at_alpha_0"]),
    }
    return [mark for mark, holds in present.items() if holds]
