"""Evaluate the confirmation: finalists timed side by side, each in several fresh processes."""

import math
from collections import defaultdict
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import pyarrow as pa

from ladder.analysis import measurements
from ladder.analysis.measurements import Candidate, Known, Record, candidate
from ladder.core import verdicts
from ladder.core.stats import between_processes, median_interval, within_processes
from ladder.core.types import OF_CUDA
from ladder.model.baselines import is_baseline
from ladder.storage.dataset_layout import READINGS
from ladder.storage.samples import rows

AS_WARM = "as warm"
"""The prefix of the reason for a finalist that was not measured cold."""

Key = tuple[str, str, str]
"""Element type, problem and state, on which finalists were timed side by side."""
Name = tuple[str, str]
"""Kernel and configuration of a finalist."""


def key_of(record: Record) -> Key:
    """Return the element type, problem and state of a measurement."""
    return record["element_type"], record["problem"], record["state"]


class Finalists:
    """The finalists of the confirmation, or of a part of it, timed side by side on each problem and
    in each state, with one record per process.

    `left_out` is true if there is no record.
    """

    def __init__(self, measured: pa.Table, known: Known) -> None:
        self.within, self.left_out = known.within, not len(measured)
        self.groups: dict[Key, dict[Name, dict[int, Record]]] = {}
        self.names = defaultdict[tuple[str, Key], list[Name]](list)
        """The names in the groups, by kernel."""
        for record in rows(measured):
            key, name = key_of(record), (record["kernel"], record["configuration"])
            if record["status"] == "correct" and candidate(record) not in known.failures:
                group = self.groups.setdefault(key, {})
                group.setdefault(name, {})[record["process"]] = record
        self.tensor_cores = set(known.tensor_cores)
        """The candidates that use the tensor cores."""
        for key, group in self.groups.items():
            self.tensor_cores |= _timed_apart(group)
            for name in group:
                self.names[name[0], key].append(name)

    def pair(self, key: Key, name: Name, other: Name) -> dict[str, Any]:
        """Return the speedup of `name` over `other`, with its intervals and verdict.

        It uses the rounds in which both were timed. If they were timed apart, it uses their ratios
        to the reference.
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

    def apart(self, key: Key, reference: Name) -> dict[str, Any] | None:
        """Return the speedup of the reference beside finalists that were timed apart over itself in
        its own rounds, in the form of `pair`; None if none were.
        """
        own, processes = self.groups[key][reference], {}
        for of_processes in self.groups[key].values():
            for process, record in of_processes.items():
                beside = own.get(process, record)
                if beside["key"] != record["key"]:
                    us = [np.median(each["reference_us"]) for each in (beside, record)]
                    processes[process] = np.array([us[0] / us[1]])
        return _estimate(list(processes.values())) if processes else None

    def _ratios(self, key: Key, record: Record) -> Any:
        """Return a finalist's speedup over the reference in each round of a process."""
        return np.divide(self._reference_us(key, record), record["samples_us"])

    def _reference_us(self, key: Key, record: Record) -> Any:
        """Return the reference's times beside a finalist, or one for all rounds if the finalist
        uses the tensor cores and the reference does not.

        The power that the tensor cores draw slows such a reference in the same rounds. So the time
        is the median of the process's rounds without them. In 16 bits the reference draws as much
        itself.
        """
        if candidate(record) in self.tensor_cores and key[0] not in OF_CUDA:
            for (kernel, _), of_processes in self.groups[key].items():
                beside = of_processes.get(record["process"])
                if kernel == record["reference"] and beside and beside["key"] != record["key"]:
                    return np.median(beside["reference_us"])
        return record["reference_us"]

    def on_tensor_cores(self, key: Key, *names: Name) -> bool:
        """Return whether any of these kernels and configurations uses the tensor cores."""
        return any((kernel, key[0], label) in self.tensor_cores for kernel, label in names)

    def row(self, key: Key, finalist: Name) -> dict[str, Any]:
        """Return the columns of `best.csv` for a finalist, except those of the sweep and those that
        `measurements.evaluated` adds.
        """
        records = [record for _, record in sorted(self.groups[key][finalist].items())]
        compared = self.ratio(key, finalist)
        joules = [record["energy_j"] for record in records if record["energy_j"] is not None]
        others = max(record["other_processes"] or 0 for record in records)
        beside = [np.atleast_1d(self._reference_us(key, record)) for record in records]
        times = [record["samples_us"] for record in records]
        us, low_us, high_us = between_processes(times)
        bits = [record["samples_throttle_reasons"] or [] for record in records]
        row: dict[str, Any] = {
            "reason": measurements.disturbed(records[0]["reference"], others),
            "other_processes": others,
            "stop": "; ".join(dict.fromkeys(record["stop"] for record in records)),
            "race": False,
            "repeats": records[0]["repeats"],
            "bits": records[0]["bits"],
            "uuid": records[0]["uuid"],
            "samples": sum(map(len, times)),
            "processes": len(records),
            "energy_processes": len(joules),
            "energy_low_j": min(joules) if len(joules) > 1 else None,
            "energy_high_j": max(joules) if len(joules) > 1 else None,
            "median_us": us,
            "low_us": low_us,
            "high_us": high_us,
            "reference_us": between_processes(beside)[0],
            "ratio": compared["ratio"],
            "ratio_low": compared["low"],
            "ratio_high": compared["high"],
            "within_low": compared["within_low"],
            "within_high": compared["within_high"],
            "throttled_share": measurements.throttled_share(np.concatenate(bits)),
            "throttle_reasons": reduce(
                or_, (record["throttle_reasons"] or 0 for record in records)
            ),
        }
        row |= measurements.unsteadiness(times, [record["reference_us"] for record in records])
        for name in READINGS:
            known = [record[name] for record in records if record[name] is not None]
            row[name] = median_interval(known)[0] if known else math.nan
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
