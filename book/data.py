"""Read published data for the pages."""

import hashlib
import json
from collections.abc import Callable, Mapping
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
from ladder.model.kernel_file import discover
from ladder.pipeline import code_digest
from ladder.storage.dataset_layout import CLAIMS, COUNTERS, DRAWN_FROM, PUBLISHED, read_environment
from ladder.storage.published_index import featured

Row = Mapping[str, Any]


OF_16_BITS = ("nvidia-h200/half", "nvidia-h200/half-unseen")
"""The datasets of the rungs that have no float32. The pages show their bfloat16. A problem is from
the first dataset that has it.
"""


KEPT = ("kernel", "problem", "state", "median_us", "ratio", "ratio_low", "ratio_high")
"""The columns of `best` that the means over machines need."""


def _confirmed_of(run: Data) -> dict[str, Any]:
    """Return a run's name, environment, and rows of `best` that are in float32, confirmed and
    compiled as usual.
    """
    rows = [
        {**{name: row[name] for name in KEPT}, "problem": str(row["problem"])}
        for row in run.rows["best"]
        if row["element_type"] == "float32" and row["interval"] == BETWEEN and as_usual(row)
    ]
    return {"name": run.name, "environment": run.environment, "rows": rows}


class Story:
    """The kernels of a checkout, the published data about them, and the studies.

    The data are from one dataset of each device kind, warm, in float32: the headline dataset, else
    the first one.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.views: dict[tuple[str, str, str], View] = {}
        self.datasets: dict[str, Dataset] = {}
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

    def published(self, name: str, element_type: str = "float32", state: str = "warm") -> View:
        """Return the featured run of DEVICE/CAMPAIGN."""
        key = name, element_type, state
        if key not in self.views:
            dataset = self.opened(name)
            typed = {
                name: table[table["element_type"] == element_type]
                for name, table in dataset.tables(DRAWN_FROM).items()
            }
            self.views[key] = View(typed, dataset.environment, state)
        return self.views[key]

    def opened(self, name: str) -> Dataset:
        """Return the featured run of DEVICE/CAMPAIGN with all of its types and states."""
        if name not in self.datasets:
            self.datasets[name] = Dataset.open(self.folders[name], self.kernels.values())
        return self.datasets[name]

    def campaign(
        self, name: str, element_type: str = "float32", state: str = "warm"
    ) -> View | None:
        """Return the featured run of DEVICE/CAMPAIGN, or None if there is none."""
        return self.published(name, element_type, state) if name in self.folders else None

    def precisions(self) -> list[View]:
        """Return what the figure of precisions shows of the featured runs."""
        views = (self.campaign(name, element_type, "sustained") for name, element_type in DATASETS)
        return [view for view in views if view]

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
        """All published runs with their tables, repeats too, the earliest first: half a minute."""
        return judge.published_data(self.root)

    @cached_property
    def entries(self) -> list[dict[str, Any]]:
        """The entries of all claims for the published data."""
        entries: list[dict[str, Any]] = self._kept(
            "entries", lambda: judge.of_published(self.root, self.everything)
        )
        return entries

    @cached_property
    def runs(self) -> list[tuple[Data, list[Row]]]:
        """All published runs, the earliest first, with the rows of `best` that are in float32,
        confirmed and compiled as usual.
        """
        made = self._kept("runs", lambda: [_confirmed_of(run) for run in self.everything])
        return [(Data(run["name"], run["environment"], {}), run["rows"]) for run in made]

    def _kept(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what `make` makes of all runs: of `results/.book/`, if it was made of the same
        data by the same code.
        """
        published = self.root / PUBLISHED
        paths = [
            *published.rglob("*.parquet"),
            *published.glob("*.yaml"),
            *published.glob("repeat-*.csv"),
            self.root / CLAIMS,
        ]
        state = [
            hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(paths) if path.exists()
        ]
        key = files.digest([code_digest.digest("claims.judge"), state])
        path = self.root / "results" / ".book" / f"{name}.json"
        if path.exists() and (kept := files.read_json(path))["key"] == key:
            return kept["made"]
        # one way for both: numbers of NumPy become Python's
        text = json.dumps({"key": key, "made": make()}, default=lambda number: number.item())
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_whole(path, text.encode())
        return json.loads(text)["made"]

    @cached_property
    def confirmed(self) -> dict[Key, list[tuple[Data, Row]]]:
        """The rows of `runs` by device model, kernel, problem and state."""
        by_key: dict[Key, list[tuple[Data, Row]]] = {}
        for run, rows in self.runs:
            for row in rows:
                key = str(run.environment["device"]), row["kernel"], row["problem"], row["state"]
                by_key.setdefault(key, []).append((run, row))
        return by_key

    def over_machines(self, row: Row, data: View) -> Row:
        """Return a row of `best` with its ratio to the reference as the mean over the `machines` of
        the model that have it.

        With fewer than `FEWEST_MACHINES` it is that of the row, of one machine.
        """
        runs = self.confirmed.get(
            (data.environment["device"], row["kernel"], row["problem"], row["state"]), []
        )
        if len({run.machine for run, _ in runs}) < FEWEST_MACHINES:
            return {**row, "machines": 1}
        mean = over_machines(
            [(run, Finding((), it["ratio"], it["ratio_low"], it["ratio_high"])) for run, it in runs]
        )
        return {
            **row,
            "ratio": mean.value,
            "ratio_low": mean.low,
            "ratio_high": mean.high,
            "machines": mean.machines,
        }

    def ladder(self, kind: str, in_float32: bool = True) -> list[str]:
        """Return the names of a kind's rungs in their order: those with float32, or those
        without.
        """
        kernels = [
            it
            for it in self.kernels.values()
            if it.kind == kind and ("float32" in it.element_types) == in_float32
        ]
        return [kernel.name for kernel in kernels if not kernel.rival]

    def dataset(self, kernel: str, problem: str = "") -> View | None:
        """Return the dataset of the kernel's device kind. Without float32, it is the first of
        `OF_16_BITS` with the problem, or the first.
        """
        if kernel not in self.kernels:
            return None
        own = self.kernels[kernel]
        if "float32" in own.element_types:
            return self.data.get(own.kind)
        views = [view for name in OF_16_BITS if (view := self.campaign(name, "bfloat16"))]
        return next((view for view in views if problem in view.order), views[0] if views else None)

    def beside(self, kernel: str, problem: str = "") -> View | None:
        """Return the dataset of the device kind of a kernel or baseline."""
        return next(
            (data for data in self.data.values() if kernel in data.baselines), None
        ) or self.dataset(kernel, problem)

    def best(self, kernel: str, problem: str, data: View | None = None) -> Row | None:
        """Return the kernel's best configuration on a problem."""
        data = data or self.dataset(kernel, problem)
        if data is None:
            return None
        return data.best_rows.get((kernel, problem))

    def gain(self, kernel: str, problem: str) -> Row | None:
        """Return the speedup over the rung that the kernel builds on, each at its best, with the
        `marks` of both.
        """
        data, base = self.dataset(kernel, problem), self.builds_on(kernel)
        row = data.gain(kernel, base, problem) if data and base else None
        if row is None:
            return None
        both = [self.best(str(name), problem, data) for name in (kernel, base)]
        return {
            **row,
            "problem": problem,
            "marks": "; ".join(str(part["marks"]) for part in both if part),
        }

    def over(self, kernel: str, other: str, problem: str) -> Row | None:
        """Return the speedup over another kernel or baseline, each at its best, as `View.over`
        does.
        """
        data = self.beside(kernel, problem)
        return data.over(kernel, other, problem) if data else None

    def builds_on(self, kernel: str) -> str | None:
        """Return the rung that the kernel improves: that of its header, else the one numbered below
        of the same precision.

        A kernel that rounds its operands solves an easier problem.
        """
        if kernel not in self.kernels:
            return None
        own = self.kernels[kernel]
        if own.builds_on:
            return own.builds_on
        rungs = self.ladder(own.kind, "float32" in own.element_types)
        alike = [name for name in rungs if self.kernels[name].precision == own.precision]
        index = alike.index(kernel) if kernel in alike else 0
        return alike[index - 1] if index else None
