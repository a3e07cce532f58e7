"""Evaluate measurements, many at once: the labels of their problems, times, marks, disturbances."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from ladder.core import verdicts
from ladder.core.stats import DRIFT, trend
from ladder.core.types import flops
from ladder.model.baselines import BASELINES
from ladder.model.campaign import FEWEST
from ladder.model.problem import Problem
from ladder.storage.samples import THREES, number

MULTIMODAL = 1.05
"""The quotient of the 90th and the 10th percentile of the times above which one median says too
little.
"""
THROTTLED = 0xFC
"""Bits of NVML's clock event reasons that mean throttling: power cap, slowdowns and sync boost, but
not idling or chosen clocks.
"""
HELD_DOWN = 0.97
"""The share of the highest clock below which the counted clock was held down, whatever the driver
reports.
"""
LISTS = ("samples_us", "reference_us", "samples_throttle_reasons")
"""Columns of measurements with a value for each round."""

Record = Mapping[str, Any]
"""A measurement: a row of `samples.SCHEMA`, with the label of its problem as `problem`."""
Candidate = tuple[str, str, str]
"""Kernel, element type and configuration."""


@dataclass(frozen=True)
class Known:
    """What is known of a whole dataset when one of its files is evaluated."""

    peak_tflops: float
    """The measured float32 peak."""
    per_clock: float
    """The device's float32 operations per clock; NaN if they are not known."""
    highest_mhz: float
    """The device's highest clock; NaN if it is not known."""
    within: float
    """The campaign's `confirm.within`."""
    tensor_cores: Collection[Candidate]
    """The candidates that use the tensor cores."""
    failures: Mapping[Candidate, tuple[str, str]]
    """The status and the reason of the candidates that failed in the confirmation."""


def candidate(row: Record) -> Candidate:
    """Return the candidate of a measurement, or of a row of any table with these columns."""
    return row["kernel"], row["element_type"], row["configuration"]


def keys(table: pd.DataFrame, *names: str) -> list[tuple[Any, ...]]:
    """Return the values of columns by rows."""
    return list(zip(*(table[name].tolist() for name in names), strict=True))


def labeled(measured: pa.Table, varied: Sequence[str]) -> pa.Table:
    """Return measurements with their problems' labels: the sizes, and the properties that are
    `varied`, not the same in all files of the dataset.
    """
    names = ("m", "n", "k", *varied)
    values = list(zip(*(measured[name].to_pylist() for name in names), strict=True))
    labels = {
        given: Problem(**dict(zip(names, map(number, given), strict=True))).label
        for given in set(values)
    }
    return measured.append_column("problem", pa.array(map(labels.get, values), pa.string()))


def frame(measured: pa.Table) -> pd.DataFrame:
    """Return measurements as a table whose lists are arrays, empty where there is none."""
    table = measured.to_pandas()
    for name in LISTS:
        lists = [np.empty(0) if each is None else each for each in table[name]]
        table[name] = pd.Series(lists, table.index, object)
    for name in THREES:
        table[name] = table[name].map(number)
    return table.astype(dict.fromkeys(("m", "n", "k"), "int64"))


def stacked(table: pd.DataFrame, *names: str) -> Iterator[tuple[Any, ...]]:
    """Yield the index of rows whose lists have the same lengths, with an array of each list's
    rows.
    """
    lengths = [table[name].str.len() for name in names]
    for places in table.groupby(lengths).indices.values():
        rows = table.iloc[places]
        yield rows.index, *(np.stack(rows[name]) for name in names)


def uses_tensor_cores(table: pd.DataFrame) -> pd.Series:
    """Return whether candidates use the tensor cores: by their binaries, or for a baseline by its
    precision.
    """
    return table["tensor_cores"].eq(True) | table["precision"].eq("tf32")


def disturbed(reference: str, others: float) -> str:
    """Return the reason for a value that was measured while other processes computed on the device,
    or "".
    """
    return verdicts.disturbance("cpu" if reference in BASELINES["cpu"] else "cuda", others)


def throttled_share(reasons: ArrayLike) -> Any:
    """Return the share of samples taken while the clock was throttled; NaN if the device does not
    report it.
    """
    bits: NDArray[np.float64] = np.asarray(reasons, dtype=float)
    known = ~np.isnan(bits)
    throttled = np.where(known, bits, 0).astype(int) & THROTTLED != 0
    with np.errstate(invalid="ignore"):
        return throttled.sum(-1) / known.sum(-1)


def unsteadiness(times: Sequence[Any], beside: Sequence[Any]) -> dict[str, Any]:
    """Return the columns `drifting` and `multimodal` of times, and the reference's beside them, in
    one process or several. The last dimension of each array is the rounds.
    """
    ratios = [np.divide(reference, us) for reference, us in zip(beside, times, strict=True)]
    low, high = np.quantile(np.concatenate(times, axis=-1), (0.1, 0.9), axis=-1)
    drift = np.maximum(abs(trend(*times)), abs(trend(*ratios)))
    return {"drifting": drift > DRIFT, "multimodal": high > MULTIMODAL * low}


def evaluated(table: pd.DataFrame, known: Known) -> pd.DataFrame:
    """Return rows of `summary` or `best` with the columns that follow from others: rates and marks.
    Rows without a time have none of them.

    `throttled`: the driver reported that something held the clock down during a sample, or the
    median clock was below `HELD_DOWN` of the highest. `gaps`: the device was idle now and then in
    a sustained sample. `drifting`: times or ratios rise or fall within a process.
    `multimodal`: the 90th percentile of all times is more than 5 % above the 10th. `disturbed`:
    other processes computed on the device meanwhile. `raced`: early stopping ended its measurement.
    `short gauntlet`: the candidate was asked fewer than `verdicts.FEW_PROBLEMS` of the gauntlet's
    problems, because it needs something. `16-bit sums`: sums of whole numbers were not exact, because parts
    of K were added up in 16 bits. `NaN at alpha 0`: see `verify.is_open`. `few`: it rests on fewer
    processes than `FEWEST`.
    """
    work: Any = flops(table["m"], table["n"], table["k"], table["batch"])
    times = {
        "tflops": "median_us",
        "tflops_low": "high_us",
        "tflops_high": "low_us",
        "reference_tflops": "reference_us",
    }
    rates = {name: work / table[us] * 1e-6 for name, us in times.items()}
    timed, float32 = table["median_us"].notna(), table["element_type"] == "float32"
    energy, clock = table["energy_j"], table["sm_clock_mhz"]
    marks = {
        "throttled": (table["throttled_share"] > 0) | (clock < HELD_DOWN * known.highest_mhz),
        "drifting": table["drifting"].eq(True),
        "multimodal": table["multimodal"].eq(True),
        "disturbed": table["other_processes"] > 0,
        "raced": table["stop"] == "race",
        "gaps": table["stop"].astype(str).str.contains("gaps"),
        "short gauntlet": table["gauntlet_problems"] < verdicts.FEW_PROBLEMS,
        "16-bit sums": table["sums_16_bit"].eq(True),
        "NaN at alpha 0": table["nan_at_alpha_0"].eq(True),
        "few": table["processes"] < FEWEST if "processes" in table else ~timed,
    }
    rows = np.column_stack(list(marks.values())).tolist()
    texts = [
        "; ".join(mark for mark, holds in zip(marks, row, strict=True) if holds) for row in rows
    ]
    return table.assign(
        **rates,
        tflop_per_j=(work / 1e12 / energy).where(timed & (energy != 0)),
        peak_fraction=(rates["tflops"] / known.peak_tflops).where(float32),
        clock_fraction=(rates["tflops"] * 1e6 / (known.per_clock * clock)).where(
            float32 & (clock != 0)
        ),
        marks=pd.Series(texts, table.index, str).where(timed),
    )
