"""The verdict on a kernel as data: what is true of it on problems here. Its form in JSON is
`schemas/verdict.schema.json`.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from typing import Any

from ladder.core import verdicts
from ladder.model.problem import Problem

SCHEMA = "gemm-ladder/verdict/1"
"""The form of the JSON. The number grows when a reader of the last one would misread it."""


SAME, DIFFER, NOT_TESTED = "same", "differ", "not tested"
"""What is said of bits."""


@dataclass(frozen=True)
class Estimate:
    """A measured value, and the ends of its 95 % interval. As text: `1.06 ± 0.01`."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return verdicts.plus_minus(*astuple(self))


@dataclass(frozen=True)
class Wrong:
    """The first incorrect element, C[row][column], and how many of the elements looked at are
    incorrect.
    """

    problem: str
    """The problem in words, often one of the gauntlet's: `M=7 N=13 K=3 padding=3 exact`. Of a batch
    also which matrix: `…, matrix 1`.
    """
    row: int
    column: int
    got: float
    expected: float
    incorrect: int
    elements: int


@dataclass(frozen=True)
class Line:
    """A line of the source, from 1 on: where to begin."""

    file: str
    line: int
    text: str


@dataclass(frozen=True)
class Gauntlet:
    """How many problems the gauntlet has for the element type, how many of them were asked, and how
    many of these were changed to what the kernel needs.
    """

    problems: int
    asked: int
    changed: int
    nan_at_alpha_0: bool
    """Whether C had NaN from A and B although alpha was 0, which BLAS leaves open."""


@dataclass(frozen=True)
class Binary:
    """What the compiler made of a configuration. Sizes are in bytes; None for what it does not
    say, as of a CPU kernel.
    """

    sha256: str
    arch: str
    compiler: str
    version: str
    options: str
    registers: int | None
    """A thread's, of the function with the most."""
    static_shared: int | None
    spill_stores: int | None
    spill_loads: int | None


@dataclass(frozen=True)
class Model:
    """What a configuration asks of a GPU, by the kernel's header and the device's limits."""

    shared_bytes: int | None = None
    """Shared memory of a block."""
    blocks_per_sm: int | None = None
    occupancy: float | None = None
    """Share of an SM's warps, from 0 to 1."""
    occupancy_limit: str | None = None
    """`threads`, `blocks`, `registers` or `shared memory`."""
    bank_conflicts: float | None = None
    """Share of the wavefronts of shared memory, from 0 to 1."""


@dataclass(frozen=True)
class Difference:
    """The first element of a result that is not the same bits as that of another launch."""

    question: str
    """What differs: a field of `Bits`."""
    problem: str
    """The problem and the circumstances in words, such as `M=16 N=64 K=512 repeated, busy`."""
    row: int
    column: int
    got: float
    other_problem: str
    other_row: int
    other: float


@dataclass(frozen=True)
class Bits:
    """Whether results are the same bits: `same`, `differ`, or `not tested`."""

    every_launch: str = NOT_TESTED
    """Of the same operands at other addresses, beside other work and alone."""
    rows: str = NOT_TESTED
    """Of the same row of A, in a batch of more rows and in another place."""
    alignment: str = NOT_TESTED
    """With other leading dimensions and alignments."""
    processors: str = NOT_TESTED
    """With half of the cores or multiprocessors."""
    differences: Sequence[Difference] = ()

    @property
    def text(self) -> str:
        """The column `bits`: `same: every launch, alignment; differ: rows; not tested: processors`."""
        questions = {
            verdict: [
                name.replace("_", " ") for name, value in vars(self).items() if value == verdict
            ]
            for verdict in (SAME, DIFFER, NOT_TESTED)
        }
        return "; ".join(
            f"{each}: {', '.join(names)}" for each, names in questions.items() if names
        )


@dataclass(frozen=True)
class Outcome:
    """A configuration of the kernel on one problem."""

    configuration: str
    """Its parameters, such as `BM=64 BN=64`, or `-` for none."""
    status: str
    """A status of campaigns. `skipped`: not tried after a timeout, or within the budget."""
    reason: str = ""
    wrong: Wrong | None = None
    guess: str = ""
    """The mistake that gives exactly these numbers, in words; "" if none is known."""
    needs: str = ""
    """What the header would declare to exclude what the kernel does not compute."""
    line: Line | None = None
    """The line to change: the compiler's, or a guess by the mistake."""
    us: Estimate | None = None
    """Microseconds of a launch: the median of the rounds."""
    tflops: Estimate | None = None
    """Throughput in TFLOP/s, by `2*M*N*K`."""
    ratio: Estimate | None = None
    """Speedup over the reference of the same rounds: above 1 is faster."""
    of_rung: Estimate | None = None
    """Speedup over the best rung in the same rounds."""
    of_peak: float | None = None
    """Throughput as a share of the measured peak; above 1 if other work had lowered that."""
    samples_us: Sequence[float] = ()
    reference_us: Sequence[float] = ()
    """The reference's samples of the same rounds."""
    gauntlet: Gauntlet | None = None
    binary: Binary | None = None
    """None if it was not compiled."""
    model: Model | None = None
    """None on a CPU."""
    bits: Bits | None = None
    """None if it is not the fastest on the problem, or the budget did not suffice."""


@dataclass(frozen=True)
class Since:
    """How the best configuration compares with that of the last correct try of the same file."""

    verdict: str
    """`faster`, `slower`, `not distinguishable`, `measure again`, or why there is no such word."""
    ratio: Estimate | None
    """Speedup over it in the same rounds."""
    changed: Sequence[str]
    """What the compiler changed, such as `registers 32 -> 40`."""


@dataclass(frozen=True)
class Rung:
    """The best rung of this device's, or of published, results."""

    kernel: str
    configuration: str


@dataclass(frozen=True)
class OnProblem:
    """The outcomes on one problem."""

    problem: Problem
    status: str
    """The gravest of the outcomes'."""
    outcomes: Sequence[Outcome]
    """The fastest first, then those that failed."""
    reference: str
    """The baseline beside which the rounds timed the kernel."""
    interval: str = "within-run"
    """What the intervals are of: the rounds of one process, or, `between-process`, several fresh
    ones.
    """
    rung: Rung | None = None
    """None if none was timed."""
    marks: Sequence[str] = ()
    """Why no time is a result: `disturbed`, `unsteady`."""
    doubts: Sequence[str] = ()
    """The same in words."""
    since: Since | None = None
    counters: str = ""
    """The top reasons for stalls of the fastest configuration, if asked for."""


@dataclass(frozen=True)
class Verdict:
    """What is true of a kernel on problems, on one device."""

    schema: str = field(default=SCHEMA, init=False)
    kernel: str
    """Such as `cuda/mine`."""
    file: str
    """As it was given."""
    status: str
    """The gravest of all outcomes: `correct`, `incorrect`, `launch_error`, `timeout`,
    `compile_error`, or `not_tried` if the kernel could not be tried.
    """
    reason: str = ""
    """Of the gravest outcome; why it could not be tried."""
    command: Sequence[str] = ()
    """The words of the command line that repeats this."""
    time: str = ""
    """When it ended, in UTC."""
    seconds: float = 0.0
    device: Mapping[str, str] | None = None
    """`slug`, `name`, `kind` and `arch`; None without a usable device."""
    problems: Sequence[OnProblem] = ()
    not_measured: Sequence[Problem] = ()
    """The problems that the budget left out."""
    environment: Mapping[str, Any] = field(default_factory=dict)
    """`environment.json` of the device: what a measurement depends on."""
    sha256: str = ""
    """Digest of the source and of all that it includes, as samples have it."""
    source: Mapping[str, str] = field(default_factory=dict)
    """The text of the file and of what it includes, by name."""

    def json(self) -> str:
        """Return the verdict as one line of JSON. Numbers that JSON lacks are text: `nan`,
        `-inf`.
        """
        return json.dumps(_plain(asdict(self)), allow_nan=False)


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {key: _plain(part) for key, part in value.items()}
        case list() | tuple():
            return [_plain(part) for part in value]
        case float() if not math.isfinite(value):
            return str(value)
    return value
