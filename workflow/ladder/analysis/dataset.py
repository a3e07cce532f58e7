"""Open a dataset: read its files, check that they belong together, and make its tables."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from ladder.analysis import tables
from ladder.analysis.finalists import Finalists
from ladder.analysis.measurements import Candidate, candidate, labeled
from ladder.core.errors import InputError
from ladder.core.files import digest
from ladder.model.hardware_limits import flop_per_clock
from ladder.model.kernel import Kernel
from ladder.storage.csv_files import read_csv, write_csv
from ladder.storage.dataset_layout import (
    COUNTERS,
    TABLES,
    files,
    is_confirmation,
    missing_parts,
    read_environment,
)
from ladder.storage.samples import read

MEND = "Where it is committed, restore the dataset: git checkout. Else run its campaign again"
NO_RESOURCES = pd.DataFrame(
    columns=["kernel", "slug", "element_type", "configuration", "arch", "status"]
)
"""What the compilers report of a campaign without kernels."""


class Dataset:
    """The measurements of one device in one campaign. Each table is made once, on first use.

    `folder` holds the files. `environment` is the content of `environment.json`. `records` are the
    measurements of the sweep and of the confirmation, each with the label of its problem.
    `sessions` describe the run that wrote each file.

    A repeat has only the confirmation and no sweep. Its `best` and `pairs` are the same as with a
    sweep; its `summary` has only the finalists.
    """

    def __init__(
        self,
        samples: Sequence[Path],
        environment: Path,
        resources: Sequence[Path],
        kernels: Iterable[Kernel] = (),
    ) -> None:
        """Read and check the files of a dataset. `resources` is the `resources.csv` of the whole
        dataset, or one for each kernel. `models` covers the given `kernels` only.

        Raises `InputError` under the conditions of `load`, or if a file of `resources` is not one.
        """
        self.folder, self.environment = environment.parent, read_environment(environment)
        records, self.sessions = load(samples, self.environment)
        self.records = labeled(records)
        self.kernels = [kernel for kernel in kernels if kernel.kind == self.environment["kind"]]
        needed = ("element_type", "configuration", "status", "sha256")
        reports = [read_csv(path, needed, text=True) for path in resources]
        self.resources = pd.concat([NO_RESOURCES, *reports])
        """The compilers' reports, all as text."""

    @classmethod
    def open(cls, folder: Path, kernels: Iterable[Kernel] = ()) -> "Dataset":
        """Open the dataset in a folder. Raises `InputError` if the folder has none."""
        environment, samples = folder / "environment.json", files(folder)
        if not environment.exists() or not samples:
            raise InputError(
                f"{folder}: no environment.json and samples/*.parquet in it; expected a dataset, "
                "such as results/default/nvidia-h200"
            )
        return cls(samples, environment, [folder / "resources.csv"], kernels)

    @property
    def has_sweep(self) -> bool:
        """Whether the samples of the sweep are present."""
        return any(not record["process"] for record in self.records)

    @cached_property
    def finalists(self) -> Finalists:
        """The finalists that the confirmation measured."""
        within = max((session.get("within", 0.0) for session in self.sessions), default=0.0)
        peak = float(self.environment["peaks"]["fp32_tflops"])
        return Finalists(self.records, within, peak, flop_per_clock(self.environment))

    @cached_property
    def summary(self) -> pd.DataFrame:
        return tables.summarize(self.records, self.finalists)

    @cached_property
    def best(self) -> pd.DataFrame:
        return tables.best(self.summary, self.finalists)

    @cached_property
    def pairs(self) -> pd.DataFrame:
        return tables.pairs(self.summary, self.best, self.binaries, self.finalists)

    @cached_property
    def rounds(self) -> pd.DataFrame:
        return tables.rounds(self.records, self.best, self.finalists)

    @cached_property
    def references(self) -> pd.DataFrame:
        return tables.references(self.records)

    @cached_property
    def costs(self) -> pd.DataFrame:
        return tables.costs(self.sessions)

    @cached_property
    def models(self) -> pd.DataFrame:
        return tables.models(self.summary, self.kernels, self.resources, self.environment)

    @cached_property
    def counters(self) -> pd.DataFrame | None:
        """The hardware counters of the best configurations; None if nobody asked for them."""
        path = self.folder / COUNTERS
        return read_csv(path) if path.exists() else None

    @cached_property
    def binaries(self) -> dict[Candidate, str]:
        """The SHA-256 of each candidate's binary."""
        return {candidate(row): row["sha256"] for row in self.resources.to_dict("records")}

    def tables(self, names: Iterable[str] = TABLES) -> dict[str, pd.DataFrame]:
        """Return the named tables."""
        return {name: getattr(self, name) for name in names}

    def write(self, paths: Mapping[str, Path]) -> None:
        """Write each table as CSV to its path."""
        for name, path in paths.items():
            write_csv(getattr(self, name), path)


def load(
    samples: Sequence[Path], environment: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the measurements of a dataset, with those of the confirmation if `samples` includes
    its file, and the session of each file.

    The confirmation may be the only file, because a repeat keeps no sweep. Raises `InputError` if
    the files do not belong together:

    - `environment` names another device than its fingerprint,
    - a file was measured in another environment, or described by another `environment.json`,
    - the files were measured by different versions of the measuring code,
    - a part of the sweep or of the confirmation is missing,
    - a file holds the measurements of another job than its name says, or
    - the sweep's files are not those that the confirmation was made from.
    """
    records, sessions = [], []
    described = environment["fingerprint"]
    device, name = described.get("device"), environment.get("name")
    if device and name and name != device:
        raise InputError(
            f"environment.json: name: got {name}; expected {device}, as in its fingerprint. {MEND}"
        )
    for path in missing_parts(samples)[:1]:
        raise InputError(f"{path}: missing; expected it beside the other parts. {MEND}")
    for path in samples:
        rows, session = read(path)
        measured = session.get("fingerprint", {})
        differs = [
            f"{key} was {json.dumps(measured.get(key))}; expected {json.dumps(described.get(key))}"
            for key in sorted({*measured, *described})
            if measured.get(key) != described.get(key)
        ]
        if differs:
            raise InputError(
                f"{path}: measured in another environment: {', '.join(differs)}, as in "
                "environment.json"
            )
        belongs = session.get("described", "")  # samples of older programs do not say
        if belongs and belongs != digest(environment):
            raise InputError(
                f"{path}: described: got {belongs}; expected {digest(environment)}, the digest of "
                f"environment.json, which is not the one that it was measured with. {MEND}"
            )
        session = {"job": path.stem} | session  # samples of older programs do not say
        if session["job"] != path.stem:
            raise InputError(
                f"{path}: has the measurements of {session['job']}; expected those of {path.stem}. "
                f"{MEND}"
            )
        records += rows
        sessions.append(session)
    if not all(map(is_confirmation, samples)):
        _check_together(samples, sessions)
    return records, sessions


def _check_together(samples: Sequence[Path], sessions: Sequence[Mapping[str, Any]]) -> None:
    """Raise `InputError` if different versions of the code measured the files, or if the files of
    the sweep are not those that the confirmation was made from.

    Of the confirmation, the version of the sweep that its session names (`swept`) counts.
    """
    here = {
        path.stem: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in samples
        if not is_confirmation(path)
    }
    for path, session in zip(samples, sessions, strict=True):
        first = sessions[0].get("code")
        code = session.get("code")
        if is_confirmation(path):
            code, confirmed = session.get("swept", first), session["jobs"]
            wrong = {job: "another" for job in here if here[job] != confirmed.get(job)}
            wrong |= dict.fromkeys(here.keys() - confirmed, "not among them")
            wrong |= dict.fromkeys(confirmed.keys() - here, "missing")
            if wrong:
                listed = ", ".join(f"{job} is {what}" for job, what in sorted(wrong.items()))
                raise InputError(
                    f"{path}: confirms other samples than those in samples/: {listed}. {MEND}"
                )
        if code != first:
            raise InputError(
                f"{path}: measured by version {code} of the measuring code; expected {first}, as "
                f"of {samples[0].name}. {MEND}"
            )
