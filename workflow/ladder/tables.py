"""From raw samples to tables: medians, intervals and ratios of every measurement, and the best configuration of every kernel."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ladder.campaign import BASELINES, Problem
from ladder.jobs import write_whole
from ladder.records import read
from ladder.statistics import median_interval, paired_ratio
from ladder.units import InputError, tflops

COPIED = [
    "device", "kernel", "configuration", "element_type", "m", "n", "k", "alpha", "beta", "padding", "distribution", "state",
    "status", "reason", "stop", "reference", "repeats", "frobenius_error", "component_error", "component_bound",
    "sm_clock_mhz", "power_w", "temperature_c", "throttle_reasons",
]  # fmt: skip
GROUP = ["kernel", "element_type", "m", "n", "k", "state"]


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


def summarise(records: Sequence[Mapping[str, Any]], peak_tflops: float) -> pd.DataFrame:
    """A row a measurement; rates and ratios only where the status is `correct`. Times in microseconds, rates in TFLOP/s."""
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
                "peak_fraction": tflops(*size, median) / peak_tflops if record["element_type"] == "float32" else None,
            }
        rows.append(row)
    columns = [*COPIED[:7], "problem", *COPIED[7:], "samples", "median_us", "low_us", "high_us", "tflops", "tflops_low", "tflops_high",
               "reference_us", "reference_tflops", "ratio", "ratio_low", "ratio_high", "peak_fraction"]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def _label(record: Mapping[str, Any]) -> str:
    return Problem(record["m"], record["n"], record["k"]).label


def best(summary: pd.DataFrame) -> pd.DataFrame:
    """The fastest correct configuration of every kernel and problem, with the number of configurations and those tied with it.

    Tied are configurations whose interval of the rate overlaps that of the fastest.
    """
    rows = []
    for _, group in summary.groupby(GROUP, sort=False):
        correct = group[group["tflops"].notna()]
        if correct.empty:
            continue
        winner = correct.loc[correct["tflops"].idxmax()]
        tied = correct[(correct["tflops_high"] >= winner["tflops_low"]) & (correct.index != winner.name)]
        rows.append(winner.to_dict() | {"configurations": len(group), "tied_with": "; ".join(tied["configuration"])})
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
