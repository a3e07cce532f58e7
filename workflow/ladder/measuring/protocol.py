"""The requests of a job to its worker, and the worker's answers.

Requests are pickled: a worker trusts its job. Answers are JSON, because kernels run in the worker:
what a kernel writes to the pipe is at worst no valid answer, and never code that the job runs.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any, get_args

from ladder.core.types import Status
from ladder.model.campaign import Limits
from ladder.model.problem import Problem


@dataclass(frozen=True)
class Candidate:
    """A kernel in one configuration, or a baseline, as a worker launches it."""

    name: str
    configuration: str = "-"
    """The configuration's label."""
    path: str | None = None
    """The kernel's file; None for a baseline."""
    binary: str = ""
    sha256: str = ""
    """The digest of the compiled binary."""
    precision: str = ""
    """The precision of its arithmetic; "" for the element type's."""


@dataclass(frozen=True)
class Open:
    """Open the device. `support` is the file of the pipeline's own device code, and `library` the
    folder of the vendor's library, or "" for the installed one. Answer: `Opened`.
    """

    kind: str
    uuid: str
    support: Path
    library: str = ""


@dataclass(frozen=True)
class Probe:
    """Measure the limits of the device. Answer: `Probed`."""


@dataclass(frozen=True)
class SetProblem:
    """Make the operands of a problem, and verify the reference on it. All candidates must be loaded
    again.
    """

    problem: Problem
    reference: str


@dataclass(frozen=True)
class RunGauntlet:
    """Run a candidate on the gauntlet. Answers: `Trying` for each problem, then `Judged`."""

    element_type: str
    candidate: Candidate
    layout: str = "nn"
    batched: bool = False


@dataclass(frozen=True)
class Load:
    """Make the launch of a candidate on the present problem, for later requests."""

    candidate: Candidate


@dataclass(frozen=True)
class Check:
    """Launch a loaded candidate once and compare every element. Answer: `Judged`."""

    candidate: Candidate


@dataclass(frozen=True)
class Search:
    """Search the vendor's library for its fastest algorithm on the present problem. Answer:
    `Found`.
    """


@dataclass(frozen=True)
class Diagnose:
    """Examine what a candidate gets wrong on a problem. Answer: `Diagnosed`."""

    problem: Problem
    candidate: Candidate


@dataclass(frozen=True)
class CompareBits:
    """Launch a candidate on a problem and its like, and compare the bits of the results. Answers:
    `Alive` before each, then `Compared`.
    """

    problem: Problem
    candidate: Candidate


@dataclass(frozen=True)
class Time:
    """Time loaded candidates in the same rounds. Answers: `Sampled` for each, and `Alive` in
    between.

    `best` is the lower end of the best ratio to the reference so far. Candidates that are clearly
    below it leave the race. `us` is what a launch of the reference and of each candidate took
    before, in microseconds, and `repeats` how often it was repeated within a sample; empty if that
    is unknown.
    """

    candidates: Sequence[Candidate]
    state: str
    limits: Limits
    seed: int
    best: float = 0.0
    us: Sequence[float] = ()
    repeats: Sequence[int] = ()


Request = (
    Open | Probe | SetProblem | RunGauntlet | Load | Check | Search | Diagnose | CompareBits | Time
)


@dataclass(frozen=True)
class Done:
    """The request is done. `busy_us` is how many microseconds the device has been busy since it was
    opened.
    """

    busy_us: float


@dataclass(frozen=True)
class Declined:
    """The candidate cannot be run, or it spoiled those beside it. If `fatal`, the worker ends."""

    status: Status
    reason: str
    fatal: bool


@dataclass(frozen=True)
class Unusable:
    """The machine keeps the worker from its work."""

    reason: str


@dataclass(frozen=True)
class Opened:
    """The `attributes` of `environment.json`: the facts that the device reports, and what surrounds
    the worker.
    """

    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class Probed:
    """The measured values of `environment.json`."""

    measured: Mapping[str, Any]


@dataclass(frozen=True)
class Alive:
    """The worker goes on and has no result yet."""


@dataclass(frozen=True)
class Trying:
    """The gauntlet's problem of the next launch, in words."""

    problem: str


@dataclass(frozen=True)
class Judged:
    """The verdict on a candidate. The other fields are of the gauntlet, which examines the binary
    too.
    """

    status: Status
    reason: str
    tensor_cores: bool = False
    """Whether the binary uses the tensor cores."""
    gauntlet_problems: int = 0
    """The problems that were asked."""
    gauntlet_changed: int = 0
    """How many of them were changed to what the kernel needs."""
    sums_16_bit: bool = False
    """Whether a baseline has the errors of adding parts of K in 16 bits."""
    nan_at_alpha_0: bool = False
    """Whether C had NaN from A and B although alpha was 0."""


@dataclass(frozen=True)
class Found:
    """The label of a configuration; "" if a search has found none."""

    configuration: str


@dataclass(frozen=True)
class Diagnosed:
    """The fields of a `diagnosis.Diagnosis`, or None if nothing was found, and whether the
    candidate was correct this time.
    """

    diagnosis: Mapping[str, Any] | None
    right: bool


@dataclass(frozen=True)
class Compared:
    """By the questions of a `verdict.Bits` that were asked, the fields of the first `Difference`, or
    None.
    """

    found: Mapping[str, Mapping[str, Any] | None]


@dataclass(frozen=True)
class Sampled:
    """The fields of a candidate's `timing.Series`, and of the `verify.Verdict` on them."""

    index: int
    """The place of the candidate in the request."""
    series: Mapping[str, Any]
    other_processes: float | None
    """What the function that `Device.watch` returned says."""
    verdict: Mapping[str, Any]


Answer = (
    Done
    | Declined
    | Unusable
    | Opened
    | Probed
    | Alive
    | Trying
    | Judged
    | Found
    | Diagnosed
    | Compared
    | Sampled
)
ANSWERS = {kind.__name__: kind for kind in get_args(Answer)}


def encode(answer: Answer) -> bytes:
    """Return an answer as JSON: the name of its class, and its fields."""
    return json.dumps([type(answer).__name__, vars(answer)], default=_plain).encode()


def _plain(value: Any) -> Any:
    return vars(value) if is_dataclass(value) else value.item()


def decode(content: bytes) -> Answer:
    """Return the answer in a message. Raises `ValueError` if it is not an answer."""
    try:
        name, fields = json.loads(content)
        answer: Answer = ANSWERS[name](**fields)
    except (TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"no answer: {error}") from None
    return answer
