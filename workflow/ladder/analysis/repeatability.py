"""How far results repeat: several published datasets of one model of device, of the same machine and of others."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from ladder.analysis.dataset import Dataset
from ladder.analysis.finalists import Finalists
from ladder.core.errors import InputError
from ladder.core.files import write_whole
from ladder.core.stats import CONFIDENCE, between_processes, student_t
from ladder.storage import published_index
from ladder.storage.csv_files import read_csv, to_csv
from ladder.storage.dataset_layout import CONFIRMED, files

Limited = tuple[str, str, str, bool]
"""Element type, problem, state, and whether it uses the tensor cores."""
LIMIT = 2.8
"""Times the standard deviation: what two results differ by at most with a probability of 95 %, 1.96 * sqrt(2) (ISO 5725-6). Of a standard
deviation among few machines it is Student's t of one degree of freedom fewer than machines in place of 1.96."""
PROBLEM = ["element_type", "problem", "state", "tensor_cores"]
"""What a limit is of. What uses the tensor cores draws another power, and differs among machines by another amount."""
CANDIDATE = ["kernel", "configuration", "binary", *PROBLEM]
"""What two runs must both have: the same code, on the same problem."""
COLUMNS = [
    *PROBLEM, "contestants", "machines", "runs",
    "repeat_pairs", "repeat_sd", "repeat_limit", "repeat_time_limit",
    "reproduce_pairs", "reproduce_sd", "reproduce_limit", "reproduce_time_limit",
]  # fmt: skip


@dataclass(frozen=True)
class Limit:
    """How far logarithms of two runs differ at most."""

    half: float
    """With a probability of 95 %."""
    degrees: int = 0
    """Of freedom of the standard deviation that it is a multiple of; 0 where that is taken for known."""

    def at(self, confidence: float) -> float:
        """The same with another probability."""
        if self.degrees:
            return self.half * student_t(self.degrees, confidence) / student_t(self.degrees)
        normal = NormalDist()
        return self.half * normal.inv_cdf((1 + confidence) / 2) / normal.inv_cdf((1 + CONFIDENCE) / 2)


@dataclass(frozen=True)
class Run:
    """A published dataset with a confirmation: where it was measured, and its ratios to the reference."""

    name: str
    device: str
    """The model: the slug of the device."""
    machine: str
    """The UUID of the device that was measured on."""
    made_from: Mapping[str, str]
    """What `made_from` says of it."""
    ratios: pd.DataFrame
    """A row a finalist, problem and state: `CANDIDATE`, the logarithms of the ratio, with half of its between-process interval, and of
    the time."""
    pairs: pd.DataFrame
    """Who is faster than whom, the table of that name."""


def made_from(folder: Path, environment: Mapping[str, Any]) -> dict[str, str]:
    """What exactly is said of a published dataset by its confirmation: by which commit it was measured, and the confirmation's sha256."""
    confirmation = (folder / f"{CONFIRMED}.parquet").read_bytes()
    return {"commit": environment["project"]["commit"], "confirmed_sha256": hashlib.sha256(confirmation).hexdigest()}


def read_run(folder: Path, name: str = "") -> Run:
    """A published dataset's run. Raises `InputError` where it has no confirmation, or one that was measured on several devices."""
    path = folder / f"{CONFIRMED}.parquet"
    if path not in files(folder):
        raise InputError(
            f"{path}: missing; expected a dataset whose campaign has not left the confirmation out (confirm.processes)"
        )
    dataset = Dataset.open(folder)
    machines = {record["uuid"] for record in dataset.records if record["process"]}
    if len(machines) != 1:
        raise InputError(f"{path}: measured on {len(machines)} devices; expected one")
    source = made_from(folder, dataset.environment)
    measured = ratios(dataset.finalists)
    return Run(name or folder.name, dataset.environment["device"], machines.pop(), source, measured, dataset.pairs)


def ratios(finalists: Finalists) -> pd.DataFrame:
    """A row a finalist, problem and state: its log ratio to the reference, half the width of the interval between processes, its log time.

    The reference's own, which is 1 whatever happens, is left out.
    """
    rows = []
    for key, group in finalists.groups.items():
        for name in (name for name, records in group.items() if name[0] != next(iter(records.values()))["reference"]):
            ratio = finalists.ratio(key, name)
            time = between_processes([record["samples_us"] for record in group[name].values()])[0]
            binary = next(iter(group[name].values()))["binary_sha256"] or ""  # a baseline has none
            logs = math.log(ratio["ratio"]), math.log(ratio["high"] / ratio["ratio"]), math.log(time)
            values = [*name, binary, *key, finalists.on_tensor_cores(key, name), *logs]
            rows.append(dict(zip([*CANDIDATE, "log_ratio", "half", "log_us"], values, strict=True)))
    return pd.DataFrame(rows, columns=[*CANDIDATE, "log_ratio", "half", "log_us"])


def differences(runs: Sequence[Run]) -> pd.DataFrame:
    """What every two runs differ by in the finalists that both have: of the log ratios `difference`, and `allowed` by their intervals; of
    the log times `time_difference`.

    `machines` is the set of the two runs' machines, of one where it is the same.
    """
    tables = [pd.DataFrame(columns=[*CANDIDATE, "difference", "time_difference", "allowed", "machines", "same"])]
    for run, other in combinations(runs, 2):
        both = run.ratios.merge(other.ratios, on=CANDIDATE, suffixes=("", "_other"))
        machines = frozenset({run.machine, other.machine})
        tables.append(
            both[CANDIDATE].assign(
                difference=both["log_ratio_other"] - both["log_ratio"],
                time_difference=both["log_us_other"] - both["log_us"],
                allowed=np.hypot(both["half"], both["half_other"]),
                machines=[machines] * len(both),
                same=len(machines) == 1,
            )
        )
    return pd.concat(tables[1:] or tables, ignore_index=True)


def _sd(differences: pd.Series) -> float:
    """The standard deviation of one result, from the differences of two: half of their mean square is its square."""
    return float(np.sqrt(np.mean(np.square(differences.astype(float))) / 2)) if len(differences) else math.nan


def table(runs: Sequence[Run]) -> pd.DataFrame:
    """A row a problem and state, on tensor cores or not: how far log ratios of one configuration repeat, pooled over the finalists.

    `repeat_sd` is their standard deviation among runs on the same machine, `reproduce_sd` among machines, and the limits are what two results
    differ by at most with a probability of 95 % (ISO 5725-6), the `time_limit` of log times. They rest on `machines` and `runs`, however
    many finalists there are: what is a machine's own moves them all together.
    """
    rows, differing = [], differences(runs)
    measured = [set(run.ratios[PROBLEM].itertuples(index=False, name=None)) for run in runs]
    for key, group in differing.groupby(PROBLEM, sort=False):
        took_part = [run for run, problems in zip(runs, measured, strict=True) if key in problems]
        row: dict[str, Any] = dict(zip(PROBLEM, key, strict=True)) | {
            "contestants": len(group[CANDIDATE].drop_duplicates()),
            "machines": len({run.machine for run in took_part}),
            "runs": len(took_part),
        }
        for name, pairs in (("repeat", group[group["same"].astype(bool)]), ("reproduce", group[~group["same"].astype(bool)])):
            row |= {f"{name}_pairs": len(pairs), f"{name}_sd": _sd(pairs["difference"])}
            times = LIMIT if name == "repeat" or row["machines"] < 2 else math.sqrt(2) * student_t(row["machines"] - 1)
            row[f"{name}_limit"] = times * row[f"{name}_sd"]
            row[f"{name}_time_limit"] = times * _sd(pairs["time_difference"])
        rows.append(row)
    return pd.DataFrame(rows, columns=COLUMNS)


def limited(row: Mapping[str, Any]) -> Limited:
    """Of which limit a row of `best`, `pairs` or `table` is."""
    return row["element_type"], str(row["problem"]), row["state"], str(row.get("tensor_cores")) == "True"


def limits(published: Path, first: Mapping[str, Any], other: Mapping[str, Any], of: str = "") -> dict[Limited, Limit]:
    """How far logarithms of two runs differ at most, by what they are of, given what `environment.json` says of both.

    Of ratios to the reference, or, with "time_", of times; by the table in the folder of published datasets, on one machine or on several of
    the model. Of two models nothing is known.
    """
    path = published / f"repeat-{other['device']}.csv"
    if first["device"] != other["device"] or not path.exists():
        return {}
    machine, another = (it.get("attributes", {}).get("uuid") for it in (first, other))
    return of_table(read_csv(path), bool(machine) and machine == another, of)


def of_table(table: pd.DataFrame, same: bool, of: str = "") -> dict[Limited, Limit]:
    """The limits of a `table`, on one machine or on several, by what they are of."""
    column = f"{'repeat' if same else 'reproduce'}_{of}limit"
    rows = table.dropna(subset=[column]).to_dict("records")
    return {limited(row): Limit(row[column], 0 if same else row["machines"] - 1) for row in rows}


def _covered(within: pd.Series) -> dict[str, Any]:
    """How many differences there are, and the share that is within what is allowed."""
    return {"pairs": len(within), "covered": float(within.mean()) if len(within) else None}


def _least(within: Mapping[str, pd.Series]) -> dict[str, Any]:
    """Of what the smallest share is covered, and that share; nothing where there are no differences."""
    shares = {name: float(covered.mean()) for name, covered in within.items() if len(covered)}
    if not shares:
        return {}
    name = min(shares, key=lambda name: shares[name])
    return {"least": {"of": name, "covered": shares[name]}}


def _within(pairs: pd.DataFrame, limits: pd.DataFrame, column: str) -> pd.Series:
    """Which differences keep to the limits of their problem, of those that have one."""
    both = pairs.merge(limits[[*PROBLEM, column]].dropna(), on=PROBLEM)
    return abs(both["difference"]) <= both[column]


def claims(runs: Sequence[Run]) -> dict[str, Any]:
    """What can be held against the intervals that are stated, from the runs of one model.

    `same_machine`: differences between runs on one machine, and the share within both between-process intervals together. `other_machine`:
    those between machines, and the share within the limit of `table`, which was made from them too; `held_out` is the same where the
    limit was made without the machine in question, which takes three, and `same_held_out` that of runs on one machine, within the limit
    that runs on others made. `least` is the share of the problem, or of the machine held out, of which it is the smallest. `twins` and
    `null`: pairs of the same binary, and of the reference with itself, the share that is called different, and that whose interval leaves
    out 1, by however little.
    """
    differing = differences(runs)
    same, other = differing[differing["same"].astype(bool)], differing[~differing["same"].astype(bool)]
    held_out: dict[str, pd.Series] = {}
    same_held_out: dict[str, pd.Series] = {}
    for machine in sorted({run.machine for run in runs}):
        limits = table([run for run in runs if run.machine != machine])
        for pairs, column, within in ((other, "reproduce_limit", held_out), (same, "repeat_limit", same_held_out)):
            involved = pairs[np.array([machine in machines for machines in pairs["machines"]], dtype=bool)]
            within[machine] = _within(involved, limits, column)
    kept = abs(same["difference"]) <= same["allowed"]
    return {
        "device": runs[0].device,
        "runs": [{"dataset": run.name, "machine": run.machine, **run.made_from} for run in runs],
        "machines": len({run.machine for run in runs}),
        "same_machine": _covered(kept) | _least({str(problem): group for problem, group in kept.groupby(same["problem"])}),
        "same_held_out": _covered(pd.concat(list(same_held_out.values()))),
        "other_machine": _covered(_within(other, table(runs), "reproduce_limit")),
        "held_out": _covered(pd.concat(list(held_out.values()))) | _least(held_out),
        **{kind: _called_different(runs, kind) for kind in ("twins", "null")},
    }


def _called_different(runs: Sequence[Run], kind: str) -> dict[str, Any]:
    """Of pairs that only chance can tell apart: how many there are, and the share that is called faster or slower, and would be without
    `verdicts.MARGIN`.
    """
    pairs = pd.concat([run.pairs.loc[run.pairs["pair"] == kind, ["verdict", "low", "high"]] for run in runs])
    called, apart = pairs["verdict"].isin(["faster", "slower"]), (pairs["low"] > 1) | (pairs["high"] < 1)
    return {
        "pairs": len(pairs),
        "called_different": float(called.mean()) if len(pairs) else None,
        "interval_leaves_out_1": float(apart.mean()) if len(pairs) else None,
    }


def contents(published: Path) -> dict[Path, bytes]:
    """What `repeat-<device>.csv`, the table, and `.json`, the claims, hold for every model with several published runs."""
    by_device: dict[str, list[Run]] = {}
    for name, folder in published_index.runs(published).items():
        if (folder / f"{CONFIRMED}.parquet").exists():
            run = read_run(folder, name)
            by_device.setdefault(run.device, []).append(run)
    files = {}
    for device, runs in by_device.items():
        if len(runs) > 1:
            stem = published / f"repeat-{device}"
            files[stem.with_suffix(".csv")] = to_csv(table(runs))
            files[stem.with_suffix(".json")] = (json.dumps(claims(runs), indent=1) + "\n").encode()
    return files


def write(published: Path) -> list[Path]:
    """Write these files, and return them."""
    made = contents(published)
    for path, content in made.items():
        write_whole(path, content)
    return list(made)
