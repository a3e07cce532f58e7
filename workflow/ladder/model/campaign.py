"""A campaign: what it measures, within which limits, and the plan of each job."""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

from ladder.core.errors import InputError
from ladder.core.places import named
from ladder.core.types import ELEMENT_TYPES, KINDS, OF_CUDA
from ladder.model.baselines import (
    BASELINE_JOB,
    BASELINES,
    PRECISION,
    TYPES_OF,
    baseline_configurations,
)
from ladder.model.kernel import Build, Configuration, Kernel
from ladder.model.problem import Problem

T = TypeVar("T")
Share = Mapping[str, Any]
"""The baselines, or configurations of a kernel, in one element type, as plans have them.

Their measurements have a journal, of its `name`: `03_shared_tile.float32`, or
`03_shared_tile.float32.1of3` for a third of the configurations. It stays when the parts of the
sweep change.
"""

SUSTAINED = "sustained"
"""The state of launches back to back, after clock and power have settled. The other states are
`warm` and `cold`.
"""
MOST_OF_MEMORY = 0.9
"""The share of a device's memory that a problem may take. The driver and the libraries need the
rest.
"""
FEWEST = 3
"""The fewest processes of a confirmation."""
RATE = {"cuda": 1e7, "cpu": 1e4}
"""FLOP per microsecond on a device kind: a guess, only to divide work and to say how much is left."""
OVERHEAD_US = 5e4
"""Roughly what a measurement takes besides its launches, in microseconds."""
SWEEP_US = 6e8
"""About how much work a job of the sweep has at most, in microseconds."""
CONFIRM_US = 1.8e9
"""About how much work a job of the confirmation has at most, in microseconds."""
FEWEST_PARTS = {"cuda": 4, "cpu": 1}
"""The parts of a short sweep. A GPU begins with one while kernels of others are compiled; on a CPU
nothing runs beside a measurement.
"""
JOURNALS = 500
"""The most journals that a job has open. A process may have 1,024 files."""


@dataclass(frozen=True)
class Limits:
    """How long to measure. The name of a time ends in its unit."""

    states: Sequence[str] = ("warm",)
    race: bool = True
    """Whether a configuration that is clearly slower than the best may leave before it has
    `min_samples`.
    """
    target: float = 0.005
    """Stop when the 95 % intervals of the median and of the ratio to the reference both reach at
    most this far to either side, relatively.
    """
    min_samples: int = 10
    max_samples: int = 60
    sample_us: float = 500.0
    """Launches shorter than this are repeated within one sample."""
    max_seconds: float = 4.0
    timeout_seconds: float = 120.0


@dataclass(frozen=True)
class Confirm:
    """How the confirmation measures the finalists of the sweep again."""

    processes: int = 5
    """Fresh processes, each of which measures all finalists; 0 leaves the confirmation out."""
    rounds: int = 8
    """Rounds per process, problem and state. Each round times every finalist once."""
    within: float = 0.02
    """How far below its kernel's best ratio to the reference a finalist's ratio may be, as a share.
    Configurations so close count as tied.
    """
    finalists: int = 3
    """The most finalists of a kernel on a problem."""
    seconds: float = 0.3
    """A finalist leaves the rounds of a process once its samples there have taken this long."""


@dataclass(frozen=True)
class Partition:
    """Identical machines of a cluster, and what a job requests to run on one of them."""

    device: str
    """Slug of the device that each machine has."""
    architecture: str = ""
    """The architecture that kernels are compiled for; "" for a CPU."""
    resources: Mapping[str, int | str] = field(default_factory=dict)
    """Snakemake resources of the jobs, such as `slurm_partition`."""

    @property
    def kind(self) -> str:
        return "cpu" if self.device.startswith("cpu-") else "cuda"


class Part(NamedTuple, Generic[T]):
    """What one job has to do."""

    items: list[T]
    us: float
    """The expected work, in microseconds."""


@dataclass(frozen=True)
class Campaign:
    """A checked campaign file with the kernels that it chooses."""

    name: str
    source: str
    kernels: Mapping[str, Kernel]
    devices: Sequence[str]
    architectures: Sequence[str]
    problem_sizes: Mapping[str, Sequence[Mapping[str, Any]]]
    """For each device kind: m, n and k of every problem, with the keys of `VARIED` that its entry
    sets.
    """
    element_types: Sequence[str]
    parameters: Mapping[str, Mapping[str, Sequence[int]]]
    header_configurations: bool
    """Whether to try a kernel's own configurations too if `parameters` has lists for it."""
    builds: Sequence[Build]
    """The builds of every configuration of a CUDA kernel: each compiler with each combination of
    options.
    """
    baselines: Mapping[str, Sequence[str]]
    limits: Limits
    confirm: Mapping[str, Confirm]
    """By device kind."""
    sustained: Sequence[str]
    """Labels of the problems on which the confirmation measures launches back to back, with their
    energy.
    """
    partitions: Mapping[str, Partition]
    """The machines of the cluster that jobs are submitted to, by the name of the dataset that is
    measured on them.
    """
    operands: Mapping[str, Any]
    """alpha, beta, padding, offset, distribution and seed of every problem whose entry does not set
    them.
    """
    formats: Sequence[str] = ()
    """The formats of the figures besides SVG."""
    libraries: Mapping[str, str] = field(default_factory=dict)
    """The versions of cuBLAS to measure beside, each with the folder named for it, or "". Without
    any it is the one that is installed.
    """

    @cached_property
    def configurations(self) -> dict[str, list[tuple[Configuration, str]]]:
        """The configurations of each kernel id, each with the reason why it is not legal, or ""."""
        expanded_by_kernel = {}
        for id, kernel in self.kernels.items():
            lists = self.parameters.get(id, {})
            sources = [lists, {}] if lists and self.header_configurations else [lists]
            forms = self.forms(kernel.kind) or [(layout, False) for layout in kernel.layouts]
            layouts, batched = (list(dict.fromkeys(part)) for part in zip(*forms, strict=True))
            expanded = (
                kernel.expand(source, self.element_types, self.builds, layouts, batched)
                for source in sources
            )
            expanded_by_kernel[id] = [
                each
                for each in dict.fromkeys(itertools.chain.from_iterable(expanded))
                if each[0].form in forms
            ]
        return expanded_by_kernel

    def forms(self, kind: str) -> list[tuple[str, bool]]:
        """Return the layouts of the problems on devices of a kind, each with whether they are
        batches.
        """
        entries = self.problem_sizes.get(kind, [])
        return list(
            dict.fromkeys(
                (entry.get("layout", "nn"), entry.get("batch", 1) > 1) for entry in entries
            )
        )

    def compilers(self, kernel: Kernel) -> list[str]:
        """Return the compilers of a kernel's configurations, by their names in
        `toolchain.compiler_version`.
        """
        return list(
            dict.fromkeys(kernel.compiler(Configuration("", (), build)) for build in self.builds)
        )

    def problems(self, kind: str, element_type: str) -> list[Problem]:
        """Return the problems of an element type on devices of a kind, smallest first."""
        return self._problems[kind, element_type]

    @cached_property
    def _problems(self) -> dict[tuple[str, str], list[Problem]]:
        problems = {}
        for kind, element_type in itertools.product(KINDS, ELEMENT_TYPES):
            given = {**self.operands, "element_type": element_type}
            entries = self.problem_sizes.get(kind, [])
            found = dict.fromkeys(Problem(**{**given, **entry}) for entry in entries)
            problems[kind, element_type] = sorted(found, key=lambda p: (p.flops, p.m, p.n, p.k))
        return problems

    def types(self, kind: str) -> list[str]:
        """Return the element types that are measured on devices of a kind."""
        if not self.problem_sizes.get(kind):
            return []
        return [each for each in self.element_types if kind == "cuda" or each not in OF_CUDA]

    @cached_property
    def shares(self) -> dict[tuple[str, str], list[Share]]:
        """What is swept on devices of a kind in an element type: kernels, then the baselines. Those
        with more work than a job are divided.
        """
        shares: dict[tuple[str, str], list[Share]] = {}
        for kind in KINDS:
            for element_type in self.types(kind):
                shares[kind, element_type] = [
                    {
                        "name": f"{name}.{element_type}{suffix}",
                        "kernel": id,
                        "geometry": self.kernels[id].geometry if id else [],
                        "layouts": list(self.kernels[id].layouts) if id else [],
                        **({"batch": True} if id and self.kernels[id].batch else {}),
                        "candidates": part.items,
                    }
                    for id, name, candidates in self._candidates(kind, element_type)
                    for suffix, part in _cut(
                        candidates, self._costs(kind, element_type, id, candidates), SWEEP_US
                    ).items()
                ]
        return shares

    def _costs(
        self, kind: str, element_type: str, id: str | None, candidates: Sequence[Mapping[str, str]]
    ) -> list[float]:
        """Return the expected work to sweep each of a kernel's candidates, in microseconds."""
        us: defaultdict[tuple[str, bool], float] = defaultdict(float)
        for problem in self.problems(kind, element_type):
            us[problem.form] += expected_us(kind, problem)
        whole = sum(us.values())
        return [
            us[Configuration.of(element_type, each["label"]).form] if id else whole
            for each in candidates
        ]

    def _candidates(
        self, kind: str, element_type: str
    ) -> Iterator[tuple[str | None, str, list[dict[str, str]]]]:
        """Yield the id, the name and the candidates of each kernel, and of the baselines."""
        for id, kernel in self.kernels.items():
            if kernel.kind == kind:
                candidates = [
                    _candidate(kernel.name, configuration, objection, kernel.precision)
                    for configuration, objection in self.configurations[id]
                    if configuration.element_type == element_type
                ]
                yield id, kernel.name, candidates
        baselines = [
            _candidate(name, configuration, "", PRECISION.get(name, ""))
            for name in self.baselines[kind]
            if element_type in TYPES_OF.get(name, self.element_types)
            for configuration in baseline_configurations(name, element_type)
        ]
        yield None, BASELINE_JOB, baselines

    @cached_property
    def parts(self) -> dict[str, dict[str, Part[Share]]]:
        """The parts of each device kind's sweep, one job each, by names such as `float32.1of4`."""
        parts: dict[str, dict[str, Part[Share]]] = {kind: {} for kind in KINDS}
        for (kind, element_type), shares in self.shares.items():
            costs = [
                sum(self._costs(kind, element_type, share["kernel"], share["candidates"]))
                for share in shares
            ]
            fewest = math.ceil(FEWEST_PARTS[kind] / len(self.types(kind)))
            # a divided kernel shares no part with others: its files can be read by themselves
            shares_of = Counter(share["kernel"] for share in shares)
            apart = [
                share["kernel"] or "" if shares_of[share["kernel"]] > 1 else "" for share in shares
            ]
            for suffix, part in _cut(shares, costs, SWEEP_US, fewest, apart).items():
                parts[kind][element_type + suffix] = part
        return parts

    @cached_property
    def blocks(self) -> dict[str, dict[str, Part[Problem]]]:
        """The parts of each device kind's confirmation, one job each, by the ends of their names:
        `.1of3`, or "" for the only one.
        """
        blocks = {}
        for kind, confirm in self.confirm.items():
            types = self.types(kind) if confirm.processes else []
            problems = [problem for each in types for problem in self.problems(kind, each)]
            costs = [self._confirming_us(kind, problem) for problem in problems]
            blocks[kind] = _cut(problems, costs, CONFIRM_US)
        return blocks

    def _confirming_us(self, kind: str, problem: Problem) -> float:
        """Return how long the confirmation takes on a problem, in microseconds: a guess."""
        confirm, launch = self.confirm[kind], problem.flops / RATE[kind]
        rounds = confirm.rounds * max(launch, self.limits.sample_us)
        timed = max(launch, min(rounds, 1e6 * confirm.seconds))
        return self.confirmations(kind, problem) * (OVERHEAD_US + timed)

    def confirmations(self, kind: str, problem: Problem) -> int:
        """Return how many measurements the confirmation makes on a problem, at most."""
        states = len(self.limits.states) + (problem.label in self.sustained)
        return self.confirm[kind].processes * states * self._finalists[kind, problem.element_type]

    @cached_property
    def _finalists(self) -> dict[tuple[str, str], int]:
        """The most finalists that a problem can have, by device kind and element type."""
        return {
            of: sum(
                min(len(candidates), self.confirm[of[0]].finalists) if id else len(candidates)
                for id, _, candidates in self._candidates(*of)
            )
            for of in self.shares
        }

    def plan(self, kind: str, shares: Sequence[Share]) -> dict[str, Any]:
        """Return everything that a measure job has to do, as plain data: Snakemake reruns the job
        when it changes.
        """
        element_type = shares[0]["name"].split(".")[1]
        return {
            "paths": _paths(self.kernels[share["kernel"]] for share in shares if share["kernel"]),
            "shares": shares,
            "problems": [each.fields for each in self.problems(kind, element_type)],
            "reference": BASELINES[kind][0],
            "limits": asdict(self.limits),
        }

    def confirmation(self, kind: str, problems: Sequence[Problem]) -> dict[str, Any]:
        """Return everything that the confirmation of problems on a device of a kind has to do, as
        plain data: Snakemake reruns it when it changes.
        """
        confirm = asdict(self.confirm[kind])
        rounds, seconds = confirm.pop("rounds"), confirm.pop("seconds")
        # no interval is narrower than a target below 0, so all finalists take part in the same
        # rounds
        alike = replace(
            self.limits,
            race=False,
            target=-1.0,
            min_samples=1,
            max_samples=rounds,
            max_seconds=seconds,
        )
        return confirm | {
            "paths": _paths(kernel for kernel in self.kernels.values() if kernel.kind == kind),
            "problems": [each.fields for each in problems],
            "sustained": list(self.sustained),
            "reference": BASELINES[kind][0],
            "target": self.limits.target,
            "limits": asdict(alike),
        }


def _paths(kernels: Iterable[Kernel]) -> dict[str, str]:
    """Return the files of kernels by name, as `places.find` takes them."""
    return {kernel.name: named(kernel.path) for kernel in kernels}


def expected_us(kind: str, problem: Problem) -> float:
    """Return how long the sweep takes for one candidate on a problem, in microseconds: a guess."""
    return OVERHEAD_US + 12 * problem.flops / RATE[kind]


def _candidate(
    name: str, configuration: Configuration, objection: str, precision: str
) -> dict[str, str]:
    """Return a candidate as plans have it. `objection` says why it is skipped, or ""."""
    label = configuration.label
    return {"name": name, "label": label, "objection": objection, "precision": precision}


def _cut(
    items: Sequence[T],
    costs: Sequence[float],
    most: float,
    fewest: int = 1,
    apart: Sequence[str] = (),
) -> dict[str, Part[T]]:
    """Divide items, in their order, into parts of about equal cost, of about `most` or less, and of
    at most `JOURNALS` items. Items that differ in `apart`, if given, are in different parts. There
    are about `fewest` parts or more, unless a few items are most of the cost. The keys end the
    names of the parts: `.02of12`, or "" for the only one.
    """
    total, before = sum(costs), 0.0
    number = max(fewest, math.ceil(total / most))
    parts: defaultdict[tuple[int, int, str], list[int]] = defaultdict(list)
    for index, cost in enumerate(costs):
        position = int(number * (before + cost / 2) / total)
        parts[position, index // JOURNALS, apart[index] if apart else ""].append(index)
        before += cost
    cut = [
        Part([items[index] for index in part], sum(costs[index] for index in part))
        for part in parts.values()
    ]
    if len(cut) == 1:
        return {"": cut[0]}
    width = len(str(len(cut)))  # names sort as the parts do
    return {f".{number:0{width}}of{len(cut)}": part for number, part in enumerate(cut, 1)}


def check_memory(campaign: Campaign, kind: str, device: str, memory: int) -> None:
    """Raise `InputError` for the first problem that needs more than `MOST_OF_MEMORY` of a device's
    `memory` bytes.
    """
    for element_type in campaign.element_types:
        for problem in campaign.problems(kind, element_type):
            needed = problem.host_bytes if kind == "cpu" else problem.bytes
            if needed > MOST_OF_MEMORY * memory:
                raise InputError(
                    f"{campaign.source}: problems.{kind}: got {[problem.m, problem.n, problem.k]} "
                    f"in {element_type}, which takes "
                    f"{needed / 2**30:.1f} GiB with its verification; expected at most 90 % of the "
                    f"{memory / 2**30:.1f} GiB of {device}"
                )
