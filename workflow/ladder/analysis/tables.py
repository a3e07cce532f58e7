"""Turn measurements into tables: the sweep's results, the best configuration of every kernel, and
pairwise comparisons.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

import pandas as pd

from ladder.analysis import kernel_model, measurements
from ladder.analysis.finalists import Finalists, Key
from ladder.analysis.measurements import Record
from ladder.core import verdicts
from ladder.core.errors import InputError
from ladder.core.stats import median_interval, paired_ratio, tied
from ladder.model.baselines import BASELINE_JOB, is_baseline
from ladder.model.kernel import Configuration, Kernel
from ladder.model.kernel_file import is_rung
from ladder.model.problem import Problem

COPIED = [
    "device",
    "kernel",
    "configuration",
    "element_type",
    "precision",
    "m",
    "n",
    "k",
    "alpha",
    "beta",
    "padding",
    "offset",
    "distribution",
    "state",
    "status",
    "reason",
    "stop",
    "race",
    "reference",
    "repeats",
    "frobenius_error",
    "component_error",
    "component_bound",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "temperature_c",
    "throttle_reasons",
    "energy_j",
    "uuid",
    "gauntlet_problems",
    "gauntlet_changed",
    "sums_16_bit",
    "nan_at_alpha_0",
]
GROUP = ["kernel", "element_type", "problem", "state"]
OF_BEST = [
    "configurations",
    "tied_with",
    "left_out",
    "interval",
    "processes",
    "within_low",
    "within_high",
    "energy_processes",
    "energy_low_j",
    "energy_high_j",
    "power_w",
]
"""Columns of `best.csv` beyond those of `summary.csv`."""
BETWEEN, WITHIN = "between-process", "within-run"
"""Values of the column `interval` of `best.csv`: with a confirmation, and without one, from the
sweep.
"""
PAIRS = [
    "pair",
    "kernel",
    "configuration",
    "other",
    "other_configuration",
    "element_type",
    "problem",
    "state",
    "ratio",
    "low",
    "high",
    "within_low",
    "within_high",
    "processes",
    "tensor_cores",
    "verdict",
]
"""Columns of `pairs.csv`."""
REFUSED = "in the confirmation,"
"""The prefix of the reason for a configuration that failed in the confirmation."""
LARGEST_SQUARE = 4096
"""The largest square at which the ladder is shown. The power cap of the GPUs that the ladder was
made on slows larger ones.
"""
ROUNDS = [
    "kernel",
    "configuration",
    "element_type",
    "problem",
    "state",
    "process",
    "round",
    "time_us",
    "reference_us",
]
"""Columns of `rounds.csv`."""
REFERENCES = [
    "uuid",
    "kernel",
    "element_type",
    "m",
    "n",
    "k",
    "problem",
    "state",
    "process",
    "samples",
    "median_us",
    "sm_clock_mhz",
    "throttled_share",
]
"""Columns of `references.csv`."""
SAME_SERIES = 3
"""The number of first rounds whose reference times identify a series: candidates timed side by side
share them.
"""


def summarise(records: Sequence[Record], finalists: Finalists) -> pd.DataFrame:
    """Return a row per measurement of the sweep. Times are in microseconds, rates in TFLOP/s.

    Only rows with the status `correct` have rates and ratios. Intervals are within-run. A
    configuration that failed in the confirmation has that failure as its status here. A repeat
    keeps no sweep, so its finalists stand in for it.
    """
    rows = []
    for record in [record for record in records if not record["process"]] or _finalists(
        records, finalists
    ):
        row = {name: record[name] for name in COPIED} | {
            "problem": record["problem"],
            "samples": len(record["samples_us"] or []),
        }
        row |= {
            "reason": measurements.disturbed([record]) or record["reason"],
            "tensor_cores": measurements.uses_tensor_cores(record),
        }
        failure = finalists.failures.get(
            (record["kernel"], record["element_type"], record["configuration"])
        )
        if record["status"] == "correct" and failure:
            row |= {
                "status": failure["status"],
                "reason": f"{REFUSED} on {measurements.label(failure)}: {failure['reason']}",
            }
        elif record["status"] == "correct" and record["samples_us"]:
            time, ratio = (
                median_interval(record["samples_us"]),
                paired_ratio(record["reference_us"], record["samples_us"]),
            )
            reference_us, peaks = (
                median_interval(record["reference_us"])[0],
                (finalists.peak_tflops, finalists.per_clock),
            )
            row |= measurements.rates(record, time, ratio, reference_us, *peaks)
            row |= {
                "throttled_share": measurements.throttled_share([record]),
                "marks": "; ".join(measurements.marks([record], record)),
            }
        rows.append(row)
    columns = [
        *COPIED[:8],
        "problem",
        *COPIED[8:],
        "samples",
        "median_us",
        "low_us",
        "high_us",
        "tflops",
        "tflops_low",
        "tflops_high",
        "reference_us",
        "reference_tflops",
        "ratio",
        "ratio_low",
        "ratio_high",
        "peak_fraction",
        "clock_fraction",
        "tflop_per_j",
        "throttled_share",
        "marks",
        "tensor_cores",
    ]
    return pd.DataFrame(rows, columns=columns)


def _finalists(records: Sequence[Record], finalists: Finalists) -> list[Record]:
    """Return the first record of each finalist on each problem in each state, in the order of a
    sweep's files.
    """
    first: dict[tuple[Any, ...], Record] = {}
    for record in records:
        if record["role"] != "control":
            key = record["element_type"], record["problem"], record["state"]
            name = record["kernel"], record["configuration"]
            first.setdefault(
                (*key, *name), {**record, "tensor_cores": finalists.on_tensor_cores(key, name)}
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
        rows = [
            row
            for kernel, swept in summary.groupby("kernel", sort=False)
            for row in _best_of(finalists, str(kernel), swept)
        ]
    _mark_unsteady(rows)
    return pd.DataFrame(rows, columns=[*summary.columns, *OF_BEST])


def _mark_unsteady(rows: Iterable[dict[str, Any]]) -> None:
    """Mark all rows on a problem as `unsteady` if the reference differs too much from itself in the
    same rounds.
    """
    rated = [row for row in rows if pd.notna(row.get("ratio"))]
    unsteady = {
        tuple(row[name] for name in GROUP[1:])
        for row in rated
        if row["kernel"] == row["reference"]
        and not verdicts.steady(row["ratio"], row["ratio_low"], row["ratio_high"])
    }
    for row in rated:
        if tuple(row[name] for name in GROUP[1:]) in unsteady:
            row["marks"] = "; ".join(filter(None, [row["marks"], "unsteady"]))


def _best_of_sweep(summary: pd.DataFrame) -> list[dict[str, Any]]:
    rows = []
    for _, group in summary.groupby(GROUP, sort=False):
        correct = group[group["tflops"].notna() & (group["stop"] != "race")]
        if correct.empty:
            continue
        first = int(correct["ratio"].argmax())
        ties = correct["configuration"][tied(correct["ratio_low"], correct["ratio_high"], first)]
        row = correct.iloc[first].to_dict()
        common = {
            "configurations": len(group),
            "tied_with": "; ".join(ties),
            "interval": WITHIN,
            "processes": 1,
        }
        known = {"within_low": row["ratio_low"], "within_high": row["ratio_high"]}
        rows.append(
            {**row, **common, **known, "marks": "; ".join(filter(None, [row["marks"], "few"]))}
        )
    return rows


def _best_of(finalists: Finalists, kernel: str, swept: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of one kernel; `swept` has its results in the sweep."""
    rows: list[dict[str, Any]] = []
    found_warm: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in swept[swept["state"] == "warm"].to_dict("records"):
        found_warm.setdefault((row["element_type"], row["problem"]), []).append(row)
    for key, group in finalists.groups.items():
        warm = found_warm.get(key[:2], [])
        common = {"state": key[2], "configurations": len(warm), "interval": BETWEEN}
        names = [
            name
            for name, records in group.items()
            if name[0] == kernel and next(iter(records.values()))["role"] != "control"
        ]
        if not names:
            failed = [row for row in warm if str(row["reason"]).startswith(REFUSED)]
            rows += [{**row, **common, "processes": 0} for row in failed[:1]]
            continue
        faster = {
            name: pair
            for name in names[1:]
            if (pair := finalists.pair(key, name, names[0]))["verdict"] == "faster"
        }
        chosen = max(faster, key=lambda name: faster[name]["ratio"], default=names[0])
        ties = [
            name[1]
            for name in names
            if name != chosen
            and (
                (pair := finalists.pair(key, name, chosen))["verdict"] != "slower"
                or pair["ratio"] >= 1 - finalists.within
            )
        ]
        base = next(row for row in warm if row["configuration"] == chosen[1])
        timed = [row for row in warm if pd.notna(row["tflops"]) and row["stop"] != "race"]
        least = max((row["ratio"] for row in timed), default=math.inf) * (1 - finalists.within)
        near = {row["configuration"] for row in timed if row["ratio"] >= least}
        known = {"tied_with": "; ".join(ties), "left_out": len(near - {name[1] for name in names})}
        rows.append(base | common | known | finalists.row(key, chosen, base))
    for (name, key), record in finalists.as_warm.items():
        if name == kernel and not any(
            finalist[0] == kernel for finalist in finalists.groups.get(key, {})
        ):
            rows.append(
                {column: record[column] for column in COPIED}
                | {"problem": key[1], "interval": BETWEEN, "processes": 0}
            )
    return rows


def headline_problem(best: pd.DataFrame) -> str:
    """Return the label of the one problem at which figures, pages and hardware counters show the
    whole ladder.

    It is the largest square, up to `LARGEST_SQUARE`, among the problems that most kernels have in
    the first state measured. If there is no such square, it is the largest of those problems.
    `best` is the table of that name. Raises `InputError` if it has no rate.
    """
    rows = best[best["tflops"].notna()]
    rows = rows[rows["state"] == rows["state"].iloc[0]] if len(rows) else rows
    squares = rows[
        (rows["problem"].astype(str) == rows["m"].astype(str)) & (rows["m"] <= LARGEST_SQUARE)
    ]
    rows = squares if len(squares) else rows
    if rows.empty:
        raise InputError("best.csv: no kernel has a rate on any problem; expected one to draw")
    by_problem = rows.assign(size=rows["m"].astype(float) * rows["n"] * rows["k"]).groupby(
        "problem", sort=False
    )
    counts = by_problem.agg(kernels=("kernel", "nunique"), size=("size", "first"))
    return str(max(counts.index, key=lambda problem: tuple(counts.loc[problem])))


def rounds(records: Sequence[Record], best: pd.DataFrame, finalists: Finalists) -> pd.DataFrame:
    """Return the samples of the best configurations, a row per round: from the confirmation, or
    from the sweep without one.
    """
    rows: list[tuple[Any, ...]] = []
    named = best[best["tflops"].notna()]
    chosen = {
        tuple(row)
        for row in named[["kernel", "configuration", "element_type", "problem", "state"]]
        .to_numpy()
        .tolist()
    }
    for record in records:
        name = tuple(
            record[column]
            for column in ("kernel", "configuration", "element_type", "problem", "state")
        )
        if (
            name in chosen
            and record["status"] == "correct"
            and (finalists.left_out or record["process"])
        ):
            pairs = zip(record["samples_us"], record["reference_us"], strict=True)
            rows += [
                (*name, record["process"] or 1, number, *pair)
                for number, pair in enumerate(pairs, 1)
            ]
    return pd.DataFrame(rows, columns=ROUNDS)


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
        key = (
            record["uuid"],
            record["element_type"],
            record["problem"],
            record["state"],
            record["process"],
            *times[:SAME_SERIES],
        )
        if times and len(times) > series.get(key, {"samples": 0})["samples"]:
            median = median_interval(times)[0]
            row = {
                "problem": record["problem"],
                "samples": len(times),
                "median_us": median,
                "throttled_share": measurements.throttled_share([record]),
            }
            series[key] = {name: record[name] for name in REFERENCES if name in record} | row
    return pd.DataFrame(list(series.values()), columns=REFERENCES)


def pairs(
    summary: pd.DataFrame, best: pd.DataFrame, resources: pd.DataFrame, finalists: Finalists
) -> pd.DataFrame:
    """Return the pairwise comparisons: a row per pair, problem and state. `ratio` is the speedup of
    `kernel` over `other`.

    `gain`: each rung and the rung below it, each at its best. `null`: the reference's call as a
    candidate beside itself. `twins`: configurations of two kernels with the same binary, which only
    chance can tell apart. Ratios come from the rounds in which both were timed, with
    between-process and within-run intervals. Without a confirmation there are only gains, from
    ratios to the reference.
    """
    rows: list[dict[str, Any]] = []
    # kernels that round their operands solve an easier problem, so they are not rungs
    rungs = [
        kernel
        for kernel in dict.fromkeys(summary.loc[summary["precision"].isna(), "kernel"])
        if is_rung(kernel)
    ]
    labelled = {
        tuple(row[name] for name in GROUP): row
        for row in best[best["ratio"].notna()].to_dict("records")
    }
    binaries = {
        (row["kernel"], row["element_type"], row["configuration"]): row["sha256"]
        for row in resources.to_dict("records")
    }
    keys: dict[Key, None] = {group[1:]: None for group in labelled}
    for key in keys:

        def add(
            kind: str,
            name: tuple[str, str],
            other: tuple[str, str],
            compared: Mapping[str, Any],
            key: Key = key,
        ) -> None:
            names = {
                "pair": kind,
                "kernel": name[0],
                "configuration": name[1],
                "other": other[0],
                "other_configuration": other[1],
            }
            at = dict(zip(GROUP[1:], key, strict=True)) | {
                "tensor_cores": finalists.on_tensor_cores(key, name, other)
            }
            rows.append(names | at | dict(compared))

        for below, rung in pairwise(rungs):
            upper, lower = labelled.get((rung, *key)), labelled.get((below, *key))
            if upper and lower:
                first, other = (rung, upper["configuration"]), (below, lower["configuration"])
                quotient = {
                    "ratio": upper["ratio"] / lower["ratio"],
                    "processes": 1,
                    "verdict": verdicts.UNCONFIRMED,
                }
                add(
                    "gain",
                    first,
                    other,
                    quotient if finalists.left_out else finalists.pair(key, first, other),
                )
        group = finalists.groups.get(key, {})
        for first in group:
            if first[0] == summary["reference"].iloc[0]:
                add("null", first, first, finalists.ratio(key, first))
        for first, other in combinations(group, 2):
            sha256 = binaries.get((first[0], key[0], first[1]))
            if (
                first[0] != other[0]
                and sha256
                and sha256 == binaries.get((other[0], key[0], other[1]))
            ):
                add("twins", first, other, finalists.pair(key, first, other))
    return pd.DataFrame(rows, columns=PAIRS)


def costs(sessions: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the costs of each measure job's last run: wall time, gauntlet time, the share in which
    the device executed, peak memory.
    """
    columns = (
        "job",
        "measured",
        "wall_seconds",
        "busy_seconds",
        "gauntlet_seconds",
        "children",
        "peak_memory_bytes",
        "commit",
        "dirty",
    )
    table = pd.DataFrame(
        [{column: session.get(column) for column in columns} for session in sessions]
    )
    table["busy_share"] = table["busy_seconds"] / table["wall_seconds"]
    return table


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
        (row["kernel"], row["element_type"], row["configuration"]): row
        for row in resources.to_dict("records")
        if row["status"] == "compiled"
    }
    rows = []
    for given in summary.drop_duplicates(kernel_model.KEY).to_dict("records"):
        kernel = by_name.get(given["kernel"])
        resource = compiled.get((given["kernel"], given["element_type"], given["configuration"]))
        if kernel is None or resource is None:
            continue
        configuration = Configuration.of(given["element_type"], given["configuration"])
        if not {name for name, _ in configuration.parameters} <= kernel.parameters.keys():
            continue
        problem = Problem(**{name: given[name] for name in kernel_model.KEY[2:]})
        modelled = kernel_model.model(
            kernel, configuration, problem, resource, environment, given["tensor_cores"]
        )
        rows.append({name: given[name] for name in (*kernel_model.KEY, "problem")} | modelled)
    return pd.DataFrame(rows, columns=kernel_model.COLUMNS)
