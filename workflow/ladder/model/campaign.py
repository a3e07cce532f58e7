"""A campaign: what it measures, within which limits, and the plan of each job."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from ladder.core.errors import InputError
from ladder.model.kernel import Build, Configuration, Kernel
from ladder.model.problem import Problem

BASELINES = {"cuda": ("cublas", "cublas_tf32", "cublaslt_best"), "cpu": ("blas_1", "blas_all")}
"""Vendor calls a device kind knows; the first is the reference that every kernel is paired with."""
PRECISION = {"cublas_tf32": "tf32"}
"""What baselines round their operands to, as `precision` in a kernel's header says it of a kernel."""
WIDTH = 11.0
"""Inches that a figure is wide, for a screen, unless the campaign says otherwise; published ones are."""
MOST_OF_MEMORY = 0.9
"""The share of a device's memory that a problem may take: the driver and the libraries need the rest."""
GAPS = 1.25
"""Times as long as where it was timed a launch may take in a stretch of them; power and heat account for less."""
FEWEST = 3
"""Processes of a confirmation at the least."""
BASELINE_JOB = "baselines"
"""The name that the measure job of the baselines has in place of a kernel's."""


@dataclass(frozen=True)
class Limits:
    """How long to measure. Times in the unit their name ends in."""

    states: Sequence[str] = ("warm",)
    race: bool = True
    """Whether a configuration clearly slower than the best leaves before it has `min_samples`."""
    target: float = 0.005
    """Stop when the 95 % interval of the median, relative to it, is narrower than this to either side."""
    min_samples: int = 10
    max_samples: int = 60
    sample_us: float = 500.0
    """Launches shorter than this are repeated within one sample."""
    max_seconds: float = 4.0
    timeout_seconds: float = 120.0


@dataclass(frozen=True)
class Confirm:
    """How the finalists of the sweep are measured again."""

    processes: int = 5
    """Fresh processes, each of which measures all; 0 leaves the confirmation out."""
    rounds: int = 8
    """Rounds a process, problem and state, in each of which all finalists are timed once."""
    within: float = 0.02
    """A finalist's ratio to the reference is at most this share below its kernel's best; so near, configurations count as tied."""
    finalists: int = 3
    """The most of a kernel on a problem."""
    seconds: float = 0.3
    """A finalist leaves the rounds of a process once its samples there have taken this long."""


@dataclass(frozen=True)
class Partition:
    """Machines of a cluster that are alike, and what a job asks for to run on one of them."""

    device: str
    """Slug of the device that each of them has."""
    architecture: str = ""
    """Of a GPU: what kernels are compiled for."""
    resources: Mapping[str, int | str] = field(default_factory=dict)
    """Snakemake's resources of the jobs, such as `slurm_partition`."""

    @property
    def kind(self) -> str:
        return "cpu" if self.device.startswith("cpu-") else "cuda"


@dataclass(frozen=True)
class Campaign:
    """One checked configuration file together with the kernels it chose."""

    name: str
    source: str
    kernels: Mapping[str, Kernel]
    devices: Sequence[str]
    architectures: Sequence[str]
    problem_sizes: Mapping[str, Sequence[Mapping[str, Any]]]
    """m, n and k of every problem of a device kind, and what its entry says of alpha, beta and padding."""
    element_types: Sequence[str]
    parameters: Mapping[str, Mapping[str, Sequence[int]]]
    header_configurations: bool
    """Whether a kernel's own configurations are tried too where `parameters` has lists for it."""
    builds: Sequence[Build]
    """How every configuration of a CUDA kernel is compiled: by each compiler with each combination of options."""
    baselines: Mapping[str, Sequence[str]]
    limits: Limits
    confirm: Mapping[str, Confirm]
    """For each device kind."""
    energy: Sequence[str]
    """Labels of the problems on which energy is counted."""
    partitions: Mapping[str, Partition]
    """Where jobs are submitted: the machines of the cluster, by the name of the dataset that is measured on them."""
    shard: int
    """Configurations that a measure job takes at most; 0 for all of a kernel's."""
    operands: Mapping[str, Any]
    """alpha, beta, padding, distribution and seed: what is the same for every problem, unless its entry says otherwise."""
    width: float = WIDTH
    """Of the figures, in inches."""
    formats: Sequence[str] = ()
    """Of the figures, besides SVG."""

    @cached_property
    def configurations(self) -> dict[str, list[tuple[Configuration, str]]]:
        """For every kernel id its configurations, each with the reason it is not legal or ""."""
        expanded_by_kernel = {}
        for id, kernel in self.kernels.items():
            lists = self.parameters.get(id, {})
            sources = [lists, {}] if lists and self.header_configurations else [lists]
            expanded = (kernel.expand(source, self.element_types, self.builds) for source in sources)
            expanded_by_kernel[id] = list(dict.fromkeys(itertools.chain.from_iterable(expanded)))
        return expanded_by_kernel

    def compilers(self, kind: str) -> list[str]:
        """The compilers of the kernels of a device kind, as `toolchain.compiler_version` knows them."""
        return ["cc"] if kind == "cpu" else list(dict.fromkeys(Configuration("", (), build).compiler for build in self.builds))

    def problems(self, kind: str, element_type: str) -> list[Problem]:
        """The problems measured on devices of a kind, smallest first."""
        entries = self.problem_sizes.get(kind, [])
        problems = [Problem(element_type=element_type, **{**self.operands, **entry}) for entry in entries]
        return sorted(dict.fromkeys(problems), key=lambda p: (p.flops, p.m, p.n, p.k))

    def jobs(self, kind: str) -> list[str]:
        """Names of the measure jobs of a device kind: a kernel, or the baselines, and an element type, as in `03_shared_tile.float32`.

        With `shard`, the configurations of `03_shared_tile.float32.1of3` are the first third of that kernel's.
        """
        if not self.problem_sizes.get(kind):
            return []
        supported = [t for t in self.element_types if kind == "cuda" or t != "float16"]
        names = [f"{BASELINE_JOB}.{element_type}" for element_type in supported]
        for (id, element_type), configurations in self._of_type.items():
            if id.startswith(f"{kind}/"):
                shards = -(-len(configurations) // (self.shard or len(configurations)))
                name = f"{self.kernels[id].name}.{element_type}"
                names += [f"{name}.{number}of{shards}" for number in range(1, shards + 1)] if shards > 1 else [name]
        return names

    @cached_property
    def _of_type(self) -> dict[tuple[str, str], list[tuple[Configuration, str]]]:
        """The configurations of every kernel and element type that it has."""
        by_type: dict[tuple[str, str], list[tuple[Configuration, str]]] = {}
        for id, configurations in self.configurations.items():
            for configuration, objection in configurations:
                by_type.setdefault((id, configuration.element_type), []).append((configuration, objection))
        return by_type

    def plan(self, kind: str, job: str) -> dict[str, Any]:
        """Everything a measure job is asked to do, as plain data: Snakemake reruns the job when it changes."""
        name, element_type, *shard = job.split(".")
        if name == BASELINE_JOB:
            names = [b for b in self.baselines[kind] if b != "cublas_tf32" or element_type == "float32"]
            candidates = [_candidate(b, Configuration(element_type, ()), "", PRECISION.get(b, "")) for b in names]
            kernel = None
        else:
            kernel = f"{kind}/{name}"
            configurations = self._of_type[kernel, element_type]
            if shard:
                number, shards = (int(part) for part in shard[0].split("of"))
                begin, end = (len(configurations) * part // shards for part in (number - 1, number))
                configurations = configurations[begin:end]
            precision = self.kernels[kernel].precision
            candidates = [_candidate(name, configuration, objection, precision) for configuration, objection in configurations]
        return {
            "kernel": kernel,
            "geometry": self.kernels[kernel].geometry if kernel else [],
            "candidates": candidates,
            "problems": [asdict(problem) for problem in self.problems(kind, element_type)],
            "reference": BASELINES[kind][0],
            "limits": asdict(self.limits),
        }

    def confirmation(self, kind: str) -> dict[str, Any]:
        """What the confirmation of a device of a kind is asked to do, as plain data: Snakemake reruns it when it changes."""
        confirm = asdict(self.confirm[kind])
        rounds, seconds = confirm.pop("rounds"), confirm.pop("seconds")
        # below 0, which no interval is narrower than: all take part in the same rounds
        alike = replace(self.limits, race=False, target=-1.0, min_samples=1, max_samples=rounds, max_seconds=seconds)
        return confirm | {
            "energy": list(self.energy),
            "seed": self.operands.get("seed", 0),
            "reference": BASELINES[kind][0],
            "target": self.limits.target,
            "limits": asdict(alike),
        }


def _candidate(name: str, configuration: Configuration, objection: str, precision: str) -> dict[str, Any]:
    """What is measured, as plain data: a kernel in one configuration, or a baseline; with an objection it is skipped."""
    return {
        "name": name,
        "label": configuration.label,
        "objection": objection,
        "precision": precision,
    }


def is_baseline(kernel: str) -> bool:
    """Whether a kernel's name is that of a vendor's call."""
    return any(kernel in names for names in BASELINES.values())


def check_memory(campaign: Campaign, kind: str, device: str, memory: int) -> None:
    """Raise `InputError` for the first problem that does not fit a device's memory of `memory` bytes."""
    for element_type in campaign.element_types:
        for problem in campaign.problems(kind, element_type):
            if problem.bytes > MOST_OF_MEMORY * memory:
                raise InputError(
                    f"{campaign.source}: problems.{kind}: got {[problem.m, problem.n, problem.k]} in {element_type}, which takes "
                    f"{problem.bytes / 2**30:.1f} GiB with its verification; expected at most 90 % of the "
                    f"{memory / 2**30:.1f} GiB of {device}"
                )
