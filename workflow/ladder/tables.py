"""From raw samples to tables: what the sweep found, the best configuration of every kernel, and who is faster than whom by pairs."""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import combinations, pairwise
from operator import or_
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ladder import jobs, verdicts
from ladder.campaign import BASELINE_JOB, CONFIRMED, FEWEST, VARIED, Problem, is_baseline
from ladder.jobs import write_whole
from ladder.records import read
from ladder.statistics import DRIFT, between_processes, median_interval, paired_ratio, tied, trend, within_processes
from ladder.units import FAILED, InputError, flops, tflops

COPIED = [
    "device", "kernel", "configuration", "element_type", "precision", "m", "n", "k", "alpha", "beta", "padding", "distribution", "state",
    "status", "reason", "stop", "race", "reference", "repeats", "frobenius_error", "component_error", "component_bound",
    "sm_clock_mhz", "memory_clock_mhz", "temperature_c", "throttle_reasons", "energy_j",
    "uuid",
]  # fmt: skip
GROUP = ["kernel", "element_type", "problem", "state"]
OF_BEST = ["configurations", "tied_with", "interval", "processes", "within_low", "within_high", "energy_low_j", "energy_high_j"]
"""Columns of `best.csv` beyond those of `summary.csv`."""
BETWEEN, WITHIN = "between-process", "within-run"
"""What the column `interval` of `best.csv` says of the intervals: from a confirmation, or, where it was left out, from the sweep."""
PAIRS = [
    "pair", "kernel", "configuration", "other", "other_configuration", "element_type", "problem", "state", "ratio",
    "low", "high", "within_low", "within_high", "processes", "tensor_cores", "verdict",
]  # fmt: skip
"""Columns of `pairs.csv`."""
GAPS = 1.25
"""Times as long as where it was timed a launch may take in a stretch of them; power and heat account for less."""
REFUSED = "in the confirmation,"
"""How the reason begins of what failed there."""
AS_WARM = "as warm"
"""How the reason begins of what was not measured cold."""
SHOWN = 4096
"""The ladder is shown at a square of at most this size: larger ones are held back by the power cap of the GPUs it was made on."""
ROUNDS = ["kernel", "configuration", "element_type", "problem", "state", "process", "round", "time_us", "reference_us"]
"""Columns of `rounds.csv`."""
REFERENCES = ["uuid", "kernel", "element_type", "m", "n", "k", "problem", "state", "process", "samples", "median_us",
              "sm_clock_mhz", "throttled_share"]  # fmt: skip
"""Columns of `references.csv`."""
SAME_SERIES = 3
"""Rounds by whose times of the reference a series is known: contestants that were timed side by side have them in common."""
READINGS = ("sm_clock_mhz", "memory_clock_mhz", "temperature_c")
MULTIMODAL = 1.05
"""The quotient of the 90th to the 10th percentile of the times from which one median tells too little."""
THROTTLED = 0xFC
"""Bits of NVML's clock event reasons that hold the clock down: power cap, slowdowns, sync boost; not idling and not clocks chosen."""
MEND = "Where it is committed, restore the dataset: git checkout. Else run its campaign again"

Record = Mapping[str, Any]
Key = tuple[str, str, str]
"""Element type, problem and state: what finalists were timed side by side on."""


def files(folder: Path) -> list[Path]:
    """The files with the samples of the dataset in a folder: those of the sweep, then that of the confirmation if there is one."""
    return [*sorted((folder / "samples").glob("*.parquet")), *folder.glob(f"{CONFIRMED}.parquet")]


def load(samples: Sequence[Path], environment: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The measurements of a dataset, with those of its confirmation if that is one of the files, and the session of each file.

    Raises `InputError` where files are of another environment than `environment`, of several versions
    of the measuring code, of another job than their name says, or not those that the confirmation was made from: a dataset is one whole.
    """
    records, sessions = [], []
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
    _check_code(samples, sessions)
    _check_jobs(samples, sessions)
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


def summarise(records: Sequence[Record], peak_tflops: float, per_clock: float | None = None) -> pd.DataFrame:
    """A row a measurement of the sweep; rates and ratios only where the status is `correct`. Times in microseconds, rates in TFLOP/s.

    `peak_tflops` is that of float32, measured, and `per_clock` the float32 operations of a clock. Intervals are within-run. What fails in
    the confirmation is no better here.
    """
    rows, failed = [], refused(records)
    for record, problem in zip(records, labels(records), strict=True):
        if record["process"]:
            continue
        row = {name: record[name] for name in COPIED} | {"problem": problem, "samples": len(record["samples_us"] or [])}
        row |= {"reason": _disturbed([record]) or record["reason"], "tensor_cores": uses_tensor_cores(record)}
        failure = failed.get((record["kernel"], record["element_type"], record["configuration"]))
        if record["status"] == "correct" and failure:
            row |= {"status": failure["status"], "reason": f"{REFUSED} on {labels([failure])[0]}: {failure['reason']}"}
        elif record["status"] == "correct" and record["samples_us"]:
            time, ratio = median_interval(record["samples_us"]), paired_ratio(record["reference_us"], record["samples_us"])
            row |= _rates(record, time, ratio, median_interval(record["reference_us"])[0], peak_tflops, per_clock)
            row |= {"throttled_share": _throttled_share([record]), "marks": "; ".join(marks([record]))}
        rows.append(row)
    columns = [*COPIED[:8], "problem", *COPIED[8:], "samples", "median_us", "low_us", "high_us", "tflops", "tflops_low", "tflops_high",
               "reference_us", "reference_tflops", "ratio", "ratio_low", "ratio_high", "peak_fraction", "clock_fraction", "tflop_per_j",
               "throttled_share", "marks", "tensor_cores"]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def _rates(
    record: Record,
    time: tuple[float, float, float],
    ratio: tuple[float, float, float],
    reference_us: float,
    peak_tflops: float,
    per_clock: float | None,
) -> dict[str, Any]:
    """What follows from a time and a ratio, each with the ends of its interval."""
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


def _disturbed(records: Sequence[Record]) -> str:
    """What to say of a value that was measured while others computed on the device, or ""."""
    others = max(record["other_processes"] or 0 for record in records)
    return f"timed while {others} other process(es) computed on the device" if others else ""


def uses_tensor_cores(record: Record) -> bool:
    """Whether what was measured uses the tensor cores: by its binary, or, of a baseline, by its precision."""
    return bool(record["tensor_cores"]) or record["precision"] == "tf32"


def _back_to_back(record: Record) -> bool:
    """Whether the launches of which the energy was counted followed each other: in gaps the board draws power that is not theirs."""
    if record["energy_j"] is None:
        return False
    return bool(record["energy_j"] / record["power_w"] * 1e6 <= GAPS * median_interval(record["samples_us"])[0])


def _middle(values: Iterable[float | None]) -> float | None:
    """The median of what is known."""
    known = [value for value in values if value is not None]
    return median_interval(known)[0] if known else None


def _throttled_share(records: Sequence[Record]) -> float | None:
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
        "throttled": bool(_throttled_share(records)),
        "drifting": max(abs(trend(*times)), abs(trend(*ratios))) > DRIFT,
        "multimodal": bool(high > MULTIMODAL * low),
        "raced": any(record["stop"] == "race" for record in records),
    }
    return [mark for mark, holds in found.items() if holds]


class Confirmed:
    """What the confirmation timed side by side: on each problem and in each state the finalists, each with a record a process.

    `within` is the campaign's `confirm.within`; the peaks are those of `summarise`. `left_out` where no record is the confirmation's.
    """

    def __init__(
        self, records: Sequence[Record] = (), within: float = 0.0, peak_tflops: float = math.nan, per_clock: float | None = None
    ) -> None:
        self.within, self.peak_tflops, self.per_clock = within, peak_tflops, per_clock
        self.left_out = not any(record["process"] for record in records)
        self.groups: dict[Key, dict[tuple[str, str], dict[int, Record]]] = {}
        self.as_warm: dict[tuple[str, Key], Record] = {}
        """Kernels that were not timed cold, since it makes no difference there, with the first record that says so."""
        self.tensor_cores: set[tuple[str, str, str]] = set()
        """Kernels, element types and configurations that use them."""
        failed = refused(records)
        for record, problem in zip(records, labels(records), strict=True):
            name = record["kernel"], record["element_type"], record["configuration"]
            if uses_tensor_cores(record):
                self.tensor_cores.add(name)
            key = record["element_type"], problem, record["state"]
            if record["process"] and str(record["reason"]).startswith(AS_WARM) and record["role"] != "control":
                self.as_warm.setdefault((record["kernel"], key), record)
            if record["process"] and record["status"] == "correct" and name not in failed:
                self.groups.setdefault(key, {}).setdefault((name[0], name[2]), {})[record["process"]] = record

    def pair(self, key: Key, one: tuple[str, str], other: tuple[str, str]) -> dict[str, Any]:
        """How many times as fast as `other` `one` is, both kernels and configurations, by rounds in which both were timed.

        Where they were timed apart, for one uses the tensor cores, by their ratios to the reference.
        """
        mine, theirs = self.groups[key][one], self.groups[key][other]
        processes = []
        for process in sorted({*mine} & {*theirs}):
            ours, others = (record[process]["samples_us"] for record in (mine, theirs))
            if mine[process]["key"] == theirs[process]["key"]:
                rounds = min(len(ours), len(others))  # a slow one takes part in the first ones only
                processes.append(np.divide(others[:rounds], ours[:rounds]))
            else:  # timed apart, each beside the reference
                ratios = [np.median(np.divide(r[process]["reference_us"], r[process]["samples_us"])) for r in (mine, theirs)]
                processes.append(np.array([ratios[0] / ratios[1]]))
        return _compared(processes)

    def ratio(self, key: Key, one: tuple[str, str]) -> dict[str, Any]:
        """The same against the reference of the same rounds."""
        records = self.groups[key][one]
        return _compared([np.divide(records[p]["reference_us"], records[p]["samples_us"]) for p in sorted(records)])

    def on_tensor_cores(self, key: Key, *contestants: tuple[str, str]) -> bool:
        """Whether one of these kernels and configurations uses the tensor cores."""
        return any((kernel, key[0], configuration) in self.tensor_cores for kernel, configuration in contestants)

    def row(self, key: Key, one: tuple[str, str], swept: Record) -> dict[str, Any]:
        """The columns of `best.csv` for a finalist that the confirmation finds: all but those that `swept`, its row of the sweep, has."""
        records = [record for _, record in sorted(self.groups[key][one].items())]
        found = self.ratio(key, one)
        row: dict[str, Any] = {name: _middle(record[name] for record in records) for name in READINGS}
        joules = [record["energy_j"] for record in records if _back_to_back(record)]
        row |= {
            "reason": _disturbed(records),
            "stop": "; ".join(dict.fromkeys(record["stop"] for record in records)),
            "race": False,
            "repeats": records[0]["repeats"],
            "uuid": records[0]["uuid"],
            "samples": sum(len(record["samples_us"]) for record in records),
            "processes": len(records),
            "energy_j": _middle(joules),
            "energy_low_j": min(joules, default=None),
            "energy_high_j": max(joules, default=None),
            "within_low": found["within_low"],
            "within_high": found["within_high"],
            "throttled_share": _throttled_share(records),
            "throttle_reasons": reduce(or_, (record["throttle_reasons"] or 0 for record in records)),
            "marks": "; ".join([*marks(records), *(["few"] if len(records) < FEWEST else [])]),
        }
        time = between_processes([record["samples_us"] for record in records])
        reference = between_processes([record["reference_us"] for record in records])[0]
        ratio = found["ratio"], found["low"], found["high"]
        return row | _rates({**swept, **row}, time, ratio, reference, self.peak_tflops, self.per_clock)


def _compared(processes: Sequence[Any]) -> dict[str, Any]:
    ratio, low, high = between_processes(processes)
    within_low, within_high = within_processes(processes)
    return {
        "ratio": ratio,
        "low": low,
        "high": high,
        "within_low": within_low,
        "within_high": within_high,
        "processes": len(processes),
        "verdict": verdicts.of(low, high),
    }


def best(summary: pd.DataFrame, confirmed: Confirmed) -> pd.DataFrame:
    """The best configuration of every kernel on every problem, in every state.

    By the confirmation: the sweep's best, unless another finalist is distinguishably faster by direct pairs. Tied with it are finalists
    that are not distinguishable from it, or at most `confirm.within` slower. Times, rates and ratios have between-process intervals, the
    ratio a within-run one too, energy the range of its processes. A kernel whose finalists all failed there, or are as warm, has a row that
    says so, without rates.

    Where the confirmation was left out it is the one of the sweep with the highest ratio to the reference, tied with those whose
    intervals overlap its own; all intervals are within-run. What lost the race is neither best nor tied: it has fewer samples.
    """
    if confirmed.left_out:
        rows = _best_of_sweep(summary)
    else:
        rows = [row for _, swept in summary.groupby("kernel", sort=False) for row in _best_of(confirmed, swept)]
    return pd.DataFrame(rows, columns=[*summary.columns, *OF_BEST])


def _best_of_sweep(summary: pd.DataFrame) -> list[dict[str, Any]]:
    rows = []
    for _, group in summary.groupby(GROUP, sort=False):
        correct = group[group["tflops"].notna() & (group["stop"] != "race")]
        if correct.empty:
            continue
        first = int(correct["ratio"].argmax())
        ties = correct["configuration"][tied(correct["ratio_low"], correct["ratio_high"], first)]
        row = correct.iloc[first].to_dict()
        common = {"configurations": len(group), "tied_with": "; ".join(ties), "interval": WITHIN, "processes": 1}
        known = {"within_low": row["ratio_low"], "within_high": row["ratio_high"]}
        rows.append({**row, **common, **known, "marks": "; ".join(filter(None, [row["marks"], "few"]))})
    return rows


def _best_of(confirmed: Confirmed, swept: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of one kernel, of which `swept` has what the sweep found."""
    rows, kernel = [], str(swept["kernel"].iloc[0])
    for key, group in confirmed.groups.items():
        element_type, problem, state = key
        warm = swept[(swept["element_type"] == element_type) & (swept["problem"] == problem)]
        warm = warm[warm["state"] == "warm"]
        common = {"state": state, "configurations": len(warm), "interval": BETWEEN}
        names = [name for name, found in group.items() if name[0] == kernel and next(iter(found.values()))["role"] != "control"]
        if not names:
            failed = [row for row in warm.to_dict("records") if str(row["reason"]).startswith(REFUSED)]
            rows += [{**row, **common, "processes": 0} for row in failed[:1]]
            continue
        faster = {name: pair for name in names[1:] if (pair := confirmed.pair(key, name, names[0]))["verdict"] == "faster"}
        chosen = max(faster, key=lambda name: faster[name]["ratio"], default=names[0])
        ties = [
            name[1]
            for name in names
            if name != chosen
            and ((pair := confirmed.pair(key, name, chosen))["verdict"] != "slower" or pair["ratio"] >= 1 - confirmed.within)
        ]
        base = warm[warm["configuration"] == chosen[1]].iloc[0].to_dict()
        rows.append(base | common | {"tied_with": "; ".join(ties)} | confirmed.row(key, chosen, base))
    for (name, key), record in confirmed.as_warm.items():
        if name == kernel and not any(one[0] == kernel for one in confirmed.groups.get(key, {})):
            rows.append({column: record[column] for column in COPIED} | {"problem": key[1], "interval": BETWEEN, "processes": 0})
    return rows


def shown(best: pd.DataFrame) -> str:
    """The label of the one problem that the ladder is shown at, in figures, in the story and to hardware counters.

    Of the squares up to `SHOWN` (of all problems, where there is none) it is the largest of those that most kernels have warm, or in the
    first state measured. `best` is the table of that name; raises `InputError` where it has no rate at all.
    """
    rows = best[best["tflops"].notna()]
    rows = rows[rows["state"] == rows["state"].iloc[0]] if len(rows) else rows
    squares = rows[(rows["problem"].astype(str) == rows["m"].astype(str)) & (rows["m"] <= SHOWN)]
    rows = squares if len(squares) else rows
    if rows.empty:
        raise InputError("best.csv: no kernel has a rate on any problem; expected one to draw")
    found = rows.assign(size=rows["m"].astype(float) * rows["n"] * rows["k"]).groupby("problem", sort=False)
    counts = found.agg(kernels=("kernel", "nunique"), size=("size", "first"))
    return str(max(counts.index, key=lambda problem: tuple(counts.loc[problem])))


def rounds(records: Sequence[Record], best: pd.DataFrame) -> pd.DataFrame:
    """The samples of the best configurations, a row a round: those of the confirmation, or of the sweep where it was left out."""
    left_out, rows = Confirmed(records).left_out, []
    named = best[best["tflops"].notna()]
    chosen = {tuple(row) for row in named[["kernel", "configuration", "element_type", "problem", "state"]].to_numpy().tolist()}
    for record, problem in zip(records, labels(records), strict=True):
        name = record["kernel"], record["configuration"], record["element_type"], problem, record["state"]
        if name in chosen and record["status"] == "correct" and (left_out or record["process"]):
            pairs = zip(record["samples_us"], record["reference_us"], strict=True)
            rows += [(*name, record["process"] or 1, number, *pair) for number, pair in enumerate(pairs, 1)]
    return pd.DataFrame(rows, columns=ROUNDS)


def references(records: Sequence[Record]) -> pd.DataFrame:
    """The reference's series of samples, a row each, however many contestants were timed beside it: how GPUs of a model differ.

    Contestants of the same rounds have the same series, of which those that left early have the beginning. `kernel` is one of them;
    `process` is empty where the series is the sweep's. Times in microseconds.
    """
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for record, problem in zip(records, labels(records), strict=True):
        times = record["reference_us"] or []
        key = record["uuid"], record["element_type"], problem, record["state"], record["process"], *times[:SAME_SERIES]
        if times and len(times) > found.get(key, {"samples": 0})["samples"]:
            median = median_interval(times)[0]
            row = {"problem": problem, "samples": len(times), "median_us": median, "throttled_share": _throttled_share([record])}
            found[key] = {name: record[name] for name in REFERENCES if name in record} | row
    return pd.DataFrame(list(found.values()), columns=REFERENCES)


def pairs(summary: pd.DataFrame, best: pd.DataFrame, resources: pd.DataFrame, confirmed: Confirmed) -> pd.DataFrame:
    """Who is faster than whom: a row a pair, problem and state; `ratio` is how many times as fast as `other` `kernel` is.

    `gain`: each rung against the rung below it, each at its best. `null`: the reference's call as a contestant against itself.
    `twins`: two kernels' configurations with the same binary, which only chance can tell apart. By the rounds in which both were timed, with
    between-process and within-run intervals; where the confirmation was left out there are only gains, from ratios to the reference.
    """
    rows: list[dict[str, Any]] = []
    # what rounds its operands solves an easier problem, and is no rung
    rungs = [kernel for kernel in dict.fromkeys(summary.loc[summary["precision"].isna(), "kernel"]) if not is_baseline(kernel)]
    labelled = {tuple(row[name] for name in GROUP): row for row in best[best["ratio"].notna()].to_dict("records")}
    binaries = {(row["kernel"], row["element_type"], row["configuration"]): row["sha256"] for row in resources.to_dict("records")}
    keys: dict[Key, None] = {group[1:]: None for group in labelled}
    for key in keys:

        def add(kind: str, one: tuple[str, str], other: tuple[str, str], found: Mapping[str, Any], key: Key = key) -> None:
            names = {"pair": kind, "kernel": one[0], "configuration": one[1], "other": other[0], "other_configuration": other[1]}
            at = dict(zip(GROUP[1:], key, strict=True)) | {"tensor_cores": confirmed.on_tensor_cores(key, one, other)}
            rows.append(names | at | dict(found))

        for below, rung in pairwise(rungs):
            mine, theirs = labelled.get((rung, *key)), labelled.get((below, *key))
            if mine and theirs:
                one, other = (rung, mine["configuration"]), (below, theirs["configuration"])
                quotient = {"ratio": mine["ratio"] / theirs["ratio"], "processes": 1, "verdict": verdicts.UNCONFIRMED}
                add("gain", one, other, quotient if confirmed.left_out else confirmed.pair(key, one, other))
        group = confirmed.groups.get(key, {})
        for one in group:
            if one[0] == summary["reference"].iloc[0]:
                add("null", one, one, confirmed.ratio(key, one))
        for one, other in combinations(group, 2):
            sha256 = binaries.get((one[0], key[0], one[1]))
            if one[0] != other[0] and sha256 and sha256 == binaries.get((other[0], key[0], other[1])):
                add("twins", one, other, confirmed.pair(key, one, other))
    return pd.DataFrame(rows, columns=PAIRS)


def costs(sessions: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """What each measure job's last run took: wall time, the share of it in which the device was executing, a child's peak memory."""
    columns = ("job", "measured", "wall_seconds", "busy_seconds", "children", "peak_memory_bytes", "commit", "dirty")
    table = pd.DataFrame([{column: session.get(column) for column in columns} for session in sessions])
    table["busy_share"] = table["busy_seconds"] / table["wall_seconds"]
    return table


def to_csv(table: pd.DataFrame) -> bytes:
    """A table with six significant digits, the same bytes for the same data."""
    text: str = table.to_csv(index=False, float_format="%.6g", lineterminator="\n")
    return text.encode()


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a table as `to_csv` has it."""
    write_whole(path, to_csv(table))


def read_csv(path: Path) -> pd.DataFrame:
    """A table that `write_csv` wrote. Raises `InputError` for another file."""
    try:
        found = pd.read_csv(path, keep_default_na=False, na_values=[""])
    except (OSError, ValueError) as error:  # pandas' own errors are ValueErrors
        raise InputError(f"{path}: not a table: {error}. {jobs.MEND}") from None
    if not {"kernel", "job", "problem"} & set(found):
        raise InputError(
            f"{path}: got the columns {', '.join(map(str, found))[:200]}; expected kernel, job or problem to be one. {jobs.MEND}"
        )
    return found
