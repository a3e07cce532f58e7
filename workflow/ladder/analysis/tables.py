"""Turn measurements into tables: the sweep's results, the best configuration of every kernel, and
pairwise comparisons.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from ladder.analysis import kernel_model, measurements
from ladder.analysis.finalists import AS_WARM, Finalists, Name, key_of
from ladder.analysis.measurements import Candidate, Known, candidate, keys, stacked
from ladder.core import verdicts
from ladder.core.stats import median_interval, paired_ratio, tied
from ladder.model.baselines import BASELINE_JOB, is_baseline
from ladder.model.kernel import Configuration, Kernel
from ladder.model.kernel_file import device_names
from ladder.model.problem import Problem
from ladder.storage.columns import names
from ladder.storage.csv_files import WRITTEN
from ladder.storage.rows import headline
from ladder.storage.samples import CANDIDATE, SCHEMA

COPIED = [
    name
    for name in names("summary")
    if name in (*SCHEMA.names, "problem") and name not in ("reference_us", "tensor_cores")
]
"""The columns that tables take from samples unchanged."""
EVALUATED = [
    "median_us",
    "low_us",
    "high_us",
    "ratio",
    "ratio_low",
    "ratio_high",
    "reference_us",
    "throttled_share",
    "drifting",
    "multimodal",
]
"""The columns that `summarize` makes of the samples of each row."""
PROBLEM = ["kernel", "element_type", "problem"]
GROUP = [*PROBLEM, "state"]
BETWEEN, WITHIN = "between-process", "within-run"
"""Values of the column `interval` of `best.csv`: with a confirmation, and without one, from the
sweep.
"""
REFUSED = "in the confirmation,"
"""The prefix of the reason for a configuration that failed in the confirmation."""
SAME_SERIES = 3
"""The number of first rounds whose reference times identify a series: candidates timed side by side
share them.
"""


def summarize(measured: pd.DataFrame, known: Known) -> pd.DataFrame:
    """Return a row per measurement of the sweep, with more columns than `summary` has. Times are in
    microseconds, rates in TFLOP/s.

    Only rows with the status `correct` have rates and ratios. Intervals are within-run. A
    configuration that failed in the confirmation has that failure as its status here.
    """
    table = measured[[*COPIED, *measurements.LISTS]].assign(
        samples=measured["samples_us"].str.len(),
        tensor_cores=measurements.uses_tensor_cores(measured),
        other_processes=measured["other_processes"].fillna(0),
    )
    others = table.loc[table["other_processes"] > 0, ["reference", "other_processes"]]
    table.loc[others.index, "reason"] = [
        measurements.disturbed(*row) for row in others.itertuples(index=False)
    ]
    correct = table[table["status"] == "correct"]
    failures = pd.Series(
        map(known.failures.get, keys(correct, *CANDIDATE)), correct.index, object
    ).dropna()
    table.loc[failures.index, "status"] = failures.str[0]
    table.loc[failures.index, "reason"] = failures.str[1]
    made = pd.DataFrame(np.nan, table.index, EVALUATED)
    timed = table[(table["status"] == "correct") & (table["samples"] > 0)]
    for rows, times, beside, reasons in stacked(timed, *measurements.LISTS):
        columns = [
            *median_interval(times),
            *paired_ratio(beside, times),
            median_interval(beside)[0],
            measurements.throttled_share(reasons),
            *measurements.unsteadiness([times], [beside]).values(),
        ]
        made.loc[rows] = np.column_stack(columns)
    return measurements.evaluated(table.assign(**made), known)


def first_of_finalists(measured: pd.DataFrame, finalists: Finalists) -> pd.DataFrame:
    """Return what stands in for the sweep of a repeat, which keeps none: the first measurement of
    each finalist on each problem in each state, in the order of a sweep's files.
    """
    first = measured[measured["role"] != "control"].drop_duplicates([*GROUP, "configuration"])
    jobs = [BASELINE_JOB if is_baseline(kernel) else kernel for kernel in first["kernel"]]
    on_tensor_cores = [each in finalists.tensor_cores for each in keys(first, *CANDIDATE)]
    first = first.assign(tensor_cores=on_tensor_cores, job=jobs)
    return first.sort_values("job", kind="stable", ignore_index=True)


def kept(
    summary: pd.DataFrame, confirmed: Collection[tuple[Any, ...]], within: float
) -> pd.DataFrame:
    """Return the rows of `summary` that `best` needs if there is a confirmation: those that were
    `confirmed`, by kernel, element type, problem and configuration, and those that failed there.

    `configurations` counts all rows on the problem, and `near` those with a ratio of `least` or
    more, at most `within` below the highest.
    """
    warm = summary[summary["state"] == "warm"]
    timed = warm["ratio"].where(warm["stop"] != "race")
    problem = [warm[name] for name in PROBLEM]
    least = timed.groupby(problem).transform("max") * (1 - within)
    warm = warm.assign(
        configurations=warm.groupby(problem)["kernel"].transform("size"),
        near=(timed >= least).groupby(problem).transform("sum"),
        is_near=timed >= least,
    )
    chosen = np.array([each in confirmed for each in keys(warm, *PROBLEM, "configuration")])
    failed = warm["reason"].str.startswith(REFUSED, na=False)
    return warm[failed | chosen].drop(columns=[*measurements.LISTS])


def best_of_sweep(summary: pd.DataFrame) -> pd.DataFrame:
    """Return rows of `best` without a confirmation: the configurations with the highest ratio to
    the reference.

    Configurations with overlapping intervals are tied with them. All intervals are within-run.
    Configurations that were stopped early are neither best nor tied, because they have fewer
    samples.
    """
    rows = []
    for _, group in summary.groupby(GROUP, sort=False):
        correct = group[group["tflops"].notna() & (group["stop"] != "race")]
        if correct.empty:
            continue
        first = int(correct["ratio"].argmax())
        ties = correct["configuration"][tied(correct["ratio_low"], correct["ratio_high"], first)]
        row = correct.iloc[first].to_dict()
        rows.append(
            row
            | {
                "configurations": len(group),
                "tied_with": "; ".join(ties),
                "interval": WITHIN,
                "processes": 1,
                "within_low": row["ratio_low"],
                "within_high": row["ratio_high"],
            }
        )
    return pd.DataFrame(rows, columns=list(dict.fromkeys([*names("best"), *summary])))


def best_of_finalists(
    swept: pd.DataFrame, measured: pd.DataFrame, finalists: Finalists
) -> pd.DataFrame:
    """Return rows of `best` with a confirmation, or a part of it, with the finalists that were `measured`; `swept` is
    as from `kept`.

    The best is the sweep's best, unless another finalist is distinguishably faster
    by direct pairs. Finalists are tied with it if they are not distinguishable from it, or at most
    `confirm.within` slower. Times, rates and ratios have between-process intervals; the ratio has a
    within-run interval too, and energy has the range of its processes. `left_out` counts the
    configurations that the sweep found as near as the finalists, but for which
    `confirmation.finalists` had no room. If all finalists of a kernel failed there, or were not
    timed cold because it makes no difference, its row says so and has no rates.
    """
    by_problem = defaultdict[tuple[str, ...], list[dict[str, Any]]](list)
    for row in swept.to_dict("records"):
        by_problem[row["element_type"], row["problem"], row["kernel"]].append(row)
    rows: list[dict[str, Any]] = []
    for kernel in swept["kernel"].unique():
        for key, group in finalists.groups.items():
            warm = by_problem.get((*key[:2], kernel), [])
            common = {"state": key[2], "interval": BETWEEN}
            here = [
                name
                for name in finalists.names[kernel, key]
                if next(iter(group[name].values()))["role"] != "control"
            ]
            if not here:
                failed = [row for row in warm if str(row["reason"]).startswith(REFUSED)]
                rows += [{**row, **common, "processes": 0} for row in failed[:1]]
                continue
            compared = {name: finalists.pair(key, name, here[0]) for name in here[1:]}
            faster = [name for name in compared if compared[name]["verdict"] == "faster"]
            chosen = max(faster, key=lambda name: compared[name]["ratio"], default=here[0])
            ties = []
            for name in (each for each in here if each != chosen):
                pair = finalists.pair(key, name, chosen)
                if pair["verdict"] != "slower" or pair["ratio"] >= 1 - finalists.within:
                    ties.append(name[1])
            base = next(row for row in warm if row["configuration"] == chosen[1])
            found = sum(row["is_near"] and (kernel, row["configuration"]) in here for row in warm)
            common |= {"tied_with": "; ".join(ties), "left_out": base["near"] - found}
            rows.append(base | common | finalists.row(key, chosen))
    extra = ("drifting", "multimodal", "other_processes")
    table = pd.DataFrame(rows, columns=[*names("best"), *extra])
    as_warm = measured["reason"].str.startswith(AS_WARM, na=False) & (measured["role"] != "control")
    others = measured.loc[as_warm, COPIED].drop_duplicates(GROUP)
    untimed = [not finalists.names[kernel, (*key,)] for kernel, *key in keys(others, *GROUP)]
    return pd.concat([table, others[untimed].assign(interval=BETWEEN, processes=0)])


def best(parts: Sequence[pd.DataFrame], known: Known) -> pd.DataFrame:
    """Return the best configuration of every kernel on every problem, in every state, from rows of
    `best_of_finalists` or `best_of_sweep`.

    Rows on a problem on which the reference differs too much from itself are marked `unsteady`. If
    no row has `bits`, there is no such column: tables of older data stay as they are published.
    """
    table = measurements.evaluated(pd.concat(parts), known)[names("best")]
    table = table.sort_values(
        "kernel", key=lambda column: pd.factorize(column)[0], kind="stable", ignore_index=True
    )
    rated = table[table["ratio"].notna()]
    unsteady = {
        key_of(row)
        for row in rated[rated["kernel"] == rated["reference"]].to_dict("records")
        if not verdicts.steady(row["ratio"], row["ratio_low"], row["ratio_high"])
    }
    where = rated.index[[key in unsteady for key in keys(rated, *GROUP[1:])]]
    marks = table.loc[where, "marks"] + "; unsteady"
    table.loc[where, "marks"] = marks.str.removeprefix("; ")
    return table if table["bits"].notna().any() else table.drop(columns="bits")


def headline_problem(best: pd.DataFrame) -> str:
    """Return what `storage.rows.headline` does, from the table `best`. Raises `InputError` if it has
    no rate.
    """
    needed = ["kernel", "problem", "state", *"mnk"]
    return headline(best.loc[best["tflops"].notna(), needed].to_dict("records"))


def rounds(measured: pd.DataFrame, best: pd.DataFrame) -> pd.DataFrame:
    """Return the samples of the best configurations, a row per round: from the confirmation, or
    from the sweep without one.
    """
    which = ["kernel", "configuration", "element_type", "problem", "state"]
    timed = measured.loc[measured["status"] == "correct"].rename(columns={"samples_us": "time_us"})
    rows = timed.merge(best.loc[best["median_us"].notna(), which])
    table = rows[[*which, "process", "time_us", "reference_us"]].explode(
        ["time_us", "reference_us"]
    )
    return table.assign(
        process=table["process"].fillna(1).astype(int), round=table.groupby(level=0).cumcount() + 1
    ).astype({"time_us": float, "reference_us": float})[names("rounds")]


def references(measured: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each series of the reference's samples, however many candidates were timed
    beside it. It shows how GPUs differ.

    Candidates of the same rounds share a series; those that left early have only its beginning.
    `kernel` is one of them.
    `process` is empty for a series of the sweep. Times are in microseconds.
    """
    table = measured.assign(samples=measured["reference_us"].str.len())
    table = table[table["samples"] > 0]
    table["beginning"] = [times[:SAME_SERIES].tobytes() for times in table["reference_us"]]
    same = ["uuid", *GROUP[1:], "process", "beginning"]
    series = table.groupby(same, sort=False, dropna=False)["samples"]
    table = table.loc[series.idxmax()]
    made = pd.DataFrame(np.nan, table.index, ["median_us", "throttled_share"])
    for rows, times, reasons in stacked(table, "reference_us", "samples_throttle_reasons"):
        columns = [median_interval(times)[0], measurements.throttled_share(reasons)]
        made.loc[rows] = np.column_stack(columns)
    return table.assign(**made)[names("references")]


def pairs(
    best: pd.DataFrame,
    rungs: Sequence[str],
    reference: str,
    binaries: Mapping[Candidate, str],
    finalists: Finalists,
) -> pd.DataFrame:
    """Return the pairwise comparisons: a row per pair, problem and state. `ratio` is the speedup of
    `kernel` over `other`.

    `gain`: each rung and the rung below it, each at its best. `null`: the reference's call as a
    candidate beside itself. `apart`: the reference beside candidates in separate rounds, over that in
    its own. `twins`: configurations of two kernels with the same binary, which only
    chance can tell apart. Ratios come from the rounds in which both were timed, with
    between-process and within-run intervals. Without a confirmation there are only gains, from
    ratios to the reference.

    `best` has the rows of the finalists' problems, and `binaries` the SHA-256 of each candidate's
    binary.
    """
    rows = []
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
            if first[0] == reference:
                compared.append(("null", first, first, finalists.ratio(key, first)))
                if apart := finalists.apart(key, first):
                    compared.append(("apart", first, first, apart))
        of_binary = {name: binaries.get((name[0], key[0], name[1])) for name in group}
        alike = defaultdict[str | None, list[Name]](list)
        for name, sha256 in of_binary.items():
            alike[sha256].append(name)
        for first, sha256 in of_binary.items():
            alike[sha256].remove(first)
            for other in alike[sha256] if sha256 else ():
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


def compiled_kernels(
    kernels: Iterable[Kernel], resources: pd.DataFrame
) -> dict[Candidate, tuple[Kernel, Configuration, dict[str, Any]]]:
    """Return the kernel, the configuration and the compiler's report of each compiled candidate.

    A kernel has none if its file is gone or no longer has the parameters.
    """
    by_name, found = {kernel.name: kernel for kernel in kernels}, {}
    for row in resources[resources["status"] == "compiled"].to_dict("records"):
        configuration = Configuration.of(row["element_type"], row["configuration"])
        kernel = by_name.get(row["kernel"])
        if kernel and {name for name, _ in configuration.parameters} <= kernel.parameters.keys():
            found[candidate(row)] = kernel, configuration, row
    return found


def models(
    summary: pd.DataFrame,
    compiled: Mapping[Candidate, tuple[Kernel, Configuration, Mapping[str, Any]]],
    environment: Mapping[str, Any],
) -> Iterator[pd.DataFrame]:
    """Yield the model of every kernel, configuration and problem that ran, in pieces; `compiled` is
    as from `compiled_kernels`. Values that a kernel does not declare are empty.
    """
    device, key = device_names(environment), kernel_model.KEY

    @cache
    def named(layout: str, *values: Any) -> tuple[Problem, dict[str, Any]]:
        given = dict(zip(key[2:], values, strict=True))
        problem = Problem(**given, layout=layout)
        return problem, problem.names() | device

    table = summary[[*key, "problem", "tensor_cores"]].drop_duplicates(key)
    for start in range(0, max(len(table), 1), WRITTEN):
        rows = []
        for row in table[start : start + WRITTEN].to_dict("records"):
            if of_kernel := compiled.get(candidate(row)):
                kernel, configuration, resource = of_kernel
                problem, given = named(configuration.layout, *(row[name] for name in key[2:]))
                model = kernel_model.model(
                    kernel,
                    configuration,
                    problem,
                    resource,
                    environment,
                    row["tensor_cores"],
                    given,
                )
                rows.append(row | model)
        yield pd.DataFrame(rows, columns=names("models"))
