"""The measurements of a dataset as its files have them: whether they are one whole, and what to know of each value made from them."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ladder.core.errors import InputError
from ladder.core.stats import DRIFT, trend
from ladder.core.types import FAILED, flops, tflops
from ladder.model.campaign import BASELINE_JOB, is_baseline
from ladder.model.problem import VARIED, Problem
from ladder.storage.dataset_layout import CONFIRMED
from ladder.storage.samples import read

MULTIMODAL = 1.05
"""The quotient of the 90th to the 10th percentile of the times from which one median tells too little."""
THROTTLED = 0xFC
"""Bits of NVML's clock event reasons that hold the clock down: power cap, slowdowns, sync boost; not idling and not clocks chosen."""
MEND = "Where it is committed, restore the dataset: git checkout. Else run its campaign again"

Record = Mapping[str, Any]
"""A measurement: a row of `samples.SCHEMA`."""


def load(samples: Sequence[Path], environment: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The measurements of a dataset, with those of its confirmation if that is one of the files, and the session of each file.

    Raises `InputError` where `environment` names another device than was measured on, or where files are of another environment, of
    several versions of the measuring code, of another job than their name says, or not those that the confirmation was made from: a
    dataset is one whole.
    """
    records, sessions = [], []
    device, name = environment["fingerprint"].get("device"), environment.get("name")
    if device and name and name != device:
        raise InputError(f"environment.json: name: got {name}; expected {device}, as in its fingerprint. {MEND}")
    for path in samples:
        rows, session = read(path)
        theirs, ours = session.get("fingerprint", {}), environment["fingerprint"]
        differs = sorted(key for key in {*theirs, *ours} if theirs.get(key) != ours.get(key))
        if differs:
            what = ", ".join(f"{key} was {json.dumps(theirs.get(key))}; expected {json.dumps(ours.get(key))}" for key in differs)
            raise InputError(f"{path}: measured in another environment: {what}, as in environment.json")
        _check_name(path, rows, session)
        records += rows
        sessions.append({"job": path.stem} | session)
    _check_jobs(samples, sessions)
    _check_code(samples, sessions)
    return records, sessions


def labels(records: Sequence[Record]) -> list[str]:
    """What the problem of each record is called; what is the same for all is not said of each."""
    varied = [name for name in VARIED if len({record[name] for record in records}) > 1]
    return [Problem(record["m"], record["n"], record["k"], **{name: record[name] for name in varied}).label for record in records]


def _check_name(path: Path, rows: Sequence[Record], session: Mapping[str, Any]) -> None:
    """Raise `InputError` where a file has another job's measurements than its name says."""
    found = {session["job"]} if "job" in session else set()
    if path.stem != CONFIRMED:
        shard = path.stem.split(".")[2:]
        found |= {".".join([BASELINE_JOB if is_baseline(r["kernel"]) else r["kernel"], r["element_type"], *shard]) for r in rows}
    if found - {path.stem}:
        raise InputError(
            f"{path}: has the measurements of {', '.join(sorted(found - {path.stem}))}; expected those of {path.stem}. {MEND}"
        )


def _check_code(samples: Sequence[Path], sessions: Sequence[Mapping[str, Any]]) -> None:
    """Raise `InputError` where not all files were measured by the same code: by that of which the confirmation's was a part."""
    first = sessions[0].get("code") if sessions else None
    for path, session in zip(samples, sessions, strict=True):
        code = session.get("swept", first) if path.stem == CONFIRMED else session.get("code")
        if code != first:
            raise InputError(
                f"{path}: measured by version {code} of the measuring code; expected {first}, as of {samples[0].name}. {MEND}"
            )


def _check_jobs(samples: Sequence[Path], sessions: Sequence[Mapping[str, Any]]) -> None:
    """Raise `InputError` where the files of the sweep are not those that were confirmed."""
    for path, session in zip(samples, sessions, strict=True):
        if path.stem == CONFIRMED:
            here = {other.stem: hashlib.sha256(other.read_bytes()).hexdigest() for other in samples if other.stem != CONFIRMED}
            wrong = [
                f"{job} is {'missing' if job not in here else 'not among them' if job not in session['jobs'] else 'another'}"
                for job in sorted({*here, *session["jobs"]})
                if here.get(job) != session["jobs"].get(job)
            ]
            if wrong:
                raise InputError(f"{path}: confirms other samples than those in samples/: {', '.join(wrong)}. {MEND}")


def refused(records: Sequence[Record]) -> dict[tuple[str, str, str], Record]:
    """The kernels, element types and configurations that the confirmation found to fail, each with the first record that says so."""
    found: dict[tuple[str, str, str], Record] = {}
    for record in records:
        if record["process"] and record["status"] in FAILED:
            found.setdefault((record["kernel"], record["element_type"], record["configuration"]), record)
    return found


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
    told = [bits for record in records for bits in record["samples_throttle_reasons"] or [] if bits is not None]
    return sum(bool(bits & THROTTLED) for bits in told) / len(told) if told else None


def marks(records: Sequence[Record]) -> list[str]:
    """What to know of a value that is made from these records: one of the sweep, or one a process of the confirmation.

    `throttled`: something held the clock down during a sample. `drifting`: times or ratios rise or fall within a process. `multimodal`: the
    90th percentile of all times is more than 5 % above the 10th. `raced`: it left the race early.
    """
    times = [record["samples_us"] for record in records]
    ratios = [np.divide(record["reference_us"], record["samples_us"]) for record in records]
    low, high = np.quantile(np.concatenate(times), (0.1, 0.9))
    found = {
        "throttled": bool(throttled_share(records)),
        "drifting": max(abs(trend(*times)), abs(trend(*ratios))) > DRIFT,
        "multimodal": bool(high > MULTIMODAL * low),
        "raced": any(record["stop"] == "race" for record in records),
    }
    return [mark for mark, holds in found.items() if holds]
