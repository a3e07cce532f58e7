"""Evaluate the confirmation: finalists timed side by side, each in several fresh processes."""

import math
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from ladder.analysis import measurements
from ladder.analysis.measurements import Record
from ladder.core import verdicts
from ladder.core.stats import between_processes, median_interval, within_processes
from ladder.model.baselines import is_baseline
from ladder.model.campaign import FEWEST
from ladder.storage.samples import READINGS

AS_WARM = "as warm"
"""The prefix of the reason for a finalist that was not measured cold."""

Key = tuple[str, str, str]
"""Element type, problem and state, on which finalists were timed side by side."""


class Finalists:
    """The finalists of the confirmation, timed side by side on each problem and in each state, with
    one record per process.

    `within` is the campaign's `confirm.within`. The peaks are those of `summarise`. `left_out` is
    true if no record is from a confirmation.
    """

    def __init__(
        self,
        records: Sequence[Record] = (),
        within: float = 0.0,
        peak_tflops: float = math.nan,
        per_clock: float | None = None,
    ) -> None:
        self.within, self.peak_tflops, self.per_clock = within, peak_tflops, per_clock
        self.left_out = not any(record["process"] for record in records)
        self.groups: dict[Key, dict[tuple[str, str], dict[int, Record]]] = {}
        self.as_warm: dict[tuple[str, Key], Record] = {}
        """Kernels that were not timed cold because it makes no difference, each with the first
        record that says so.
        """
        self.tensor_cores: set[tuple[str, str, str]] = set()
        """Kernels, element types and configurations that use the tensor cores."""
        self.failures = measurements.failures(records)
        for record in records:
            name = record["kernel"], record["element_type"], record["configuration"]
            if measurements.uses_tensor_cores(record):
                self.tensor_cores.add(name)
            key = record["element_type"], record["problem"], record["state"]
            if (
                record["process"]
                and str(record["reason"]).startswith(AS_WARM)
                and record["role"] != "control"
            ):
                self.as_warm.setdefault((record["kernel"], key), record)
            if record["process"] and record["status"] == "correct" and name not in self.failures:
                self.groups.setdefault(key, {}).setdefault((name[0], name[2]), {})[
                    record["process"]
                ] = record
        self.tensor_cores |= self._timed_apart()

    def _timed_apart(self) -> set[tuple[str, str, str]]:
        """Return the kernels, element types and configurations that were not timed beside the
        reference, because they use the tensor cores.

        Nothing else in a confirmation shows that they do.
        """
        apart = set()
        for group in self.groups.values():
            records = [
                record for of_processes in group.values() for record in of_processes.values()
            ]
            beside = {
                record["process"]: record["key"]
                for record in records
                if record["kernel"] == record["reference"]
            }
            for record in records:
                if not is_baseline(record["kernel"]) and record["key"] != beside.get(
                    record["process"], record["key"]
                ):
                    apart.add((record["kernel"], record["element_type"], record["configuration"]))
        return apart

    def pair(self, key: Key, name: tuple[str, str], other: tuple[str, str]) -> dict[str, Any]:
        """Return the speedup of `name` over `other`, both a kernel and a configuration, with its
        intervals and verdict.

        It uses the rounds in which both were timed. If they were timed apart, because one uses the
        tensor cores, it uses their ratios to the reference.
        """
        of_name, of_other = self.groups[key][name], self.groups[key][other]
        processes = []
        for process in sorted({*of_name} & {*of_other}):
            ours, others = (record[process]["samples_us"] for record in (of_name, of_other))
            if of_name[process]["key"] == of_other[process]["key"]:
                # a slow candidate takes part in the first rounds only
                rounds = min(len(ours), len(others))
                processes.append(np.divide(others[:rounds], ours[:rounds]))
            else:  # timed apart
                ratios = [
                    np.median(self._ratios(key, of_finalist[process]))
                    for of_finalist in (of_name, of_other)
                ]
                processes.append(np.array([ratios[0] / ratios[1]]))
        return _estimate(processes)

    def ratio(self, key: Key, name: tuple[str, str]) -> dict[str, Any]:
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
        if self.on_tensor_cores(key, (record["kernel"], record["configuration"])):
            for (kernel, _), of_processes in self.groups[key].items():
                beside = of_processes.get(record["process"])
                if kernel == record["reference"] and beside and beside["key"] != record["key"]:
                    return np.median(beside["reference_us"])
        return record["reference_us"]

    def on_tensor_cores(self, key: Key, *candidates: tuple[str, str]) -> bool:
        """Return whether any of these kernels and configurations uses the tensor cores."""
        return any(
            (kernel, key[0], configuration) in self.tensor_cores
            for kernel, configuration in candidates
        )

    def row(self, key: Key, finalist: tuple[str, str], swept: Record) -> dict[str, Any]:
        """Return the columns of `best.csv` for a finalist, except those of `swept`, its row of the
        sweep.
        """
        records = [record for _, record in sorted(self.groups[key][finalist].items())]
        compared = self.ratio(key, finalist)
        row: dict[str, Any] = {
            name: _middle(record[name] for record in records) for name in READINGS
        }
        joules = [record["energy_j"] for record in records if record["energy_j"] is not None]
        few = ["few"] if len(records) < FEWEST else []
        row |= {
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
        time = between_processes([record["samples_us"] for record in records])
        reference = between_processes(
            [np.atleast_1d(self._reference_us(key, record)) for record in records]
        )[0]
        ratio = compared["ratio"], compared["low"], compared["high"]
        return row | measurements.rates(
            {**swept, **row}, time, ratio, reference, self.peak_tflops, self.per_clock
        )


def _middle(values: Iterable[float | None]) -> float | None:
    """Return the median of the known values, or None if there are none."""
    known = [value for value in values if value is not None]
    return median_interval(known)[0] if known else None


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
