"""From raw samples to tables: medians, intervals and ratios of every measurement, and the best configuration of every kernel."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ladder.campaign import BASELINES, Problem
from ladder.jobs import write_whole
from ladder.records import read
from ladder.statistics import median_interval, paired_ratio, tied
from ladder.units import InputError, flops, tflops

COPIED = [
    "device", "kernel", "configuration", "element_type", "m", "n", "k", "alpha", "beta", "padding", "distribution", "state",
    "status", "reason", "stop", "race", "reference", "repeats", "frobenius_error", "component_error", "component_bound",
    "sm_clock_mhz", "memory_clock_mhz", "power_w", "temperature_c", "throttle_reasons", "energy_j",
    "uuid",
]  # fmt: skip
GROUP = ["kernel", "element_type", "m", "n", "k", "state"]
THROTTLED = 0xFC
"""Bits of NVML's clock event reasons that hold the clock down: power cap, slowdowns, sync boost; not idling and not clocks chosen."""
FEW_LANES = ("6.0", "7.0", "7.2", "7.5", "8.0")
"""Compute capabilities with 64 float32 lanes an SM; other GPUs since Maxwell have 128 (CUDA Programming Guide, "Arithmetic Instructions")."""


def load(samples: Sequence[Path], environment: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The measurements of a dataset and the session of each file.

    Raises `InputError` where files were measured in an environment other than `environment`: a dataset has one.
    """
    records, sessions = [], []
    for path in samples:
        rows, session = read(path)
        theirs, ours = session.get("fingerprint", {}), environment["fingerprint"]
        differs = sorted(key for key in {*theirs, *ours} if theirs.get(key) != ours.get(key))
        if differs:
            what = ", ".join(f"{key} was {json.dumps(theirs.get(key))}; expected {json.dumps(ours.get(key))}" for key in differs)
            raise InputError(f"{path}: measured in another environment: {what}, as in environment.json")
        records += rows
        sessions.append({"job": path.stem} | session)
    return records, sessions


def flop_per_clock(environment: Mapping[str, Any]) -> float | None:
    """What a GPU can do at most in a clock, 2 * lanes * SMs float32 operations; None for a CPU."""
    if environment["kind"] != "cuda":
        return None
    attributes = environment["attributes"]
    lanes = 64 if attributes["compute_capability"] in FEW_LANES else 128
    return 2.0 * lanes * float(attributes["sm_count"])


def summarise(records: Sequence[Mapping[str, Any]], peak_tflops: float, per_clock: float | None = None) -> pd.DataFrame:
    """A row a measurement; rates and ratios only where the status is `correct`. Times in microseconds, rates in TFLOP/s.

    `peak_tflops` is that of float32, measured, and `per_clock` the float32 operations of a clock.
    """
    rows = []
    for record in records:
        row = {name: record[name] for name in COPIED} | {"problem": _label(record), "samples": len(record["samples_us"] or [])}
        if record.get("other_processes"):  # marked, and measured all the same
            row["reason"] = f"timed while {record['other_processes']} other process(es) computed on the device"
        if record["status"] == "correct" and record["samples_us"]:
            median, low, high = median_interval(record["samples_us"])
            size = record["m"], record["n"], record["k"]
            reference, _, _ = median_interval(record["reference_us"])
            ratio, ratio_low, ratio_high = paired_ratio(record["reference_us"], record["samples_us"])
            row |= {
                "median_us": median,
                "low_us": low,
                "high_us": high,
                "tflops": tflops(*size, median),
                "tflops_low": tflops(*size, high),
                "tflops_high": tflops(*size, low),
                "reference_us": reference,
                "reference_tflops": tflops(*size, reference),
                "ratio": ratio,
                "ratio_low": ratio_low,
                "ratio_high": ratio_high,
                "tflop_per_j": flops(*size) / 1e12 / record["energy_j"] if record["energy_j"] else None,
                "throttled_share": _throttled_share(record["samples_throttle_reasons"]),
            }
            if record["element_type"] == "float32":
                clock = record["sm_clock_mhz"]
                row["peak_fraction"] = row["tflops"] / peak_tflops
                row["clock_fraction"] = row["tflops"] * 1e6 / (per_clock * clock) if per_clock and clock else None
        rows.append(row)
    columns = [*COPIED[:7], "problem", *COPIED[7:], "samples", "median_us", "low_us", "high_us", "tflops", "tflops_low", "tflops_high",
               "reference_us", "reference_tflops", "ratio", "ratio_low", "ratio_high", "peak_fraction", "clock_fraction", "tflop_per_j",
               "throttled_share"]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def _throttled_share(reasons: Sequence[int | None] | None) -> float | None:
    """The share of samples taken while something held the clock down; None where the device does not tell."""
    told = [bits for bits in reasons or [] if bits is not None]
    return sum(bool(bits & THROTTLED) for bits in told) / len(told) if told else None


def _label(record: Mapping[str, Any]) -> str:
    return Problem(record["m"], record["n"], record["k"]).label


def best(summary: pd.DataFrame) -> pd.DataFrame:
    """The fastest correct configuration of every kernel and problem, with the number of configurations and those tied with it.

    Tied are configurations whose interval of the rate overlaps that of the fastest. What lost the race is neither best nor tied: it has
    fewer samples, and its ratio to the reference is clearly lower.
    """
    rows = []
    for _, group in summary.groupby(GROUP, sort=False):
        correct = group[group["tflops"].notna() & (group["stop"] != "race")]
        if correct.empty:
            continue
        first = int(correct["tflops"].argmax())
        ties = correct["configuration"][tied(correct["tflops_low"], correct["tflops_high"], first)]
        rows.append(correct.iloc[first].to_dict() | {"configurations": len(group), "tied_with": "; ".join(ties)})
    return pd.DataFrame(rows, columns=[*summary.columns, "configurations", "tied_with"])


def costs(sessions: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """What each measure job's last run took: wall time, the share of it in which the device was executing, a child's peak memory."""
    columns = ("job", "measured", "wall_seconds", "busy_seconds", "children", "peak_memory_bytes", "commit", "dirty")
    table = pd.DataFrame([{column: session.get(column) for column in columns} for session in sessions])
    table["busy_share"] = table["busy_seconds"] / table["wall_seconds"]
    return table


def is_baseline(kernel: str) -> bool:
    """Whether a name in the column `kernel` is a vendor's call."""
    return any(kernel in names for names in BASELINES.values())


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a table with six significant digits, the same bytes for the same data."""
    write_whole(path, table.to_csv(index=False, float_format="%.6g", lineterminator="\n").encode())


def read_csv(path: Path) -> pd.DataFrame:
    """A table that `write_csv` wrote."""
    return pd.read_csv(path, keep_default_na=False, na_values=[""])
