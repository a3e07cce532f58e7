"""What is published, as the pages ask for it."""

import math
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from ladder.analysis.dataset import Dataset
from ladder.claims import judge
from ladder.core import verdicts
from ladder.core.stats import between_processes
from ladder.figures.data import View
from ladder.model.kernel_file import discover
from ladder.storage.dataset_layout import DRAWN_FROM, PUBLISHED, read_environment
from ladder.storage.published_index import featured

Row = Mapping[str, Any]


class Story:
    """The kernels of a checkout, what is published of them, by one dataset of each device kind, warm, in float32, and its studies.

    It is the one that the text was written about, else the first.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.found: dict[str, View] = {}
        self.kernels = {kernel.name: kernel for kernel in discover(root).values()}

    @cached_property
    def folders(self) -> dict[str, Path]:
        """The folder of the featured run of each device and campaign."""
        return featured(self.root / PUBLISHED)

    @cached_property
    def data(self) -> dict[str, View]:
        """The dataset of each device kind."""
        views: dict[str, View] = {}
        for name, folder in self.folders.items():
            kind = read_environment(folder / "environment.json")["kind"]
            if kind not in views:
                views[kind] = self.published(name)
        return views

    def published(self, name: str) -> View:
        """The featured run of DEVICE/CAMPAIGN."""
        if name not in self.found:
            dataset = Dataset.open(self.folders[name], self.kernels.values())
            float32 = {name: table[table["element_type"] == "float32"] for name, table in dataset.tables(DRAWN_FROM).items()}
            self.found[name] = View(float32, dataset.environment, "warm")
        return self.found[name]

    def campaign(self, name: str) -> View | None:
        """The same, where there is one."""
        return self.published(name) if name in self.folders else None

    @cached_property
    def entries(self) -> list[dict[str, Any]]:
        """What all published data say to the claims."""
        return judge.of_published(self.root)

    def ladder(self, kind: str) -> list[str]:
        """The names of a kind's kernels in their order."""
        return [name for name, kernel in self.kernels.items() if kernel.kind == kind]

    def dataset(self, kernel: str) -> View | None:
        """What is published about devices of the kernel's kind."""
        return self.data.get(self.kernels[kernel].kind) if kernel in self.kernels else None

    def beside(self, kernel: str) -> View | None:
        """The same, of a vendor's call too."""
        return next((data for data in self.data.values() if kernel in data.baselines), None) or self.dataset(kernel)

    def best(self, kernel: str, problem: str, data: View | None = None) -> Row | None:
        """The kernel's best configuration on a problem."""
        data = data or self.dataset(kernel)
        if data is None:
            return None
        rows = data.best[(data.best["kernel"] == kernel) & (data.best["problem"] == problem)].to_dict("records")
        return rows[0] if rows else None

    def gain(self, kernel: str, problem: str) -> Row | None:
        """The row of `pairs.csv` of the kernel against the rung below it, each at its best, with the `marks` of either."""
        data = self.dataset(kernel)
        row = data.gain(kernel, problem) if data else None
        if row is None or row["other"] != self.below(kernel):
            return None
        both = [self.best(name, problem, data) for name in (row["kernel"], row["other"])]
        return {**row, "marks": "; ".join(str(part["marks"]) for part in both if part)}

    def over(self, kernel: str, other: str, problem: str) -> Row | None:
        """How many times as fast as another kernel, or call, one is, each at its best: `ratio` and `verdict`, as those of `pairs.csv`.

        By rounds in which both were timed; where they were timed apart, by their ratios to the reference.
        """
        data = self.beside(kernel)
        if data is None:
            return None
        rounds = data.rounds[data.rounds["problem"] == problem].set_index(["process", "round"])
        of_kernel, of_other = (rounds.loc[rounds["kernel"] == it, ["time_us", "reference_us"]] for it in (kernel, other))
        processes = []
        for process in sorted({*of_kernel.index.get_level_values(0)} & {*of_other.index.get_level_values(0)}):
            first, two = of_kernel.loc[process], of_other.loc[process]
            both = first.join(two.add_suffix("_other"), how="inner")
            if (both["reference_us"] == both["reference_us_other"]).all():  # the reference's are the same in the same rounds
                processes.append(list(both["time_us_other"] / both["time_us"]))
            else:
                ratios = [(times["reference_us"] / times["time_us"]).median() for times in (first, two)]
                processes.append([ratios[0] / ratios[1]])
        if not processes:
            return None
        ratio, low, high = between_processes(processes)
        return {"ratio": ratio, "verdict": verdicts.of(low, high) if math.isfinite(high) else verdicts.UNCONFIRMED}

    def below(self, kernel: str) -> str | None:
        """The rung below of the same precision: one that rounds its operands solves an easier problem than one that does not."""
        if kernel not in self.kernels:
            return None
        own = self.kernels[kernel]
        alike = [name for name in self.ladder(own.kind) if self.kernels[name].precision == own.precision]
        index = alike.index(kernel)
        return alike[index - 1] if index else None
