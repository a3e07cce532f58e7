"""Evaluate the confirmation: finalists timed side by side, each in several fresh processes."""

import math
from collections import defaultdict
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from ladder.analysis import measurements
from ladder.analysis.measurements import Candidate, Record, candidate
from ladder.core import verdicts
from ladder.core.stats import between_processes, median_interval, within_processes
from ladder.core.types import FAILED, flops, tflops
from ladder.model.baselines import is_baseline
from ladder.model.campaign import FEWEST
from ladder.storage.samples import READINGS

AS_WARM = "as warm"
"""The prefix of the reason for a finalist that was not measured cold."""

Key = tuple[str, str, str]
"""Element type, problem and state, on which finalists were timed side by side."""
Name = tuple[str, str]
"""Kernel and configuration of a finalist."""
Estimate = tuple[float, float, float]
"""A value with the ends of its interval."""


def key_of(record: Record) -> Key:
    """Return the element type, problem and state of a measurement."""
    return record["element_type"], record["problem"], record["state"]


class Finalists:
    """The finalists of the confirmation, timed side by side on each problem and in each state, with
    one record per process.

    `within` is the campaign's `confirm.within`. `peak_tflops` is the measured float32 peak, and
    `per_clock` the device's float32 operations per clock. `left_out` is true if no record is from a
    confirmation.
    """

    def __init__(
        self,
        records: Sequence[Record] = (),
        within: float = 0.0,
        peak_tflops: float = math.nan,
        per_clock: float | None = None,
    ) -> None:
        self.within, self.peak_tflops, self.per_clock = within, peak_tflops, per_clock
        self.groups: dict[Key, dict[Name, dict[int, Record]]] = {}
        self.names = defaultdict[tuple[str, Key], list[Name]](list)
        """The names in the groups, by kernel."""
        self.as_warm = defaultdict[str, dict[Key, Record]](dict)
        """Kernels that were not timed cold because it makes no difference, each with the first
        record that says so.
        """
        self.failures: dict[Candidate, Record] = {}
        """The candidates that failed in the confirmation, each with its first failed record."""
        confirmed = [record for record in records if record["process"]]
        self.left_out = not confirmed
        for record in confirmed:
            if record["status"] in FAILED:
                self.failures.setdefault(candidate(record), record)
        for record in confirmed:
            key, name = key_of(record), (record["kernel"], record["configuration"])
            if str(record["reason"]).startswith(AS_WARM) and record["role"] != "control":
                self.as_warm[record["kernel"]].setdefault(key, record)
            if record["status"] == "correct" and candidate(record) not in self.failures:
                group = self.groups.setdefault(key, {})
                group.setdefault(name, {})[record["process"]] = record
        self.tensor_cores = {
            candidate(record) for record in records if measurements.uses_tensor_cores(record)
        }
        """The candidates that use the tensor cores."""
        for key, group in self.groups.items():
            self.tensor_cores |= _timed_apart(group)
            for name in group:
                self.names[name[0], key].append(name)

    def pair(self, key: Key, name: Name, other: Name) -> dict[str, Any]:
        """Return the speedup of `name` over `other`, with its intervals and verdict.

        It uses the rounds in which both were timed. If they were timed apart, because one uses the
        tensor cores, it uses their ratios to the reference.
        """
        of_name, of_other = self.groups[key][name], self.groups[key][other]
        processes = []
        for process in sorted({*of_name} & {*of_other}):
            one, another = of_name[process], of_other[process]
            if one["key"] == another["key"]:
                # a slow candidate takes part in the first rounds only
                rounds = min(len(one["samples_us"]), len(another["samples_us"]))
                processes.append(
                    np.divide(another["samples_us"][:rounds], one["samples_us"][:rounds])
                )
            else:  # timed apart
                first, second = (np.median(self._ratios(key, each)) for each in (one, another))
                processes.append(np.array([first / second]))
        return _estimate(processes)

    def ratio(self, key: Key, name: Name) -> dict[str, Any]:
        """Return the speedup of a finalist over the reference, in the form of `pair`."""
        records = self.groups[key][name]
        return _estimate([self._ratios(key, records[process]) for process in sorted(records)])

    def _ratios(self, key: Key, record: Record) -> Any:
        """Return a finalist's speedup over the reference in each round of a process."""
        return np.divide(self._reference_us(key, record), record["samples_us"])

    def _reference_us(self, key: Key, record: Record) -> Any:
        """Return the reference's times beside a finalist, or one for all rounds if the finalist
        uses the tensor cores.

        The power that the tensor cores draw slows the reference in the same rounds. So the time is
        the median of the process's rounds without them.
        """
        if candidate(record) in self.tensor_cores:
            for (kernel, _), of_processes in self.groups[key].items():
                beside = of_processes.get(record["process"])
                if kernel == record["reference"] and beside and beside["key"] != record["key"]:
                    return np.median(beside["reference_us"])
        return record["reference_us"]

    def on_tensor_cores(self, key: Key, *names: Name) -> bool:
        """Return whether any of these kernels and configurations uses the tensor cores."""
        return any((kernel, key[0], label) in self.tensor_cores for kernel, label in names)

    def row(self, key: Key, finalist: Name, swept: Record) -> dict[str, Any]:
        """Return the columns of `best.csv` for a finalist, except those of `swept`, its row of the
        sweep.
        """
        records = [record for _, record in sorted(self.groups[key][finalist].items())]
        compared = self.ratio(key, finalist)
        joules = [record["energy_j"] for record in records if record["energy_j"] is not None]
        few = ["few"] if len(records) < FEWEST else []
        row: dict[str, Any] = {
            "reason": measurements.disturbed(records),
            "stop": "; ".join(dict.fromkeys(record["stop"] for record in records)),
            "race": False,
            "repeats": records[0]["repeats"],
            "uuid": records[0]["uuid"],
            "samples": sum(len(record["samples_us"]) for record in records),
            "processes": len(records),
            "energy_processes": len(joules),
            "energy_low_j": min(joules) if len(joules) > 1 else None,
            "energy_high_j": max(joules) if len(joules) > 1 else None,
            "within_low": compared["within_low"],
            "within_high": compared["within_high"],
            "throttled_share": measurements.throttled_share(records),
            "throttle_reasons": reduce(
                or_, (record["throttle_reasons"] or 0 for record in records)
            ),
            "marks": "; ".join(measurements.marks(records, swept) + few),
        }
        for name in READINGS:
            known = [record[name] for record in records if record[name] is not None]
            row[name] = median_interval(known)[0] if known else None
        time = between_processes([record["samples_us"] for record in records])
        reference = between_processes(
            [np.atleast_1d(self._reference_us(key, record)) for record in records]
        )[0]
        ratio = compared["ratio"], compared["low"], compared["high"]
        return row | self.rates({**swept, **row}, time, ratio, reference)

    def rates(
        self, record: Record, time: Estimate, ratio: Estimate, reference_us: float
    ) -> dict[str, Any]:
        """Return columns of tables that follow from a time and a ratio. Times are in microseconds,
        rates in TFLOP/s.
        """
        size = record["m"], record["n"], record["k"]
        us, low_us, high_us = time
        rate = tflops(*size, us)
        row = {
            "median_us": us,
            "low_us": low_us,
            "high_us": high_us,
            "tflops": rate,
            "tflops_low": tflops(*size, high_us),
            "tflops_high": tflops(*size, low_us),
            "reference_us": reference_us,
            "reference_tflops": tflops(*size, reference_us),
            "ratio": ratio[0],
            "ratio_low": ratio[1],
            "ratio_high": ratio[2],
            "tflop_per_j": flops(*size) / 1e12 / record["energy_j"] if record["energy_j"] else None,
        }
        if record["element_type"] == "float32":
            clock = record["sm_clock_mhz"]
            row["peak_fraction"] = rate / self.peak_tflops
            if self.per_clock and clock:
                row["clock_fraction"] = rate * 1e6 / (self.per_clock * clock)
        return row


def _timed_apart(group: dict[Name, dict[int, Record]]) -> set[Candidate]:
    """Return the candidates that were not timed beside the reference, because they use the tensor
    cores.

    Nothing else in a confirmation shows that they do.
    """
    records = [record for of_processes in group.values() for record in of_processes.values()]
    beside = {
        record["process"]: record["key"]
        for record in records
        if record["kernel"] == record["reference"]
    }
    return {
        candidate(record)
        for record in records
        if not is_baseline(record["kernel"])
        and record["key"] != beside.get(record["process"], record["key"])
    }


def _estimate(processes: Sequence[Any]) -> dict[str, Any]:
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
