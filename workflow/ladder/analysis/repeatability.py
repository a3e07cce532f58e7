"""Compute how far results repeat, from several published datasets of one device model, on the same
machine and on others.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from ladder.analysis.dataset import Dataset
from ladder.analysis.finalists import Finalists
from ladder.core import verdicts
from ladder.core.errors import InputError
from ladder.core.files import write_whole
from ladder.core.stats import CONFIDENCE, between_processes, half_of_difference, student_t
from ladder.model.baselines import BASELINES
from ladder.storage import published_index
from ladder.storage.csv_files import read_csv, to_csv
from ladder.storage.dataset_layout import CONFIRMED, files

LimitKey = tuple[str, str, str, bool, bool]
"""Element type, problem, state, whether the tensor cores are used, and whether it is a baseline
other than the reference.
"""
LIMIT = 2.8
"""The most standard deviations by which two results differ with a probability of 95 %: 1.96 *
sqrt(2) (ISO 5725-6).

If the standard deviation is among few machines, Student's t replaces 1.96, with one degree of
freedom fewer than machines.
"""
FEWEST_MACHINES = 3
"""Two machines say too little of a third: Student's t of one degree of freedom is 12.7."""
PROBLEM = ["element_type", "problem", "state", "tensor_cores", "other_baseline"]
"""What a limit applies to.

Kernels on the tensor cores draw different power, and differ among machines by a different amount. A
baseline chooses its algorithm, and may choose another one on another machine of the model. The
reference is in every ratio: it counts as the kernels do.
"""
OTHER_BASELINES = {name for _, *names in BASELINES.values() for name in names}
CANDIDATE = ["kernel", "configuration", "binary", *PROBLEM]
"""What two runs must have in common to be compared: the same code on the same problem."""
RATIOS = [*CANDIDATE, "log_ratio", "half", "processes", "log_us"]
COLUMNS = [
    *PROBLEM,
    "candidates",
    "machines",
    "runs",
    "repeat_pairs",
    "repeat_sd",
    "repeat_limit",
    "repeat_time_limit",
    "reproduce_pairs",
    "reproduce_sd",
    "reproduce_limit",
    "reproduce_time_limit",
]


@dataclass(frozen=True)
class Limit:
    """The most by which the logarithms of two runs differ."""

    half: float
    """The limit for a probability of 95 %."""
    degrees: int = 0
    """The degrees of freedom of the standard deviation behind the limit; 0 if that is taken as
    known.
    """

    def at(self, confidence: float) -> float:
        """Return the limit for another probability."""
        if self.degrees:
            return self.half * student_t(self.degrees, confidence) / student_t(self.degrees)
        normal = NormalDist()
        return (
            self.half * normal.inv_cdf((1 + confidence) / 2) / normal.inv_cdf((1 + CONFIDENCE) / 2)
        )


@dataclass(frozen=True)
class Run:
    """A published dataset with a confirmation: where it was measured, and its ratios to the
    reference.
    """

    name: str
    device: str
    """The device model's slug."""
    machine: str
    """The UUID of the measured device."""
    made_from: Mapping[str, str]
    """The origin of the run, as `made_from` returns it."""
    ratios: pd.DataFrame
    """A row per finalist, problem and state with the columns `RATIOS`; see `ratios`."""
    pairs: pd.DataFrame
    """The table `pairs` of the dataset."""


def made_from(folder: Path, environment: Mapping[str, Any]) -> dict[str, str]:
    """Return what identifies a published dataset: the commit that measured it and the SHA-256 of
    its confirmation.
    """
    confirmation = (folder / f"{CONFIRMED}.parquet").read_bytes()
    return {
        "commit": environment["project"]["commit"],
        "confirmed_sha256": hashlib.sha256(confirmation).hexdigest(),
    }


def run_of(dataset: Dataset, name: str = "") -> Run:
    """Return the run of a dataset, without what a busy machine has marked: that says nothing of
    runs of the same code.

    Raises `InputError` if it has no confirmation, or one from several devices.
    """
    folder = dataset.folder
    if folder / f"{CONFIRMED}.parquet" not in files(folder):
        raise InputError(
            f"{folder / CONFIRMED}.parquet: missing; expected a dataset whose campaign has not "
            "left the confirmation out "
            "(confirm.processes)"
        )
    source, measured = made_from(folder, dataset.environment), ratios(dataset.finalists)
    marked, where = (
        dataset.best[dataset.best["marks"].map(lambda cell: bool(verdicts.busy(cell)))],
        ["kernel", *PROBLEM[:3]],
    )
    measured = measured[~measured.set_index(where).index.isin(marked.set_index(where).index)]
    return Run(
        name or folder.name,
        dataset.environment["device"],
        machine(dataset),
        source,
        measured,
        dataset.pairs,
    )


def machine(dataset: Dataset) -> str:
    """Return the UUID of the device that the confirmation was measured on. Raises `InputError`
    unless it is one device.
    """
    machines = {record["uuid"] for record in dataset.records if record["process"]}
    if len(machines) != 1:
        raise InputError(
            f"{dataset.folder / CONFIRMED}.parquet: measured on {len(machines)} devices; expected one"
        )
    return str(machines.pop())


def ratios(finalists: Finalists) -> pd.DataFrame:
    """Return a row per finalist, problem and state, without the reference, whose ratio to itself is
    always 1.

    `log_ratio` is the logarithm of its ratio to the reference, `half` half the width of the
    between-process interval of that logarithm, from `processes`, and `log_us` the logarithm of its
    time in microseconds.
    """
    rows = []
    for key, group in finalists.groups.items():
        for name, of_processes in group.items():
            records = list(of_processes.values())
            if name[0] == records[0]["reference"]:
                continue
            ratio = finalists.ratio(key, name)
            time = between_processes([record["samples_us"] for record in records])[0]
            binary = records[0]["binary_sha256"] or ""  # a baseline has none
            numbers = (
                math.log(ratio["ratio"]),
                math.log(ratio["high"] / ratio["ratio"]),
                len(records),
                math.log(time),
            )
            values = [
                *name,
                binary,
                *key,
                finalists.on_tensor_cores(key, name),
                name[0] in OTHER_BASELINES,
                *numbers,
            ]
            rows.append(dict(zip(RATIOS, values, strict=True)))
    return pd.DataFrame(rows, columns=RATIOS)


def differences(runs: Sequence[Run]) -> pd.DataFrame:
    """Return the differences between every two runs, for the finalists that both have.

    `difference` is of the log ratios, and `time_difference` of the log times. `machines` is the set
    of the machines of the two runs, with one element if it is the same machine (`same`), and `runs`
    names the two. `within` says, on the same machine, whether Welch's interval of the difference
    has 0 in it.
    """
    # one merge for all pairs of runs, as most of the time of a short merge does not depend on its
    # length
    tables = [run.ratios.assign(run=number) for number, run in enumerate(runs)]
    measured = pd.concat(tables or [pd.DataFrame(columns=[*RATIOS, "run"])])
    both = measured.merge(measured, on=CANDIDATE, suffixes=("", "_other")).query("run < run_other")
    both = both.sort_values(["run", "run_other"], kind="stable", ignore_index=True)
    pairs = [
        (runs[run], runs[other]) for run, other in zip(both["run"], both["run_other"], strict=True)
    ]
    same = np.array([run.machine == other.machine for run, other in pairs], dtype=bool)
    within = pd.Series(None, both.index, dtype=object)
    within[same] = [
        abs(row["log_ratio_other"] - row["log_ratio"])
        <= half_of_difference(
            (row["half"], row["processes"] - 1), (row["half_other"], row["processes_other"] - 1)
        )
        for row in both[same].to_dict("records")
    ]
    return both[CANDIDATE].assign(
        difference=both["log_ratio_other"] - both["log_ratio"],
        time_difference=both["log_us_other"] - both["log_us"],
        within=within,
        machines=[frozenset({run.machine, other.machine}) for run, other in pairs],
        same=same,
        runs=[f"{run.name} and {other.name}" for run, other in pairs],
    )


def _sd(differences: pd.Series) -> float:
    """Return the standard deviation of one result from the differences of two: its square is half
    their mean square.
    """
    return (
        float(np.sqrt(np.mean(np.square(differences.astype(float))) / 2))
        if len(differences)
        else math.nan
    )


def table(runs: Sequence[Run]) -> pd.DataFrame:
    """Return a row for each `PROBLEM`: how far log ratios of one configuration repeat, pooled over
    the finalists.

    `repeat_sd` is their standard deviation among runs on the same machine, `reproduce_sd` among
    machines. With a probability of 95 %, two results differ by at most `repeat_limit` or
    `reproduce_limit` (ISO 5725-6); the columns with `time_limit` are for log times. The numbers
    rest on `machines`, `runs` and pairs of runs, however many finalists there are: a machine's
    peculiarity moves all its finalists together. Fewer than `FEWEST_MACHINES` machines have no
    `reproduce_limit`.
    """
    return _table(runs, differences(runs))


def _table(runs: Sequence[Run], differing: pd.DataFrame) -> pd.DataFrame:
    """Return the `table` of runs, given their differences."""
    rows = []
    measured = [set(run.ratios[PROBLEM].itertuples(index=False, name=None)) for run in runs]
    for key, group in differing.groupby(PROBLEM, sort=False):
        took_part = [run for run, problems in zip(runs, measured, strict=True) if key in problems]
        row: dict[str, Any] = dict(zip(PROBLEM, key, strict=True)) | {
            "candidates": len(group[CANDIDATE].drop_duplicates()),
            "machines": len({run.machine for run in took_part}),
            "runs": len(took_part),
        }
        for name, pairs in (("repeat", group[group["same"]]), ("reproduce", group[~group["same"]])):
            row |= {
                f"{name}_pairs": pairs["runs"].nunique(),
                f"{name}_sd": _sd(pairs["difference"]),
            }
            few = row["machines"] < FEWEST_MACHINES
            times = (
                LIMIT
                if name == "repeat"
                else math.nan
                if few
                else math.sqrt(2) * student_t(row["machines"] - 1)
            )
            row[f"{name}_limit"] = times * row[f"{name}_sd"]
            row[f"{name}_time_limit"] = times * _sd(pairs["time_difference"])
        rows.append(row)
    return pd.DataFrame(rows, columns=COLUMNS)


def limit_key(row: Mapping[str, Any]) -> LimitKey:
    """Return the key of the limit for a row of `best`, `pairs` or `table`."""
    on_tensor_cores, other = (
        str(row.get(name)) == "True" for name in ("tensor_cores", "other_baseline")
    )
    return (
        row["element_type"],
        str(row["problem"]),
        row["state"],
        on_tensor_cores,
        other or row.get("kernel") in OTHER_BASELINES,
    )


def limits(
    published: Path, first: Mapping[str, Any], other: Mapping[str, Any], of: str = ""
) -> dict[LimitKey, Limit]:
    """Return the limits on the difference of two runs' logarithms, by what they apply to, given
    both contents of `environment.json`.

    The limits are for ratios to the reference, or for times if `of` is "time_". They come from the
    table in the folder of published datasets, for one machine or for several machines of the model.
    The result is empty for two different models, or without a table.
    """
    path = published / f"repeat-{other['device']}.csv"
    if first["device"] != other["device"] or not path.exists():
        return {}
    uuid, another = (
        environment.get("attributes", {}).get("uuid") for environment in (first, other)
    )
    return of_table(read_csv(path), bool(uuid) and uuid == another, of)


def of_nights(nights: Sequence[Dataset], other: Dataset) -> dict[LimitKey, Limit]:
    """Return the limits on the difference of two runs' log times, from runs of one's own of the
    same code.

    They are for one machine if `other` was measured where the last of the runs was, else for
    several. On one machine each candidate of each further run adds a degree of freedom. Raises
    `InputError` for a run without a confirmation.
    """
    runs = [run_of(night) for night in nights]
    repeats, same = table(runs), machine(other) == runs[-1].machine
    limits = of_table(repeats, same, "time_")
    if same:
        for row in repeats.to_dict("records"):
            degrees = row["candidates"] * (row["runs"] - 1)
            if limit_key(row) in limits:
                sd = limits[limit_key(row)].half / LIMIT
                limits[limit_key(row)] = Limit(math.sqrt(2) * student_t(degrees) * sd, degrees)
    return limits


def of_table(table: pd.DataFrame, same: bool, of: str = "") -> dict[LimitKey, Limit]:
    """Return the limits of a `table` by what they apply to, for one machine (`same`) or for
    several.
    """
    column = f"{'repeat' if same else 'reproduce'}_{of}limit"
    rows = table.dropna(subset=[column]).to_dict("records")
    return {limit_key(row): Limit(row[column], 0 if same else row["machines"] - 1) for row in rows}


def _covered(pairs: pd.DataFrame, least: str = "") -> dict[str, Any]:
    """Return the number of pairs of runs, of differences, and the share of these that is `within`
    what is allowed.

    If `least` is given, also return the value of this column with the smallest share, and its
    numbers.
    """
    within = pairs["within"].astype(bool)
    coverage = {
        "pairs": pairs["runs"].nunique(),
        "rows": len(pairs),
        "covered": float(within.mean()) if len(pairs) else None,
    }
    if least and len(pairs):
        name = within.groupby(pairs[least]).mean().idxmin()
        coverage["least"] = {"of": name, **_covered(pairs[pairs[least] == name])}
    return coverage


def _within(pairs: pd.DataFrame, limits: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the differences whose problem has a limit, and whether each is `within` it."""
    both = pairs.merge(limits[[*PROBLEM, column]].dropna(), on=PROBLEM)
    return both.assign(within=abs(both["difference"]) <= both[column])


def claims(runs: Sequence[Run]) -> dict[str, Any]:
    """Return how well the stated intervals and limits hold for the runs of one model.

    `same_machine`: differences between runs on one machine; the share within Welch's interval, from
    both runs' processes.
    `same_held_out`: the same differences; the share within the limit made from the runs on other
    machines.
    `other_machine`: differences between machines; the share within the limit of `table`, which was
    made from them too.
    `held_out`: the same differences; the share within the limit made without the machine in
    question, which takes four machines.
    `pairs` are pairs of runs, `rows` the differences of kernels in them, which move together.
    `least`: the pair of runs, or the machine held out, with the smallest share.
    `twins`, `null`: pairs of the same binary, and of the reference with itself; the share called
    different, and the share whose interval leaves out 1, by however little.
    """
    differing = differences(runs)
    same, other = differing[differing["same"]], differing[~differing["same"]]
    held_out, same_held_out = [other.assign(held="")[:0]], [same[:0]]
    for machine in sorted({run.machine for run in runs}):
        involved = np.array([machine in machines for machines in differing["machines"]], dtype=bool)
        limits = _table([run for run in runs if run.machine != machine], differing[~involved])
        held_out.append(
            _within(differing[involved & ~differing["same"]], limits, "reproduce_limit").assign(
                held=machine
            )
        )
        same_held_out.append(
            _within(differing[involved & differing["same"]], limits, "repeat_limit")
        )
    return {
        "device": runs[0].device,
        "runs": [{"dataset": run.name, "machine": run.machine, **run.made_from} for run in runs],
        "machines": len({run.machine for run in runs}),
        "same_machine": _covered(same, "runs"),
        "same_held_out": _covered(pd.concat(same_held_out)),
        "other_machine": _covered(_within(other, _table(runs, differing), "reproduce_limit")),
        "held_out": _covered(pd.concat(held_out), "held"),
        **{kind: _called_different(runs, kind) for kind in ("twins", "null")},
    }


def _called_different(runs: Sequence[Run], kind: str) -> dict[str, Any]:
    """Count the pairs that only chance can tell apart.

    Also return the share called faster or slower, and the share that would be without
    `verdicts.MARGIN`.
    """
    pairs = pd.concat(
        [run.pairs.loc[run.pairs["pair"] == kind, ["verdict", "low", "high"]] for run in runs]
    )
    called, apart = (
        pairs["verdict"].isin(["faster", "slower"]),
        (pairs["low"] > 1) | (pairs["high"] < 1),
    )
    return {
        "pairs": len(pairs),
        "called_different": float(called.mean()) if len(pairs) else None,
        "interval_leaves_out_1": float(apart.mean()) if len(pairs) else None,
    }


def worded(measured: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `claims` counted, behind the question that it answers and a short and a long
    answer.

    Pairs of runs are counted: the differences of all kernels in a pair move together.
    """
    described = {
        "same_machine": "On one device, within the 95 % interval of the difference",
        "same_held_out": "On one device, within the limit estimated from other devices",
        "other_machine": "On two devices, within the reproducibility limit",
        "held_out": "On two devices, within the limit estimated without one of them",
    }

    def share(counted: Mapping[str, Any]) -> str:
        return f"{counted['covered']:.1%} of {counted['rows']} differences"

    machines = measured["machines"]
    parts = [f"{len(measured['runs'])} runs on {machines} device{'s' * (machines > 1)}"]
    for name, what in described.items():
        counted = measured[name]
        if counted["pairs"]:
            least = (
                f"; least, {share(counted['least'])}: {counted['least']['of']}"
                if "least" in counted
                else ""
            )
            parts.append(f"{what}: {share(counted)}, from {counted['pairs']} pairs of runs{least}")
    equal = {"twins": "Kernels with the same binary", "null": "The baseline compared with itself"}
    for name, what in equal.items():
        counted = measured[name]
        if counted["pairs"]:
            parts.append(
                f"{what}: called different in {counted['called_different']:.1%} of "
                f"{counted['pairs']} pairs; "
                f"{counted['interval_leaves_out_1']:.1%} of the intervals exclude 1"
            )
    same = measured["same_machine"]
    within = (
        f"{same['covered']:.1%} of differences on one device lie within their interval"
        if same["pairs"]
        else ""
    )
    return {
        "question": "Do results repeat?",
        "short": (within and f"{within}, from {same['pairs']} pairs of runs")
        or "Unknown: no device was measured twice",
        "long": ". ".join(parts),
        "command": ".venv/bin/ladder repeat",
        **measured,
    }


def contents(published: Path) -> dict[Path, bytes]:
    """Return the contents of `repeat-<device>.csv` (`table`) and `.json` (`claims`) for models with
    several published runs.
    """
    by_device: dict[str, list[Run]] = {}
    for name, folder in published_index.runs(published).items():
        if (folder / f"{CONFIRMED}.parquet").exists():
            run = run_of(Dataset.open(folder), name)
            by_device.setdefault(run.device, []).append(run)
    files = {}
    for device, runs in by_device.items():
        if len(runs) > 1:
            stem = published / f"repeat-{device}"
            files[stem.with_suffix(".csv")] = to_csv(table(runs))
            files[stem.with_suffix(".json")] = (
                json.dumps(worded(claims(runs)), indent=1) + "\n"
            ).encode()
    return files


def write(published: Path) -> list[Path]:
    """Write the files of `contents` and return their paths."""
    made = contents(published)
    for path, content in made.items():
        write_whole(path, content)
    return list(made)
