"""A job that measures, whether it sweeps or confirms: its input, and what all runs of jobs do."""

import csv
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ladder.compiling.provenance import project_state
from ladder.core import clock
from ladder.core.files import ROOT, digest
from ladder.devices.lock import exclusive
from ladder.measuring.progress import Progress
from ladder.measuring.protocol import Candidate
from ladder.measuring.session import Session, now
from ladder.model.baselines import is_baseline
from ladder.model.kernel_file import path_of
from ladder.model.problem import Problem
from ladder.storage.journal import Journal
from ladder.storage.samples import write

Name = tuple[str, str, str]
"""A kernel, an element type and the label of a configuration."""


@dataclass
class Job:
    """The input of a job."""

    device: str
    kind: str
    plan: Mapping[str, Any]
    """The result of `Campaign.plan` or `Campaign.confirmation`."""
    binaries: Mapping[Name, Mapping[str, Any]]
    """As `read_binaries` returns them."""
    support: Path
    """The file of the pipeline's own device code."""
    fingerprint: Mapping[str, Any]
    code: str
    """Digest of the package's modules that measure."""
    environment: Mapping[str, Any]
    """`environment.json`, with the limits of the device."""

    @property
    def described(self) -> str:
        """The digest of `environment.json`, which describes what the samples are measured with and
        belongs to them.
        """
        return digest(self.environment)

    def binary(self, name: str, element_type: str, configuration: str) -> Mapping[str, Any]:
        """Return the row of a binary; empty for a baseline, and if the binary was not compiled."""
        return self.binaries.get((name, element_type, configuration), {})

    def candidate(
        self, name: str, element_type: str, configuration: str, precision: str
    ) -> Candidate:
        """Return a kernel in one configuration, or a baseline, as the worker launches it."""
        if is_baseline(name):
            return Candidate(name, configuration, precision=precision)
        row = self.binary(name, element_type, configuration)
        path = path_of(ROOT, self.kind, name)
        return Candidate(
            name, configuration, str(path), row.get("binary", ""), row.get("sha256", ""), precision
        )


def read_binaries(paths: Iterable[Path]) -> dict[Name, dict[str, Any]]:
    """Return the rows of files `resources.csv`. Each `binary` becomes an absolute path: a kernel
    may change the worker's folder.
    """
    binaries = {}
    for path in paths:
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                binary = str((path.parent / row["binary"]).resolve())
                binaries[row["kernel"], row["element_type"], row["configuration"]] = row | {
                    "binary": binary
                }
    return binaries


class Run(ABC):
    """A run of a job: measures what its journal lacks."""

    progress: Progress
    keys: Sequence[str]
    """The keys of all records that the job needs, in the order of its rows."""

    def __init__(self, job: Job, journal: Journal, uuid: str, lock: int) -> None:
        self.job, self.journal, self.uuid = job, journal, uuid
        self.session = Session(
            job.kind,
            uuid,
            job.support,
            job.environment,
            job.plan["limits"]["timeout_seconds"],
            lock,
        )
        self.project = project_state()

    @abstractmethod
    def measure(self) -> None:
        """Measure and record what the journal lacks."""

    @abstractmethod
    def about(self) -> dict[str, Any]:
        """Return what the session of this kind of job says besides what all say."""

    def row(
        self, candidate: Candidate, problem: Problem, state: str, columns: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return a measurement as a row of samples: what was measured, when and where, and the
        columns of its outcome.
        """
        return {
            "device": self.job.device,
            "kernel": candidate.name,
            "configuration": candidate.configuration,
            "precision": candidate.precision or None,
            **vars(problem),
            "state": state,
            "reference": self.job.plan["reference"],
            "uuid": self.uuid,
            "time": now(),
            **columns,
        }

    def measure_all(self) -> None:
        """Measure what the journal lacks, and let the worker end, whatever happens."""
        try:
            self.measure()
        finally:
            self.session.end()
            self.progress.bar.close()

    def records(self) -> list[Mapping[str, Any]]:
        """Return the records of the job that the journal has."""
        return [self.journal.records[key] for key in self.keys if key in self.journal.records]

    def rows(self) -> list[Mapping[str, Any]]:
        """Return their measurements. A record is one, or has `rows` from the same rounds."""
        return [
            row | {"key": record["key"]}
            for record in self.records()
            for row in record.get("rows", [record])
        ]

    def made_by(self) -> dict[str, Any]:
        """Return the commit that made the last of the records, and whether a checkout with changes
        made any of them.
        """
        states = [record["project"] for record in self.records()]
        if not states:
            return self.project
        dirty = [state["dirty"] for state in states]
        return {"commit": states[-1]["commit"], "dirty": None if None in dirty else any(dirty)}


def carry_out(
    begin: Callable[[Job, Journal, str, int], Run],
    job: Job,
    journal_path: Path,
    output: Path,
    uuids: Sequence[str],
) -> dict[str, Any]:
    """Measure what the journal lacks on one of the devices and write the Parquet file; return the
    session in its metadata.

    A confirmation, whose records have `rows`, is not continued on another GPU than it was begun on.
    """
    start = clock.now()
    with closing(Journal(journal_path)) as journal:
        begun = {
            row["uuid"] for record in journal.records.values() for row in record.get("rows", [])
        }
        with exclusive([uuid for uuid in uuids if uuid in begun] or uuids) as (uuid, lock):
            locked = clock.now()
            run = begin(job, journal, uuid, lock)
            before = len(run.rows())
            run.measure_all()
        rows = run.rows()
        session = {
            "job": output.stem,
            "measured": len(rows) - before,
            "wall_seconds": round(clock.now() - locked, 3),
            "waited_seconds": round(locked - start, 3),
            "fingerprint": dict(job.fingerprint),
            "described": job.described,
            "code": job.code,
            **run.about(),
            **run.session.summary(),
        }
        write(output, rows, session | run.made_by())
    return session
