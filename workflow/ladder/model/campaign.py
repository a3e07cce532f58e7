"""A campaign: what it measures, within which limits, and the plan of each job."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from ladder.core.errors import InputError
from ladder.core.expressions import ceil_div
from ladder.core.types import OF_CUDA
from ladder.model.baselines import (
    BASELINE_JOB,
    BASELINES,
    PRECISION,
    TYPES_OF,
    baseline_configurations,
)
from ladder.model.kernel import Build, Configuration, Kernel
from ladder.model.problem import Problem

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
    shard: int
    """The most configurations of a measure job."""
    operands: Mapping[str, Any]
    """alpha, beta, padding, offset, distribution and seed of every problem whose entry does not set
    them.
    """
    formats: Sequence[str] = ()
    """The formats of the figures besides SVG."""

    @cached_property
    def configurations(self) -> dict[str, list[tuple[Configuration, str]]]:
        """The configurations of each kernel id, each with the reason why it is not legal, or ""."""
        expanded_by_kernel = {}
        for id, kernel in self.kernels.items():
            lists = self.parameters.get(id, {})
            sources = [lists, {}] if lists and self.header_configurations else [lists]
            expanded = (
                kernel.expand(source, self.element_types, self.builds) for source in sources
            )
            expanded_by_kernel[id] = list(dict.fromkeys(itertools.chain.from_iterable(expanded)))
        return expanded_by_kernel

    def compilers(self, kernel: Kernel) -> list[str]:
        """Return the compilers of a kernel's configurations, by their names in
        `toolchain.compiler_version`.
        """
        return list(
            dict.fromkeys(kernel.compiler(Configuration("", (), build)) for build in self.builds)
        )

    def problems(self, kind: str, element_type: str) -> list[Problem]:
        """Return the problems of an element type on devices of a kind, smallest first."""
        entries = self.problem_sizes.get(kind, [])
        problems = [
            Problem(element_type=element_type, **{**self.operands, **entry}) for entry in entries
        ]
        return sorted(dict.fromkeys(problems), key=lambda p: (p.flops, p.m, p.n, p.k))

    def jobs(self, kind: str) -> list[str]:
        """Return the names of a device kind's measure jobs, such as `03_shared_tile.float32`: a
        kernel or the baselines, and an element type.

        With `shard`, the job `03_shared_tile.float32.1of3` has the first third of that kernel's
        configurations.
        """
        if not self.problem_sizes.get(kind):
            return []
        supported = [t for t in self.element_types if kind == "cuda" or t not in OF_CUDA]
        names = [f"{BASELINE_JOB}.{element_type}" for element_type in supported]
        for id, kernel in self.kernels.items():
            for element_type in supported if kernel.kind == kind else ():
                configurations = self._of_type(id, element_type)
                shards = ceil_div(len(configurations), self.shard)
                name = f"{kernel.name}.{element_type}"
                names += (
                    [f"{name}.{number}of{shards}" for number in range(1, shards + 1)]
                    if shards != 1
                    else [name]
                )
        return names

    def _of_type(self, id: str, element_type: str) -> list[tuple[Configuration, str]]:
        return [pair for pair in self.configurations[id] if pair[0].element_type == element_type]

    def plan(self, kind: str, job: str) -> dict[str, Any]:
        """Return everything that a measure job has to do, as plain data: Snakemake reruns the job
        when it changes.
        """
        name, element_type, *shard = job.split(".")
        if name == BASELINE_JOB:
            kernel = None
            chosen = [
                (baseline, configuration, "", PRECISION.get(baseline, ""))
                for baseline in self.baselines[kind]
                if element_type in TYPES_OF.get(baseline, self.element_types)
                for configuration in baseline_configurations(baseline, element_type)
            ]
        else:
            kernel = f"{kind}/{name}"
            precision = self.kernels[kernel].precision
            chosen = [
                (name, configuration, objection, precision)
                for configuration, objection in self._of_type(kernel, element_type)
            ]
        if shard:
            number, shards = (int(part) for part in shard[0].split("of"))
            begin, end = (len(chosen) * part // shards for part in (number - 1, number))
            chosen = chosen[begin:end]
        return {
            "kernel": kernel,
            "geometry": self.kernels[kernel].geometry if kernel else [],
            "candidates": [
                {
                    "name": name,
                    "label": configuration.label,
                    "objection": objection,  # why it is skipped, or ""
                    "precision": precision,
                }
                for name, configuration, objection, precision in chosen
            ],
            "problems": [asdict(problem) for problem in self.problems(kind, element_type)],
            "reference": BASELINES[kind][0],
            "limits": asdict(self.limits),
        }

    def confirmation(self, kind: str) -> dict[str, Any]:
        """Return everything that the confirmation on a device of a kind has to do, as plain data:
        Snakemake reruns it when it changes.
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
            "sustained": list(self.sustained),
            "seed": self.operands.get("seed", 0),
            "reference": BASELINES[kind][0],
            "target": self.limits.target,
            "limits": asdict(alike),
        }


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
