"""Measure jobs and confirmations of made-up kernels on a simulated GPU, in the test's own
process.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import simulated
from inprocess import InProcess
from ladder.measuring import confirmation, gauntlet, sweep
from ladder.measuring.job import Job, Name
from ladder.measuring.protocol import Answer, Request, SetProblem, Time
from ladder.measuring.supervisor import Failure
from ladder.model import campaign_file
from ladder.model.kernel_file import discover
from ladder.storage import samples as records
from ladder.storage.journal import Journal
from planted import written

J = TypeVar("J", bound=Job)
HEADER = "/*---\ntitle: {0}\nidea: planted by a test\nblock: [1]\ngrid: [1]\n{1}---*/\n"
GAUNTLET = 8
"""How many problems the gauntlet has here."""
SWEEP = "parameters: {{U: 1}}\nsweep: {{U: {0}}}\n"


class Asked(NamedTuple):
    """A request: the number of its worker, from 1, and how many have started; the sizes of the
    problem there; and the candidates that it is about, by name and U.
    """

    worker: int
    m: int
    who: tuple[str, ...]
    request: Request
    started: int


class Jobs:
    """A folder with kernels, whose jobs share one campaign. `asked` has all requests of the last
    run.

    A kernel of several configurations is `NAME: N`, for U from 1 to N, and does `does[NAME]`,
    Python as `simulated` describes it.
    `faults` has what a request meets, one failure after another, by its class and perhaps the names
    that it is about.
    """

    def __init__(
        self, folder: Path, monkeypatch: Any, kernels: Mapping[str, int], **campaign: Any
    ) -> None:
        self.folder, self.kernels, self.does = folder, kernels, dict.fromkeys(kernels, "right()")
        self.campaign = {
            "campaign": "t",
            "problems": {"cuda": [[5, 6, 7]]},
            "confirm": {"processes": 3},
        } | campaign
        self.measure = {
            "min_samples": 4,
            "max_samples": 4,
            "target": 1e-9,
            "sample_us": 0,
            "timeout_seconds": 6,
        }
        self.asked: list[Asked] = []
        self.faults: dict[Any, list[Failure]] = {}
        self.environment = simulated.environment()
        for name, configurations in kernels.items():
            header = HEADER.format(
                name, SWEEP.format(list(range(1, configurations + 1))) if configurations > 1 else ""
            )
            written(folder / "kernels" / "cuda" / f"{name}.cu", header)
        problems = gauntlet.problems
        monkeypatch.setattr(gauntlet, "problems", lambda *given: problems(*given)[:GAUNTLET])
        ask = InProcess.ask
        monkeypatch.setattr(
            InProcess,
            "ask",
            lambda child, request, timeout: self._ask(ask, child, request, timeout),
        )
        self.m = 0

    def _ask(
        self, ask: Any, child: InProcess, request: Request, timeout: float
    ) -> Iterator[Answer]:
        who: tuple[str, ...] = ()
        match request:
            case SetProblem(problem):
                self.m = problem.m
            case Time(candidates):
                who = tuple(map(_name, candidates))
            case _ if hasattr(request, "candidate"):
                who = (_name(request.candidate),)
        made = InProcess.made
        self.asked.append(Asked(made.index(child) + 1, self.m, who, request, len(made)))
        for key in (
            type(request),
            (type(request), *who),
            *((type(request), "with", name) for name in who),
        ):
            if self.faults.get(key):
                raise self.faults[key].pop(0)
        yield from ask(child, request, timeout)

    def of(self, kind: type) -> list[Asked]:
        """Return the requests of a class."""
        return [asked for asked in self.asked if isinstance(asked.request, kind)]

    def plan(self, changes: Mapping[str, Any]) -> Any:
        """Return the campaign, with changes to it and to what it measures."""
        data = self.campaign | {name: value for name, value in changes.items() if name != "measure"}
        return campaign_file.load(
            data | {"measure": self.measure | changes.get("measure", {})},
            "t",
            discover(self.folder),
        )

    def binaries(self) -> dict[Name, dict[str, str]]:
        """Write the binaries, and return their rows of `resources.csv`."""
        rows = {}
        for name, body in self.does.items():
            path, binary = self.folder / f"{name}.cubin", simulated.cubin(f"{body}\n# {name}")
            path.write_bytes(binary)
            sha256 = hashlib.sha256(binary).hexdigest()
            row = {"status": "compiled", "sha256": sha256, "binary": str(path)}
            last = self.kernels[name]
            labels = [f"U={u}" for u in range(1, last + 1)] if last > 1 else ["-"]
            forms = "layout=nt", "batched"
            labels += [f"{label} {form}".removeprefix("- ") for label in labels for form in forms]
            for label in labels:
                for element_type in ("float32", "bfloat16"):
                    rows[name, element_type, label] = row
        return rows

    def begin(self, kind: Callable[..., J], plan: Any, **inputs: Any) -> J:
        """Return a job of a kind, of which nothing is asked yet."""
        self.asked, InProcess.made = [], []
        return kind(
            "d",
            "cuda",
            plan,
            self.binaries(),
            self.folder / "support",
            {},
            "code",
            self.environment,
            **inputs,
        )

    def job(self, *names: str, **changes: Any) -> Job:
        """Return a measure job for shares of one element type."""
        campaign = self.plan(changes)
        shares = campaign.shares["cuda", names[0].split(".")[1]]
        chosen = [share for share in shares if share["name"] in names]
        return self.begin(Job, campaign.plan("cuda", chosen))

    def open(self, *names: str, **changes: Any) -> sweep.Sweep:
        """Return the sweep of a measure job that has not begun, with the journals that all of them
        share.
        """
        journals = {name: Journal(self.folder / f"{name}.journal") for name in names}
        return sweep.Sweep(self.job(*names, **changes), journals, "GPU-1", lock=0)

    def sweep(self, *names: str, path: str = "swept", **changes: Any) -> Path:
        """Run a measure job; return its Parquet file. The folder `path` has its journals."""
        output = self.folder / f"{path}.parquet"
        job = self.job(*names, **changes)
        self.session = sweep.run(job, self.folder / path, output, ["GPU-1"])
        return output

    def confirm(
        self,
        samples: Path,
        path: str = "confirmed",
        uuids: Sequence[str] = ("GPU-1",),
        refill_us: float = 0.0,
        **changes: Any,
    ) -> list[dict[str, Any]]:
        """Run a confirmation; return its rows. The folder `path` has its journals."""
        campaign = self.plan(changes)
        problems = [
            problem for block in campaign.blocks["cuda"].values() for problem in block.items
        ]
        job = self.begin(
            confirmation.ConfirmationJob,
            campaign.confirmation("cuda", problems),
            samples=[samples],
            swept="swept",
            refill_us=refill_us,
        )
        output = self.folder / f"{path}.parquet"
        self.session = confirmation.run(job, self.folder / path, output, list(uuids))
        return records.read(output)[0]


def journaled(folder: Path) -> list[dict[str, Any]]:
    """Return the records of a folder's journals in their order, without changing them: a torn last
    line stays.
    """
    records = []
    for path in sorted(folder.glob("*.journal")):
        copy = shutil.copy(path, folder / "copy")
        with closing(Journal(Path(copy))) as journal:
            records += journal.values()
    return records


def _name(candidate: Any) -> str:
    return (
        candidate.name
        if candidate.configuration == "-"
        else f"{candidate.name} {candidate.configuration}"
    )
