"""Read published data for the pages."""

import hashlib
import pickle
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from ladder.analysis.dataset import Dataset
from ladder.analysis.repeatability import FEWEST_MACHINES
from ladder.analysis.tables import BETWEEN
from ladder.claims import judge
from ladder.claims.definitions import Key
from ladder.claims.evidence import Data, Finding, as_usual, over_machines
from ladder.core import files
from ladder.figures.data import View
from ladder.figures.precisions import DATASETS
from ladder.model.baselines import BASELINES
from ladder.model.kernel_file import discover
from ladder.pipeline import code_digest
from ladder.pipeline.datasets import judged_by
from ladder.storage.dataset_layout import COUNTERS, DRAWN_FROM, PUBLISHED
from ladder.storage.published_index import INDEX, featured, kind_of

Row = Mapping[str, Any]


OF_16_BITS = ("nvidia-h200/half", "nvidia-h200/half-unseen")
"""The datasets of the rungs that have no float32. The pages show their bfloat16. A problem is from
the first dataset that has it.
"""


class Unmeasured(Exception):
    """What a marker asks for was not measured yet."""


class Story:
    """The kernels of a checkout, the published data about them, and the studies.

    The data are from one dataset of each device kind, warm, in float32: the headline dataset, else
    the first one.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.views: dict[tuple[str, str, str], View] = {}
        self.datasets: dict[str, Dataset] = {}
        self.tables: dict[str, dict[str, pd.DataFrame]] = {}
        self.kernels = {kernel.name: kernel for kernel in discover(root).values()}

    @cached_property
    def folders(self) -> dict[str, Path]:
        """The folder of the featured run of each device and campaign."""
        return featured(self.root / PUBLISHED)

    def view(self, kind: str) -> View:
        """Return the first dataset of a device kind. Raises `Unmeasured` if there is none."""
        for name in self.folders:
            if kind_of(name) == kind:
                return self.campaign(name)
        raise Unmeasured

    def campaign(self, name: str, element_type: str = "float32", state: str = "warm") -> View:
        """Return the featured run of DEVICE/CAMPAIGN. Raises `Unmeasured` if there is none."""
        key = name, element_type, state
        if key not in self.views:
            dataset = self.opened(name)
            if name not in self.tables:
                self.tables[name] = dataset.tables(DRAWN_FROM)
            typed = {
                name: table[table["element_type"] == element_type]
                for name, table in self.tables[name].items()
            }
            self.views[key] = View(typed, dataset.environment, state)
        return self.views[key]

    def opened(self, name: str) -> Dataset:
        """Return the featured run of DEVICE/CAMPAIGN with all of its types and states.
        Raises `Unmeasured` if there is none.
        """
        if name not in self.folders:
            raise Unmeasured
        if name not in self.datasets:
            self.datasets[name] = Dataset.open(self.folders[name], self.kernels.values())
        return self.datasets[name]

    def precisions(self) -> list[View]:
        """Return what the figure of precisions shows of the featured runs."""
        return [
            self.campaign(name, element_type, "sustained")
            for name, element_type in DATASETS
            if name in self.folders
        ]

    def of_16_bits(self) -> list[View]:
        """Return the datasets of the rungs that have no float32, in bfloat16."""
        return [self.campaign(name, "bfloat16") for name in OF_16_BITS if name in self.folders]

    @cached_property
    def counts(self) -> tuple[str, pd.DataFrame] | None:
        """The name of the GPU and the rows of the first featured run with hardware counters, or
        None.
        """
        for name, folder in self.folders.items():
            counts = self.opened(name).counters if (folder / COUNTERS).exists() else None
            if counts is not None:
                return self.opened(name).environment["name"], counts[counts["reason"].isna()]
        return None

    @cached_property
    def everything(self) -> list[Data]:
        """All published runs with their tables, repeats too, the earliest first. They take
        long to compute, so they are kept until the data or the code change.
        """
        paths = [*judged_by(self.root / PUBLISHED), self.root / PUBLISHED / INDEX]
        data = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
        made_of = files.digest([code_digest.digest("claims.judge"), data])
        kept = self.root / "results" / ".book"
        if kept.exists():
            everything: list[Data]
            before, everything = pickle.loads(kept.read_bytes())
            if before == made_of:
                return everything
        everything = judge.published_data(self.root)
        files.write_whole(kept, pickle.dumps((made_of, everything)))
        return everything

    @cached_property
    def entries(self) -> list[dict[str, Any]]:
        """The entries of all claims for the published data."""
        return judge.of_published(self.root, self.everything)

    @cached_property
    def confirmed(self) -> dict[Key, list[tuple[Data, Row]]]:
        """The rows of `best` of all runs that are in float32, confirmed and compiled as usual, by
        device model, kernel, problem and state.
        """
        by_key: dict[Key, list[tuple[Data, Row]]] = {}
        for run in self.everything:
            for row in filter(as_usual, run.rows["best"]):
                if row["element_type"] == "float32" and row["interval"] == BETWEEN:
                    key = run.environment["device"], row["kernel"], row["problem"], row["state"]
                    by_key.setdefault(key, []).append((run, row))
        return by_key

    def over_machines(self, row: Row, data: View) -> Row:
        """Return a row of `best` with its ratio to the reference as the mean over the `machines` of
        the model that measured its binary.

        With fewer than `FEWEST_MACHINES` it is that of the row, of one machine.
        """
        key = data.environment["device"], row["kernel"], row["problem"], row["state"]
        every = self.confirmed.get(key, [])
        own = [each for run, each in every if run.environment == data.environment]
        runs = [(run, each) for run, each in every if own and each["binary"] == own[0]["binary"]]
        if len({run.machine for run, _ in runs}) < FEWEST_MACHINES:
            return {**row, "machines": 1}
        ratios = ("ratio", "ratio_low", "ratio_high")
        mean = over_machines(
            [(run, Finding((), *(each[name] for name in ratios))) for run, each in runs]
        )
        numbers = dict(zip(ratios, (mean.value, mean.low, mean.high), strict=True))
        return {**row, **numbers, "machines": mean.machines}

    def ladder(self, kind: str, in_float32: bool = True) -> list[str]:
        """Return the names of a kind's rungs in their order: those with float32, or those
        without.
        """
        return [
            kernel.name
            for kernel in self.kernels.values()
            if kernel.kind == kind
            and not kernel.rival
            and ("float32" in kernel.element_types) == in_float32
        ]

    def dataset(self, kernel: str, problem: str = "") -> View:
        """Return the dataset of the device kind of a kernel or baseline. For a kernel without
        float32, it is the first of `OF_16_BITS` with the problem, or the first. Raises `Unmeasured`
        if there is none.
        """
        for kind, names in BASELINES.items():
            if kernel in names:
                return self.view(kind)
        if kernel not in self.kernels:
            raise Unmeasured
        own = self.kernels[kernel]
        if "float32" in own.element_types:
            return self.view(own.kind)
        views = self.of_16_bits()
        if not views:
            raise Unmeasured
        return next((view for view in views if problem in view.order), views[0])

    def best(self, kernel: str, problem: str) -> Row | None:
        """Return the kernel's best configuration on a problem."""
        return self.dataset(kernel, problem).best_rows.get((kernel, problem))

    def gain(self, kernel: str, problem: str) -> Row | None:
        """Return the speedup over the rung that the kernel builds on, each at its best."""
        data, base = self.dataset(kernel, problem), self.builds_on(kernel)
        return data.gain(kernel, base, problem) if base else None

    def builds_on(self, kernel: str) -> str | None:
        """Return the rung that the kernel improves: that of its header, else the one numbered below
        of the same precision.

        A kernel that rounds its operands solves an easier problem.
        """
        own = self.kernels[kernel]
        if own.builds_on:
            return own.builds_on
        rungs = self.ladder(own.kind, "float32" in own.element_types)
        alike = [name for name in rungs if self.kernels[name].precision == own.precision]
        index = alike.index(kernel) if kernel in alike else 0
        return alike[index - 1] if index else None
