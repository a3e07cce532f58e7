"""Evaluate single measurements: the label of the problem, marks, and disturbances."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ladder.core.stats import DRIFT, trend
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
FEW_PROBLEMS = 20
"""A verdict from fewer problems of the gauntlet says little."""

Record = Mapping[str, Any]
"""A measurement: a row of `samples.SCHEMA`, with the label of its problem as `problem`."""
Candidate = tuple[str, str, str]
"""Kernel, element type and configuration."""


def candidate(row: Record) -> Candidate:
    """Return the candidate of a measurement, or of a row of any table with these columns."""
    return row["kernel"], row["element_type"], row["configuration"]


def labeled(records: Sequence[Record]) -> list[Record]:
    """Return the records with their problems' labels: the sizes, and the other properties that are
    not the same in all records.
    """
    varied = [name for name in VARIED if len({record[name] for record in records}) > 1]

    def label(record: Record) -> str:
        operands = {name: record[name] for name in varied}
        return Problem(record["m"], record["n"], record["k"], **operands).label

    return [{**record, "problem": label(record)} for record in records]


def uses_tensor_cores(record: Record) -> bool:
    """Return whether the candidate uses the tensor cores: by its binary, or for a baseline by its
    precision.
    """
    return bool(record["tensor_cores"]) or record["precision"] == "tf32"


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
    if not others:
        return ""
    if kind == "cuda":
        return f"timed while {others:.0f} other process(es) computed on the device"
    return f"timed while other processes used {others:.1f}{of} cores"


def throttled_share(records: Sequence[Record]) -> float | None:
    """Return the share of samples taken while the clock was throttled; None if the device does not
    report it.
    """
    throttled = [
        bool(bits & THROTTLED)
        for record in records
        for bits in record["samples_throttle_reasons"] or []
        if bits is not None
    ]
    return sum(throttled) / len(throttled) if throttled else None


def marks(records: Sequence[Record], swept: Record) -> list[str]:
    """Return the marks of a value made from these records: one record of the sweep, or one per
    process of the confirmation.

    `swept` is the record of the sweep, whose sums and gauntlet were checked.

    `throttled`: something held the clock down during a sample. `drifting`: times or ratios rise or
    fall within a process.
    `multimodal`: the 90th percentile of all times is more than 5 % above the 10th. `raced`: early
    stopping ended its measurement.
    `disturbed`: other processes computed on the device meanwhile. `short gauntlet`: the candidate
    was asked fewer than `FEW_PROBLEMS` of the gauntlet's problems, because it needs something.
    `16-bit sums`: sums of whole numbers were not exact, because parts of K were added up in 16
    bits. `NaN at alpha 0`: see `verify.is_open`.
    """
    times = [record["samples_us"] for record in records]
    ratios = [np.divide(record["reference_us"], record["samples_us"]) for record in records]
    low, high = np.quantile(np.concatenate(times), (0.1, 0.9))
    asked = swept["gauntlet_problems"]
    present = {
        "throttled": throttled_share(records),
        "drifting": max(abs(trend(*times)), abs(trend(*ratios))) > DRIFT,
        "multimodal": high > MULTIMODAL * low,
        "disturbed": disturbed(records),
        "raced": any(record["stop"] == "race" for record in records),
        "short gauntlet": asked is not None and asked < FEW_PROBLEMS,
        "16-bit sums": swept["sums_16_bit"],
        "NaN at alpha 0": swept["nan_at_alpha_0"],
    }
    return [mark for mark, holds in present.items() if holds]
