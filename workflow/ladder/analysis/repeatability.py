"""Compute how far results repeat, from several published datasets of one device model, on the same
machine and on others.
"""

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
from ladder.analysis.finalists import key_of
from ladder.core import verdicts
from ladder.core.errors import InputError
from ladder.core.files import write_whole
from ladder.core.stats import CONFIDENCE, between_processes, half_of_difference, student_t
from ladder.model.baselines import BASELINES, OF_LIBRARY
from ladder.storage import published_index
from ladder.storage.columns import names
from ladder.storage.csv_files import read_csv, to_csv
from ladder.storage.dataset_layout import CONFIRMED, confirmations
from ladder.storage.dataset_layout import contents as digest_of_files

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
EQUAL = {
    "twins": ("Kernels with the same binary", "pair == 'twins'"),
    "null": ("The baseline compared with itself", "pair == 'null'"),
    "null_sustained": ("Of these, sustained", "pair == 'null' and state == 'sustained'"),
    "apart": ("The baseline beside kernels timed apart, and in its own rounds", "pair == 'apart'"),
}
"""Pairs of equal code: words, and which rows of `pairs` they are."""
OTHER_BASELINES = {name for _, *names in BASELINES.values() for name in names}
CANDIDATE = ["kernel", "configuration", "binary", *PROBLEM]
"""What two runs must have in common to be compared: the same code on the same problem."""
MEASURED = [*CANDIDATE, "log_ratio", "half", "processes", "log_us", "run", "name", "machine"]


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

        def quantile(confidence: float) -> float:
            if self.degrees:
                return student_t(self.degrees, confidence)
            return NormalDist().inv_cdf((1 + confidence) / 2)

        return self.half * quantile(confidence) / quantile(CONFIDENCE)


def made_from(dataset: Dataset) -> dict[str, str]:
    """Return what identifies a published dataset: the commit that measured it and the SHA-256 of
    its confirmation.
    """
    return {
        "commit": dataset.environment["project"]["commit"],
        "confirmed_sha256": digest_of_files(confirmations(dataset.folder)),
    }


def machine(dataset: Dataset) -> str:
    """Return the UUID of the device that the confirmation was measured on. Raises `InputError` if
    there is no confirmation, or one from several devices.
    """
    path = dataset.folder / f"{CONFIRMED}.parquet"
    if dataset.finalists.left_out:
        raise InputError(
            f"{path}: missing; expected a dataset whose campaign has not left the confirmation out "
            "(confirm.processes)"
        )
    machines = dataset.confirmed["uuid"].unique()
    if len(machines) != 1:
        raise InputError(f"{path}: measured on {len(machines)} devices; expected one")
    return str(machines[0])


def measured(runs: Mapping[str, Dataset]) -> pd.DataFrame:
    """Return a row per run, finalist, problem and state with the columns `MEASURED`, of runs by
    their names.

    `log_ratio` is the logarithm of its ratio to the reference, `half` half the width of the
    between-process interval of that logarithm, from `processes`, and `log_us` the logarithm of its
    time in microseconds. `run` numbers the runs. The reference is left out, because its ratio to
    itself is always 1, and so is what a busy machine has marked: that says nothing of runs of the
    same code. Raises `InputError` as `machine` does.
    """
    rows = []
    for number, (run, dataset) in enumerate(runs.items()):
        finalists, where = dataset.finalists, machine(dataset)
        busy = {
            (row["kernel"], *key_of(row))
            for row in dataset.best.to_dict("records")
            if verdicts.busy(row["marks"])
        }
        for key, group in finalists.groups.items():
            for (kernel, configuration), of_processes in group.items():
                records = list(of_processes.values())
                if kernel == records[0]["reference"] or (kernel, *key) in busy:
                    continue
                ratio = finalists.ratio(key, (kernel, configuration))
                time = between_processes([record["samples_us"] for record in records])[0]
                rows.append(
                    {
                        "kernel": kernel,
                        "configuration": configuration,
                        "binary": dataset.binary(records[0]),
                        **dict(zip(PROBLEM, key, strict=False)),
                        "tensor_cores": finalists.on_tensor_cores(key, (kernel, configuration)),
                        "other_baseline": kernel in OTHER_BASELINES,
                        "log_ratio": math.log(ratio["ratio"]),
                        "half": math.log(ratio["high"] / ratio["ratio"]),
                        "processes": len(records),
                        "log_us": math.log(time),
                        "run": number,
                        "name": run,
                        "machine": where,
                    }
                )
    return pd.DataFrame(rows, columns=MEASURED)


def differences(measured: pd.DataFrame) -> pd.DataFrame:
    """Return the differences between every two runs, for the finalists that both have.

    `difference` is of the log ratios, and `time_difference` of the log times. `same` says whether
    the runs were on the same machine, and `runs` names the two. The columns of the second run end
    in `_other`.
    """
    both = measured.merge(measured, on=CANDIDATE, suffixes=("", "_other")).query("run < run_other")
    both = both.sort_values(["run", "run_other"], kind="stable")
    return both.assign(
        difference=both["log_ratio_other"] - both["log_ratio"],
        time_difference=both["log_us_other"] - both["log_us"],
        same=both["machine"] == both["machine_other"],
        runs=both["name"] + " and " + both["name_other"],
    )


def table(measured: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each `PROBLEM`: how far log ratios of one configuration repeat, pooled over
    the finalists.

    `repeat_sd` is their standard deviation among runs on the same machine, `reproduce_sd` among
    machines. With a probability of 95 %, two results differ by at most `repeat_limit` or
    `reproduce_limit` (ISO 5725-6); the columns with `time_limit` are for log times. The numbers
    rest on `machines`, `runs` and pairs of runs, however many finalists there are: a machine's
    peculiarity moves all its finalists together. Fewer than `FEWEST_MACHINES` machines have no
    `reproduce_limit`.
    """
    differing = differences(measured)
    differing = differing.assign(
        square=differing["difference"] ** 2, time_square=differing["time_difference"] ** 2
    )
    candidates = differing.drop_duplicates(CANDIDATE).groupby(PROBLEM, sort=False)
    took_part = measured.groupby(PROBLEM)
    made = candidates.agg(candidates=("kernel", "size")).join(
        took_part.agg(machines=("machine", "nunique"), runs=("run", "nunique"))
    )
    reproduced = [
        math.sqrt(2) * student_t(machines - 1) if machines >= FEWEST_MACHINES else math.nan
        for machines in made["machines"]
    ]
    for name, same, times in (("repeat", True, LIMIT), ("reproduce", False, reproduced)):
        pairs = differing[differing["same"] == same].groupby(PROBLEM)
        made[f"{name}_pairs"] = pairs["runs"].nunique().reindex(made.index, fill_value=0)
        # the variance of one result is half the mean square of the differences of two
        made[f"{name}_sd"] = np.sqrt(pairs["square"].mean() / 2)
        made[f"{name}_limit"] = times * made[f"{name}_sd"]
        made[f"{name}_time_limit"] = np.sqrt(pairs["time_square"].mean() / 2)
        made[f"{name}_time_limit"] *= times
    return made.reset_index()[names("repeat")]


def limit_key(row: Mapping[str, Any]) -> LimitKey:
    """Return the key of the limit for a row of `best` or `pairs`."""
    return (
        row["element_type"],
        str(row["problem"]),
        row["state"],
        str(row.get("tensor_cores")) == "True",
        row.get("kernel") in OTHER_BASELINES,
    )


def limits(
    published: Path, first: Mapping[str, Any], other: Mapping[str, Any], of: str = ""
) -> dict[LimitKey, Limit]:
    """Return the limits on the difference of two runs' logarithms, by what they apply to, given
    both contents of `environment.json`.

    The limits are for ratios to the reference, or for times if `of` is "time_". They come from the
    table in the folder of published datasets, for one machine or for several machines of the model.
    A library's version does not matter: runs repeat as well with any. The result is empty for two
    different models, or without a table.
    """
    models = [environment["device"].split(OF_LIBRARY)[0] for environment in (first, other)]
    path = published / f"repeat-{models[1]}.csv"
    if models[0] != models[1] or not path.exists():
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
    repeats = table(measured({str(number): night for number, night in enumerate(nights)}))
    same = machine(other) == machine(nights[-1])
    limits = of_table(repeats, same, "time_")
    if same:
        for key, row in _by_key(repeats).items():
            if key in limits:
                degrees = row["candidates"] * (row["runs"] - 1)
                sd = limits[key].half / LIMIT
                limits[key] = Limit(math.sqrt(2) * student_t(degrees) * sd, degrees)
    return limits


def of_table(table: pd.DataFrame, same: bool, of: str = "") -> dict[LimitKey, Limit]:
    """Return the limits of a `table` by what they apply to, for one machine (`same`) or for
    several.
    """
    column = f"{'repeat' if same else 'reproduce'}_{of}limit"
    return {
        key: Limit(row[column], 0 if same else row["machines"] - 1)
        for key, row in _by_key(table.dropna(subset=[column])).items()
    }


def _by_key(table: pd.DataFrame) -> dict[LimitKey, dict[str, Any]]:
    rows = table.astype({"problem": str}).set_index(PROBLEM, drop=False)
    return dict(zip(rows.index, rows.to_dict("records"), strict=True))


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
    return both.assign(within=both["difference"].abs() <= both[column])


def claims(measured: pd.DataFrame, pairs: pd.DataFrame) -> dict[str, Any]:
    """Return how well the stated intervals and limits hold for the runs of one model, given what
    they measured and their tables `pairs`.

    `same_machine`: differences between runs on one machine; the share within Welch's interval, from
    both runs' processes, in all and by `problems`.
    `same_held_out`: the same differences; the share within the limit made from the runs on other
    machines.
    `other_machine`: differences between machines; the share within the limit of `table`, which was
    made from them too.
    `held_out`: the same differences; the share within the limit made without the machine in
    question, which takes four machines.
    `pairs` are pairs of runs, `rows` the differences of kernels in them, which move together.
    `least`: the pair of runs, or the machine held out, with the smallest share.
    Those of `EQUAL` are pairs of equal code; the share called different, and the share whose
    interval leaves out 1, by however little.
    """
    differing = differences(measured)
    same, other = differing[differing["same"]], differing[~differing["same"]]
    intervals = [
        half_of_difference(
            (row["half"], row["processes"] - 1), (row["half_other"], row["processes_other"] - 1)
        )
        for row in same.to_dict("records")
    ]
    machines = sorted(set(measured["machine"]))
    held_out, same_held_out = [], []
    for name in machines:
        limits = table(measured[measured["machine"] != name])
        involved = other[(other["machine"] == name) | (other["machine_other"] == name)]
        held_out.append(_within(involved.assign(held=name), limits, "reproduce_limit"))
        same_held_out.append(_within(same[same["machine"] == name], limits, "repeat_limit"))
    same = same.assign(within=same["difference"].abs() <= intervals)
    by_problem = {
        " ".join(name): {"rows": len(rows), "covered": float(rows["within"].mean())}
        for name, rows in same.groupby(["problem", "state"], sort=False)
    }
    return {
        "machines": len(machines),
        "same_machine": _covered(same, "runs") | ({"problems": by_problem} if len(same) else {}),
        "same_held_out": _covered(pd.concat(same_held_out)),
        "other_machine": _covered(_within(other, table(measured), "reproduce_limit")),
        "held_out": _covered(pd.concat(held_out), "held"),
        **{name: _called_different(pairs.query(which)) for name, (_, which) in EQUAL.items()},
    }


def _called_different(pairs: pd.DataFrame) -> dict[str, Any]:
    """Count the pairs that only chance can tell apart.

    Also return the share called faster or slower, and the share that would be without
    `verdicts.MARGIN`.
    """
    called = pairs["verdict"].isin(["faster", "slower"])
    apart = (pairs["low"] > 1) | (pairs["high"] < 1)
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
            part = f"{what}: {share(counted)}, from {counted['pairs']} pairs of runs"
            if "least" in counted:
                part += f"; least, {share(counted['least'])}: {counted['least']['of']}"
            parts.append(part)
    for name, (what, _) in EQUAL.items():
        counted = measured[name]
        if counted["pairs"]:
            parts.append(
                f"{what}: called different in {counted['called_different']:.1%} of "
                f"{counted['pairs']} pairs; "
                f"{counted['interval_leaves_out_1']:.1%} of the intervals exclude 1"
            )
    same = measured["same_machine"]
    short = "Unknown: no device was measured twice"
    if same["pairs"]:
        least = min(same["problems"], key=lambda name: same["problems"][name]["covered"])
        short = (
            f"On one device, {same['covered']:.0%} of differences lie within their interval; fewest "
            f"at {least}, {same['problems'][least]['covered']:.0%}"
        )
    for name, where in {"null": "the same", "apart": "other"}.items():
        if (counted := measured[name])["pairs"]:
            called = f"{counted['called_different']:.1%} of {counted['pairs']} comparisons"
            short += f". Of the baseline with itself in {where} rounds, {called} find a difference"
    return {
        "question": "Do results repeat?",
        "short": short,
        "long": ". ".join(parts),
        "command": ".venv/bin/ladder repeat",
        **measured,
    }


def contents(published: Path) -> dict[Path, bytes]:
    """Return the contents of `repeat-<device>.csv` (`table`) and `.json` (`claims`) for models with
    several published runs.
    """
    by_device: dict[str, dict[str, Dataset]] = {}
    for name, folder in published_index.runs(published).items():
        if confirmations(folder):
            dataset = Dataset.open(folder)
            by_device.setdefault(dataset.environment["device"], {})[name] = dataset
    files = {}
    for device, runs in by_device.items():
        if len(runs) > 1:
            found = measured(runs)
            counted = {
                "device": device,
                "runs": [
                    {"dataset": name, "machine": machine(run), **made_from(run)}
                    for name, run in runs.items()
                ],
                **claims(found, pd.concat([run.pairs for run in runs.values()])),
            }
            stem = published / f"repeat-{device}"
            files[stem.with_suffix(".csv")] = to_csv(table(found))
            files[stem.with_suffix(".json")] = (
                json.dumps(worded(counted), indent=1) + "\n"
            ).encode()
    return files


def write(published: Path) -> list[Path]:
    """Write the files of `contents` and return their paths."""
    made = contents(published)
    for path, content in made.items():
        write_whole(path, content)
    return list(made)
