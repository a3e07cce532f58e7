"""Turn measurements into tables: the sweep's results, the best configuration of every kernel, and
pairwise comparisons.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

import pandas as pd

from ladder.analysis import kernel_model, measurements
from ladder.analysis.finalists import Finalists, Name, key_of
from ladder.analysis.measurements import Candidate, Record, candidate
from ladder.core import verdicts
from ladder.core.errors import InputError
from ladder.core.stats import median_interval, paired_ratio, tied
from ladder.model.baselines import BASELINE_JOB, is_baseline
from ladder.model.kernel import Configuration, Kernel
from ladder.model.kernel_file import is_rung
from ladder.model.problem import Problem
from ladder.storage.columns import names
from ladder.storage.samples import SCHEMA

COPIED = [
    name
    for name in names("summary")
    if name in (*SCHEMA.names, "problem") and name not in ("reference_us", "tensor_cores")
]
"""The columns that tables take from samples unchanged."""
GROUP = ["kernel", "element_type", "problem", "state"]
BETWEEN, WITHIN = "between-process", "within-run"
"""Values of the column `interval` of `best.csv`: with a confirmation, and without one, from the
sweep.
"""
REFUSED = "in the confirmation,"
"""The prefix of the reason for a configuration that failed in the confirmation."""
LARGEST_SQUARE = 4096
"""The largest square at which the ladder is shown. The power cap of the GPUs that the ladder was
made on slows larger ones.
"""
SAME_SERIES = 3
"""The number of first rounds whose reference times identify a series: candidates timed side by side
share them.
"""


def summarize(records: Sequence[Record], finalists: Finalists) -> pd.DataFrame:
    """Return a row per measurement of the sweep. Times are in microseconds, rates in TFLOP/s.

    Only rows with the status `correct` have rates and ratios. Intervals are within-run. A
    configuration that failed in the confirmation has that failure as its status here. A repeat
    keeps no sweep, so its finalists stand in for it.
    """
    rows = []
    swept = [record for record in records if not record["process"]]
    for record in swept or _first_of_finalists(records, finalists):
        samples = record["samples_us"] or []
        row = {name: record[name] for name in COPIED} | {
            "samples": len(samples),
            "reason": measurements.disturbed([record]) or record["reason"],
            "tensor_cores": measurements.uses_tensor_cores(record),
        }
        failure = finalists.failures.get(candidate(record))
        if record["status"] == "correct" and failure:
            row["status"] = failure["status"]
            row["reason"] = f"{REFUSED} on {failure['problem']}: {failure['reason']}"
        elif record["status"] == "correct" and samples:
            reference = record["reference_us"]
            row |= finalists.rates(
                record,
                median_interval(samples),
                paired_ratio(reference, samples),
                median_interval(reference)[0],
            )
            row["throttled_share"] = measurements.throttled_share([record])
            row["marks"] = "; ".join(measurements.marks([record], record))
        rows.append(row)
    return pd.DataFrame(rows, columns=names("summary"))


def _first_of_finalists(records: Sequence[Record], finalists: Finalists) -> list[Record]:
    """Return the first record of each finalist on each problem in each state, in the order of a
    sweep's files.
    """
    first: dict[Any, Record] = {}
    for record in records:
        if record["role"] != "control":
            on_tensor_cores = candidate(record) in finalists.tensor_cores
            first.setdefault(
                (key_of(record), candidate(record)), {**record, "tensor_cores": on_tensor_cores}
            )
    return sorted(
        first.values(),
        key=lambda record: BASELINE_JOB if is_baseline(record["kernel"]) else record["kernel"],
    )


def best(summary: pd.DataFrame, finalists: Finalists) -> pd.DataFrame:
    """Return the best configuration of every kernel on every problem, in every state.

    With a confirmation, it is the sweep's best, unless another finalist is distinguishably faster
    by direct pairs. Finalists are tied with it if they are not distinguishable from it, or at most
    `confirm.within` slower. Times, rates and ratios have between-process intervals; the ratio has a
    within-run interval too, and energy has the range of its processes. `left_out` counts the
    configurations that the sweep found as near as the finalists, but for which
    `confirmation.finalists` had no room. If all finalists of a kernel failed there, or were not
    timed cold because it makes no difference, its row says so and has no rates.

    Without a confirmation, it is the sweep's configuration with the highest ratio to the reference.
    Configurations with overlapping intervals are tied with it. All intervals are within-run.
    Configurations that were stopped early are neither best nor tied, because they have fewer
    samples.

    Rows on a problem on which the reference differs too much from itself are marked `unsteady`.
    """
    if finalists.left_out:
        rows = _best_of_sweep(summary)
    else:
        swept = defaultdict[tuple[Any, ...], list[dict[str, Any]]](list)
        for row in summary[summary["state"] == "warm"].to_dict("records"):
            swept[row["kernel"], row["element_type"], row["problem"]].append(row)
        rows = []
        for kernel in summary["kernel"].unique():
            rows += _best_of(finalists, kernel, swept)
    rated = [row for row in rows if pd.notna(row.get("ratio"))]
    unsteady = {
        key_of(row)
        for row in rated
        if row["kernel"] == row["reference"]
        and not verdicts.steady(row["ratio"], row["ratio_low"], row["ratio_high"])
    }
    for row in rated:
        if key_of(row) in unsteady:
            _mark(row, "unsteady")
    return pd.DataFrame(rows, columns=names("best"))


def _mark(row: dict[str, Any], mark: str) -> None:
    row["marks"] = "; ".join([*verdicts.marks(row["marks"]), mark])


def _best_of_sweep(summary: pd.DataFrame) -> list[dict[str, Any]]:
    rows = []
    for _, group in summary.groupby(GROUP, sort=False):
        correct = group[group["tflops"].notna() & (group["stop"] != "race")]
        if correct.empty:
            continue
        first = int(correct["ratio"].argmax())
        ties = correct["configuration"][tied(correct["ratio_low"], correct["ratio_high"], first)]
        row = correct.iloc[first].to_dict()
        row |= {
            "configurations": len(group),
            "tied_with": "; ".join(ties),
            "interval": WITHIN,
            "processes": 1,
            "within_low": row["ratio_low"],
            "within_high": row["ratio_high"],
        }
        _mark(row, "few")
        rows.append(row)
    return rows


def _best_of(
    finalists: Finalists, kernel: str, swept: Mapping[tuple[Any, ...], Sequence[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Return the rows of one kernel; `swept` has the results of the sweep by kernel, element type
    and problem.
    """
    rows: list[dict[str, Any]] = []
    for key, group in finalists.groups.items():
        warm = swept.get((kernel, *key[:2]), [])
        common = {"state": key[2], "configurations": len(warm), "interval": BETWEEN}
        finalists_here = [
            name
            for name in finalists.names[kernel, key]
            if next(iter(group[name].values()))["role"] != "control"
        ]
        if not finalists_here:
            failed = [row for row in warm if str(row["reason"]).startswith(REFUSED)]
            rows += [{**row, **common, "processes": 0} for row in failed[:1]]
            continue
        first = chosen = finalists_here[0]
        ratio = 1.0
        for name in finalists_here[1:]:
            pair = finalists.pair(key, name, first)
            if pair["verdict"] == "faster" and pair["ratio"] > ratio:
                chosen, ratio = name, pair["ratio"]
        ties = []
        for name in finalists_here:
            if name == chosen:
                continue
            pair = finalists.pair(key, name, chosen)
            if pair["verdict"] != "slower" or pair["ratio"] >= 1 - finalists.within:
                ties.append(name[1])
        base = next(row for row in warm if row["configuration"] == chosen[1])
        timed = [row for row in warm if pd.notna(row["tflops"]) and row["stop"] != "race"]
        least = max((row["ratio"] for row in timed), default=math.inf) * (1 - finalists.within)
        left_out = {row["configuration"] for row in timed if row["ratio"] >= least}
        left_out -= {configuration for _, configuration in finalists_here}
        common |= {"tied_with": "; ".join(ties), "left_out": len(left_out)}
        rows.append(base | common | finalists.row(key, chosen, base))
    for key, record in finalists.as_warm[kernel].items():
        if not finalists.names[kernel, key]:
            row = {column: record[column] for column in COPIED}
            rows.append(row | {"interval": BETWEEN, "processes": 0})
    return rows


def headline_problem(best: pd.DataFrame) -> str:
    """Return the label of the one problem at which figures, pages and hardware counters show the
    whole ladder.

    It is the largest square, up to `LARGEST_SQUARE`, among the problems that most kernels have in
    the first state measured. If there is no such square, it is the largest of those problems.
    `best` is the table of that name. Raises `InputError` if it has no rate.
    """
    rows = best[best["tflops"].notna()]
    if rows.empty:
        raise InputError("best.csv: no kernel has a rate on any problem; expected one to draw")
    rows = rows[rows["state"] == rows["state"].iloc[0]]
    square = rows["problem"].astype(str) == rows["m"].astype(str)
    squares = rows[square & (rows["m"] <= LARGEST_SQUARE)]
    if len(squares):
        rows = squares
    rows = rows.assign(size=rows["m"].astype(float) * rows["n"] * rows["k"])
    by_problem = rows.groupby("problem", sort=False)
    counts = by_problem.agg(kernels=("kernel", "nunique"), size=("size", "first"))
    return str(max(counts.index, key=lambda problem: tuple(counts.loc[problem])))


def rounds(records: Sequence[Record], best: pd.DataFrame, finalists: Finalists) -> pd.DataFrame:
    """Return the samples of the best configurations, a row per round: from the confirmation, or
    from the sweep without one.
    """
    rows: list[tuple[Any, ...]] = []
    which = ["kernel", "configuration", "element_type", "problem", "state"]
    chosen = set(best.loc[best["tflops"].notna(), which].itertuples(index=False, name=None))
    for record in records:
        name = tuple(record[column] for column in which)
        timed = record["status"] == "correct" and (finalists.left_out or record["process"])
        if timed and name in chosen:
            pairs = zip(record["samples_us"], record["reference_us"], strict=True)
            for number, pair in enumerate(pairs, 1):
                rows.append((*name, record["process"] or 1, number, *pair))
    return pd.DataFrame(rows, columns=names("rounds"))


def references(records: Sequence[Record]) -> pd.DataFrame:
    """Return a row for each series of the reference's samples, however many candidates were timed
    beside it. It shows how GPUs differ.

    Candidates of the same rounds share a series; those that left early have only its beginning.
    `kernel` is one of them.
    `process` is empty for a series of the sweep. Times are in microseconds.
    """
    series: dict[tuple[Any, ...], dict[str, Any]] = {}
    for record in records:
        times = record["reference_us"] or []
        key = (record["uuid"], *key_of(record), record["process"], *times[:SAME_SERIES])
        if times and len(times) > series.get(key, {"samples": 0})["samples"]:
            series[key] = {
                **record,
                "samples": len(times),
                "median_us": median_interval(times)[0],
                "throttled_share": measurements.throttled_share([record]),
            }
    return pd.DataFrame(list(series.values()), columns=names("references"))


def pairs(
    summary: pd.DataFrame,
    best: pd.DataFrame,
    binaries: Mapping[Candidate, str],
    finalists: Finalists,
) -> pd.DataFrame:
    """Return the pairwise comparisons: a row per pair, problem and state. `ratio` is the speedup of
    `kernel` over `other`.

    `gain`: each rung and the rung below it, each at its best. `null`: the reference's call as a
    candidate beside itself. `twins`: configurations of two kernels with the same binary, which only
    chance can tell apart. Ratios come from the rounds in which both were timed, with
    between-process and within-run intervals. Without a confirmation there are only gains, from
    ratios to the reference.

    `binaries` has the SHA-256 of each candidate's binary.
    """
    rows = []
    # kernels that round their operands solve an easier problem, so they are not rungs
    exact = summary.loc[summary["precision"].isna(), "kernel"].unique()
    rungs = [kernel for kernel in exact if is_rung(kernel)]
    rated = {
        (key_of(row), row["kernel"]): row for row in best[best["ratio"].notna()].to_dict("records")
    }
    for key in dict.fromkeys(key for key, _ in rated):
        compared: list[tuple[str, Name, Name, dict[str, Any]]] = []
        for below, rung in pairwise(rungs):
            upper, lower = rated.get((key, rung)), rated.get((key, below))
            if upper and lower:
                first, other = (rung, upper["configuration"]), (below, lower["configuration"])
                gain = {
                    "ratio": upper["ratio"] / lower["ratio"],
                    "processes": 1,
                    "verdict": verdicts.UNCONFIRMED,
                }
                if not finalists.left_out:
                    gain = finalists.pair(key, first, other)
                compared.append(("gain", first, other, gain))
        group = finalists.groups.get(key, {})
        for first in group:
            if first[0] == summary["reference"].iloc[0]:
                compared.append(("null", first, first, finalists.ratio(key, first)))
        places = {name: place for place, name in enumerate(group)}
        alike = defaultdict[str, list[Name]](list)
        for name in group:
            alike[binaries.get((name[0], key[0], name[1]), "")].append(name)
        alike.pop("", None)
        twins = [pair for same in alike.values() for pair in combinations(same, 2)]
        for first, other in sorted(twins, key=lambda pair: [places[name] for name in pair]):
            if first[0] != other[0]:
                compared.append(("twins", first, other, finalists.pair(key, first, other)))
        for kind, first, other, estimate in compared:
            rows.append(
                {
                    "pair": kind,
                    "kernel": first[0],
                    "configuration": first[1],
                    "other": other[0],
                    "other_configuration": other[1],
                    "tensor_cores": finalists.on_tensor_cores(key, first, other),
                    **dict(zip(GROUP[1:], key, strict=True)),
                    **estimate,
                }
            )
    return pd.DataFrame(rows, columns=names("pairs"))


def costs(sessions: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the costs of each measure job's last run: wall time, gauntlet time, the share in which
    the device executed, peak memory.
    """
    table = pd.DataFrame(sessions, columns=names("costs"))
    return table.assign(busy_share=table["busy_seconds"] / table["wall_seconds"])


def models(
    summary: pd.DataFrame,
    kernels: Iterable[Kernel],
    resources: pd.DataFrame,
    environment: Mapping[str, Any],
) -> pd.DataFrame:
    """Return the model of every kernel, configuration and problem that ran. Values that a kernel
    does not declare are empty.

    A kernel has no rows if its file is gone or no longer has the parameters.
    """
    by_name = {kernel.name: kernel for kernel in kernels}
    compiled = {
        candidate(row): row for row in resources.to_dict("records") if row["status"] == "compiled"
    }
    rows = []
    for given in summary.drop_duplicates(kernel_model.KEY).to_dict("records"):
        kernel, resource = by_name.get(given["kernel"]), compiled.get(candidate(given))
        if kernel is None or resource is None:
            continue
        configuration = Configuration.of(given["element_type"], given["configuration"])
        if not {name for name, _ in configuration.parameters} <= kernel.parameters.keys():
            continue
        problem = Problem(**{name: given[name] for name in kernel_model.KEY[2:]})
        modeled = kernel_model.model(
            kernel, configuration, problem, resource, environment, given["tensor_cores"]
        )
        rows.append({name: given[name] for name in (*kernel_model.KEY, "problem")} | modeled)
    return pd.DataFrame(rows, columns=names("models"))
