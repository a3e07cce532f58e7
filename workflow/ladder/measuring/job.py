"""A job that measures, whether it sweeps or confirms: its input, and what all runs of jobs do."""

import csv
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from ladder.compiling.provenance import check_alike, fingerprint, project_state
from ladder.core import clock, places
from ladder.core.files import digest, read_json
from ladder.devices.detect import here
from ladder.devices.lock import exclusive, uuids
from ladder.measuring.progress import Progress
from ladder.measuring.protocol import Candidate
from ladder.measuring.session import Session, now
from ladder.model.baselines import is_baseline
from ladder.model.problem import Problem
from ladder.storage.dataset_layout import read_environment
from ladder.storage.journal import Journal, opened
from ladder.storage.samples import write

J = TypeVar("J", bound="Job")
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
    library: str = ""
    """The folder of the vendor's library; "" for the one that is installed."""

    @cached_property
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
        path = places.find(self.plan["paths"][name])
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


def prepared(kind: Callable[..., J], files: Any, code: str) -> tuple[J, Sequence[str]]:
    """Return a job of a kind from Snakemake's input files, and the UUIDs of its devices here.
    `code` is that of the job.

    Raises `InputError` if another device, driver or compiler is here than `environment.json` says.
    """
    planned, environment = read_json(Path(files.plan)), read_environment(files.environment)
    device = here(**planned["machine"])
    found = fingerprint(device)
    check_alike(found, environment["fingerprint"], f"{files.environment}: fingerprint")
    job = kind(
        device=device.dataset,
        kind=device.kind,
        plan=planned["plan"],
        binaries=read_binaries(map(Path, files.resources)),
        support=Path(files.support),
        fingerprint=found,
        code=code,
        environment=environment,
        library=device.library_folder,
    )
    return job, uuids(device)


class Run(ABC):
    """A run of a job: measures what its journals lack."""

    progress: Progress
    items: Sequence[Any]
    """What the job needs records of, in the order of its rows: each has a `key`, and the name of a
    `journal`.
    """
    measured = 0
    """The measurements of this run."""

    def __init__(self, job: Job, journals: Mapping[str, Journal], uuid: str, lock: int) -> None:
        self.job, self.journals, self.uuid = job, journals, uuid
        self.session = Session(
            job.kind,
            uuid,
            job.support,
            job.environment,
            job.plan["limits"]["timeout_seconds"],
            lock,
            job.library,
        )
        self.session.start()
        self.project = project_state()

    @abstractmethod
    def measure(self) -> None:
        """Measure and record what the journals lack."""

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
            "binary_sha256": candidate.sha256 or None,
            "time": now(),
            **columns,
        }

    def measure_all(self) -> None:
        """Measure what the journals lack, and let the worker end, whatever happens."""
        try:
            self.measure()
        finally:
            self.session.end()

    def has(self, item: Any) -> bool:
        return item.key in self.journals[item.journal]

    def keep(self, item: Any, record: Mapping[str, Any]) -> None:
        """Record measurements of this run."""
        whole = {"key": item.key, "project": self.project} | dict(record)
        self.journals[item.journal].append(whole)
        self.measured += len(rows_of([whole]))

    def records(self) -> list[Mapping[str, Any]]:
        """Return the records of the job that the journals have."""
        return [self.journals[item.journal][item.key] for item in self.items if self.has(item)]

    def made_by(self, records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the commit that made the last of the records, and whether a checkout with changes
        made any of them.
        """
        states = [record["project"] for record in records]
        if not states:
            return self.project
        dirty = [state["dirty"] for state in states]
        return {"commit": states[-1]["commit"], "dirty": None if None in dirty else any(dirty)}


def rows_of(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the measurements of records. A record is one, or has `rows` from the same rounds."""
    return [
        dict(row) | {"key": record["key"]}
        for record in records
        for row in record.get("rows", [record])
    ]


def carry_out(
    begin: Callable[[Job, Mapping[str, Journal], str, int], Run],
    job: Job,
    journals: tuple[Path, Iterable[str]],
    output: Path,
    allowed: Sequence[str],
    begun: Callable[[Iterable[Journal]], Collection[str]] = lambda journals: (),
) -> dict[str, Any]:
    """Measure what the journals lack on one of the `allowed` devices and write the Parquet file;
    return the session in its metadata.

    `journals` are a folder and the names of those in it. `begun` returns the devices that the job
    was begun on, if it must not be continued on another.
    """
    start = clock.now()
    with opened(*journals) as by_name:
        before = begun(by_name.values())
        with exclusive([uuid for uuid in allowed if uuid in before] or allowed) as (uuid, lock):
            locked = clock.now()
            run = begin(job, by_name, uuid, lock)
            run.measure_all()
        records = run.records()
        session = {
            "job": output.stem,
            "measured": run.measured,
            "wall_seconds": round(clock.now() - locked, 3),
            "waited_seconds": round(locked - start, 3),
            "fingerprint": dict(job.fingerprint),
            "described": job.described,
            "code": job.code,
            **run.about(),
            **run.session.summary(),
        }
        write(output, rows_of(records), session | run.made_by(records))
    return session
