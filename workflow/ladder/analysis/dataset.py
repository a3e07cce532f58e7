"""Open a dataset: read its files, check that they belong together, and make its tables."""

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from itertools import filterfalse
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from ladder.analysis import measurements, tables
from ladder.analysis.finalists import Finalists
from ladder.analysis.measurements import Candidate, Known, Record, candidate, keys
from ladder.core.errors import InputError
from ladder.core.files import digest, whole
from ladder.core.types import FAILED, USUAL
from ladder.model.hardware_limits import flop_per_clock
from ladder.model.kernel import Kernel
from ladder.model.kernel_file import is_rung
from ladder.model.problem import VARIED
from ladder.storage import columns, samples
from ladder.storage.csv_files import append, read_csv
from ladder.storage.dataset_layout import (
    COUNTERS,
    TABLES,
    files,
    is_confirmation,
    missing_parts,
    read_environment,
)
from ladder.storage.samples import CANDIDATE

MEND = "Where it is committed, restore the dataset: git checkout. Else run its campaign again"
NO_RESOURCES = pd.DataFrame(
    columns=["kernel", "slug", "element_type", "configuration", "arch", "status"]
)
"""What the compilers report of a campaign without kernels."""
AT_ONCE = 1_000_000
"""The bytes of files from which on no more kernels are evaluated together."""
READ = [
    name for name in samples.SCHEMA.names if name not in ("seed", "time", "samples_sm_clock_mhz")
]
"""The columns of measurements that tables are made from."""
KERNEL = ["kernel", "element_type"]
ALIKE = [*KERNEL, "configuration", "precision", "reference", "tensor_cores", *VARIED]
"""What must be known of all files to make a table of one. Few measurements of a file differ in it."""
CONFIRMED = [*ALIKE, "m", "n", "k", "status", "reason", "uuid"]
"""The same of a file of the confirmation."""
NONE = samples.SCHEMA.empty_table().select(CONFIRMED)


class Dataset:
    """The measurements of one device in one campaign. Tables are made from a few files at a time:
    those of a kernel, or a part of the confirmation.

    `folder` holds the files. `environment` is the content of `environment.json`. `sessions`
    describe the run that wrote each file.

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
        self._contents, self.sessions = load(samples, self.environment)
        every = pa.concat_tables([NONE, *self._contents.values()], promote_options="default")
        self._varied = [name for name in VARIED if len(every[name].unique()) > 1 or name in USUAL]
        self._alike = every.to_pandas()
        of_confirmation = every.filter(every["status"].is_valid())
        self.confirmed = measurements.labeled(of_confirmation, self._varied).to_pandas()
        """What was confirmed: the columns `CONFIRMED` and the labels of the problems, each row
        once.
        """
        failed = self.confirmed[self.confirmed["status"].isin(FAILED)]
        on_tensor_cores = self._alike[measurements.uses_tensor_cores(self._alike)]
        self._known = Known(
            peak_tflops=float(self.environment["peaks"]["fp32_tflops"]),
            per_clock=flop_per_clock(self.environment) or math.nan,
            highest_mhz=float(self.environment["attributes"].get("max_sm_clock_mhz") or math.nan),
            within=max((session.get("within", 0.0) for session in self.sessions), default=0.0),
            tensor_cores=set(keys(on_tensor_cores, *CANDIDATE)),
            failures={
                candidate(row): (
                    row["status"],
                    f"{tables.REFUSED} on {row['problem']}: {row['reason']}",
                )
                for row in reversed(failed.to_dict("records"))
            },
        )
        needed = ("element_type", "configuration", "status", "sha256")
        reports = [read_csv(path, needed, text=True) for path in resources]
        self.resources = pd.concat([NO_RESOURCES, *reports])
        """The compilers' reports, all as text."""
        kind = self.environment["kind"]
        of_kind = (kernel for kernel in kernels if kernel.kind == kind)
        self._compiled = tables.compiled_kernels(of_kind, self.resources)

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
        return not all(map(is_confirmation, self._contents))

    def _read(self, paths: Iterable[Path]) -> pa.Table:
        """Return the measurements in files, with the labels of their problems."""
        parts = [samples.columns(path, READ, check=False) for path in paths]
        every = pa.concat_tables([samples.SCHEMA.empty_table().select(READ), *parts])
        return measurements.labeled(samples.with_usual(every), self._varied)

    def _files_of_kernels(self) -> Iterator[list[Path]]:
        """Yield the files of the sweep: together those of a kernel that several have, and short
        ones.
        """
        together: list[Path] = []
        kernels = None
        for path in filterfalse(is_confirmation, self._contents):
            before = kernels
            kernels = self._contents[path].group_by(KERNEL, use_threads=False).aggregate([])
            size = sum(each.stat().st_size for each in together)
            if kernels != before and size > AT_ONCE:
                yield together
                together = []
            together.append(path)
        yield together

    @cached_property
    def finalists(self) -> Finalists:
        """The finalists that the confirmation measured."""
        return Finalists(self._read(filter(is_confirmation, self._contents)), self._known)

    def _parts(self) -> Iterator[tuple[pd.DataFrame, Finalists]]:
        """Yield the measurements of each file of the confirmation, and its finalists."""
        for path in filter(is_confirmation, self._contents):
            table = self._read([path])
            yield measurements.frame(table), Finalists(table, self._known)

    def _swept(self) -> Iterator[pd.DataFrame]:
        """Yield the measurements of the sweep, or what stands in for them in a repeat."""
        if self.has_sweep:
            for paths in self._files_of_kernels():
                yield measurements.frame(self._read(paths))
        else:
            for part in self._parts():
                yield tables.first_of_finalists(*part)

    def _pieces(self, wanted: Collection[str]) -> Iterator[tuple[str, pd.DataFrame]]:
        """Yield tables, each in one piece or several: those `wanted`, and some others that are made
        on the way.
        """
        confirmed = set(keys(self.confirmed, *tables.PROBLEM, "configuration"))
        swept, best = [], []
        for measured in self._swept():
            summary = tables.summarize(measured, self._known)
            yield "summary", summary[columns.names("summary")]
            if "models" in wanted:
                for piece in tables.models(summary, self._compiled, self.environment):
                    yield "models", piece
            if self.has_sweep:
                yield "references", tables.references(measured)
            if confirmed:
                swept.append(tables.kept(summary, confirmed, self._known.within))
            else:
                best.append(tables.best_of_sweep(summary))
                yield "rounds", tables.rounds(measured, best[-1])
        del measured, summary  # which may be as much as a part of the confirmation
        # kernels that round their operands solve an easier problem, so they are not rungs
        exact = self._alike.loc[self._alike["precision"].isna(), "kernel"]
        rungs = sorted(filter(is_rung, exact.unique()))
        reference = next(iter(self._alike["reference"]), "")
        for measured, finalists in self._parts():
            rows = pd.concat(swept)
            rows = rows[rows["problem"].isin(measured["problem"])]
            best.append(tables.best_of_finalists(rows, measured, finalists))
            yield "references", tables.references(measured)
            yield "rounds", tables.rounds(measured, best[-1])
            yield "pairs", tables.pairs(best[-1], rungs, reference, self.binaries, finalists)
        table = tables.best(best, self._known)
        if not confirmed:
            yield "pairs", tables.pairs(table, rungs, reference, {}, self.finalists)
        yield "best", table
        yield "costs", self.costs
        yield "resources", self.resources

    def tables(self, names: Collection[str] = TABLES) -> dict[str, pd.DataFrame]:
        """Return the named tables. Whole numbers without a missing one are of type `int64`."""
        pieces = defaultdict[str, list[pd.DataFrame]](list)
        for name, piece in self._pieces(names):
            if name in names:
                pieces[name].append(piece)
        return {name: _typed(name, pd.concat(pieces[name], ignore_index=True)) for name in names}

    def write(self, paths: Mapping[str, Path]) -> None:
        """Write each table as CSV to its path, in pieces; without the columns of `USUAL` that have
        no other value, as tables were before there were others.
        """
        dropped = [name for name, usual in USUAL.items() if not set(self._alike[name]) - {usual}]
        with ExitStack() as stack:
            opened = {name: stack.enter_context(whole(path)) for name, path in paths.items()}
            for name, piece in self._pieces(opened):
                if name in opened:
                    append(opened[name], piece.drop(columns=dropped, errors="ignore"))

    @cached_property
    def _both(self) -> dict[str, pd.DataFrame]:
        return self.tables(("best", "pairs"))

    @cached_property
    def best(self) -> pd.DataFrame:
        return self._both["best"]

    @cached_property
    def pairs(self) -> pd.DataFrame:
        return self._both["pairs"]

    @cached_property
    def costs(self) -> pd.DataFrame:
        return tables.costs(self.sessions)

    @cached_property
    def counters(self) -> pd.DataFrame | None:
        """The hardware counters of the best configurations; None if nobody asked for them."""
        path = self.folder / COUNTERS
        return read_csv(path) if path.exists() else None

    @cached_property
    def binaries(self) -> dict[Candidate, str]:
        """The SHA-256 of each candidate's binary."""
        return {candidate(row): row["sha256"] for row in self.resources.to_dict("records")}

    def binary(self, row: Record) -> str:
        """Return the SHA-256 of the binary of a measurement or a row of `best`; "" for a baseline,
        which has none. If the row does not name it, the compilers' report does.
        """
        return row.get("binary_sha256") or self.binaries.get(candidate(row), "")


def _typed(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """Return a table made of pieces, with the type of its whole numbers."""
    whole = [
        column.name
        for column in columns.tables()[name].columns
        if column.type != "float64"  # a padding is text, or a whole number
        and pd.api.types.is_float_dtype(table.get(column.name))
        and table[column.name].notna().all()
    ]
    return table.astype(dict.fromkeys(whole, "int64"))


def load(
    paths: Sequence[Path], environment: Mapping[str, Any]
) -> tuple[dict[Path, pa.Table], list[dict[str, Any]]]:
    """Return what is in each file of a dataset, the columns `ALIKE` or `CONFIRMED` with each row
    once, and the session of each file.

    The confirmation may be the only file, because a repeat keeps no sweep. Raises `InputError` if
    the files do not belong together:

    - `environment` names another device than its fingerprint,
    - a file was measured in another environment, or described by another `environment.json`,
    - the files were measured by different versions of the measuring code,
    - a part of the sweep or of the confirmation is missing,
    - a file holds the measurements of another job than its name says, or
    - the sweep's files are not those that the confirmation was made from.
    """
    contents, sessions = {}, []
    described = environment["fingerprint"]
    device, name, known = described.get("device"), environment.get("name"), digest(environment)
    if device and name and name != device:
        raise InputError(
            f"environment.json: name: got {name}; expected {device}, as in its fingerprint. {MEND}"
        )
    for path in missing_parts(paths)[:1]:
        raise InputError(f"{path}: missing; expected it beside the other parts. {MEND}")
    for path in paths:
        columns = CONFIRMED if is_confirmation(path) else ALIKE
        rows = samples.with_usual(samples.columns(path, columns))
        session = samples.session(path)
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
        if belongs and belongs != known:
            raise InputError(
                f"{path}: described: got {belongs}; expected {known}, the digest of "
                f"environment.json, which is not the one that it was measured with. {MEND}"
            )
        session = {"job": path.stem} | session  # samples of older programs do not say
        if session["job"] != path.stem:
            raise InputError(
                f"{path}: has the measurements of {session['job']}; expected those of {path.stem}. "
                f"{MEND}"
            )
        contents[path] = rows.group_by(columns, use_threads=False).aggregate([])
        sessions.append(session)
    if not all(map(is_confirmation, paths)):
        _check_together(paths, sessions)
    return contents, sessions


def _check_together(paths: Sequence[Path], sessions: Sequence[Mapping[str, Any]]) -> None:
    """Raise `InputError` if different versions of the code measured the files, or if the files of
    the sweep are not those that the confirmation was made from.

    Of the confirmation, the version of the sweep that its session names (`swept`) counts.
    """
    here = {
        path.stem: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
        if not is_confirmation(path)
    }
    for path, session in zip(paths, sessions, strict=True):
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
                f"of {paths[0].name}. {MEND}"
            )
