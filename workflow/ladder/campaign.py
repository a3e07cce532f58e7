"""A campaign: one configuration file, checked whole before anything runs, and the measurements it asks for."""

import difflib
import fnmatch
import hashlib
import itertools
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ladder import yamlfile
from ladder.kernels import COMPILERS, OF_BUILD, Build, Configuration, Kernel
from ladder.units import ELEMENT_TYPES, KINDS, InputError, flops

BASELINES = {"cuda": ("cublas", "cublas_tf32", "cublaslt_best"), "cpu": ("blas_1", "blas_all")}
"""Vendor calls a device kind knows; the first is the reference that every kernel is paired with."""
PRECISION = {"cublas_tf32": "tf32"}
"""What baselines round their operands to, as `precision` in a kernel's header says it of a kernel."""
MOST_OF_NAME = 40
"""Characters of a campaign's name, as schemas/config.schema.yaml has it."""
MAX_PROBLEMS = 10_000
"""Of one entry of `problems`; beyond it a list is a mistake rather than a plan."""
WIDTH = 11.0
"""Inches that a figure is wide, for a screen, unless the campaign says otherwise; published ones are."""
MOST_OF_MEMORY = 0.9
"""The share of a device's memory that a problem may take: the driver and the libraries need the rest."""
GAPS = 1.25
"""Times as long as where it was timed a launch may take in a stretch of them; power and heat account for less."""
FEWEST = 3
"""Processes of a confirmation at the least."""
CONFIRMED = "confirmed"
"""The name of the confirmation's job and of its file, beside the folder of the sweep's samples."""
DRAWN_FROM = ("summary", "best", "pairs", "models", "rounds", "references")
"""The tables of a dataset that its figures are drawn from."""
INDEXED = ("summary", "best", "models", "rounds", "resources")
"""The tables of a dataset that the page to look around in shows."""
BASELINE_JOB = "baselines"
"""The name that the measure job of the baselines has in place of a kernel's."""


VARIED = ("alpha", "beta", "padding", "distribution")
"""What an entry of `problems` may say of its own, in place of the campaign."""


@dataclass(frozen=True)
class Problem:
    """`C <- alpha*A*B + beta*C`, row-major: A is M x K (lda), B is K x N (ldb), C is M x N (ldc)."""

    m: int
    n: int
    k: int
    element_type: str = "float32"
    alpha: float = 1.0
    beta: float = 0.0
    padding: int = 0
    """Elements added to every row: lda = K + padding, ldb = N + padding, ldc = N + 2 * padding, so that none can be taken for another."""
    offset: int = 0
    """Elements that A, B and C begin after an aligned address."""
    distribution: str = "uniform"
    seed: int = 0

    @property
    def lda(self) -> int:
        return self.k + self.padding

    @property
    def ldb(self) -> int:
        return self.n + self.padding

    @property
    def ldc(self) -> int:
        return self.n + 2 * self.padding

    @property
    def label(self) -> str:
        """`4096` for a square, else `64x4096x4096` (M x N x K), and what is not usual of its operands: `4096 beta=0.5 padding=3`."""
        size = str(self.m) if self.m == self.n == self.k else f"{self.m}x{self.n}x{self.k}"
        usual = Problem(self.m, self.n, self.k)
        own = {name: getattr(self, name) for name in VARIED if getattr(self, name) != getattr(usual, name)}
        return " ".join(
            [size, *(f"{name}={value if isinstance(value, str) else format(value, 'g')}" for name, value in own.items())]
        )

    @property
    def alignment(self) -> int:
        """The largest power of two, 16 at most, that divides the addresses of A, B and C."""
        shift = self.offset * ELEMENT_TYPES[self.element_type].size
        return min(16, shift & -shift) if shift else 16

    @property
    def flops(self) -> int:
        return flops(self.m, self.n, self.k)

    @property
    def bytes(self) -> int:
        """Device memory a measurement takes: the operands, and what verification in float64 adds."""
        operands = self.m * self.lda + self.k * self.ldb + self.m * self.ldc
        return operands * ELEMENT_TYPES[self.element_type].size + 8 * (self.m * self.k + self.k * self.n + 2 * self.m * self.n)

    def names(self) -> dict[str, int]:
        """What header expressions call the problem's numbers."""
        return {
            "M": self.m,
            "N": self.n,
            "K": self.k,
            "lda": self.lda,
            "ldb": self.ldb,
            "ldc": self.ldc,
            "alignment": self.alignment,
        }


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
        found = {}
        for id, kernel in self.kernels.items():
            lists = self.parameters.get(id, {})
            sources = [lists, {}] if lists and self.header_configurations else [lists]
            expanded = (kernel.expand(source, self.element_types, self.builds) for source in sources)
            found[id] = list(dict.fromkeys(itertools.chain.from_iterable(expanded)))
        return found

    def compilers(self, kind: str) -> list[str]:
        """The compilers of the kernels of a device kind, as `environment.compiler_version` knows them."""
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
        found: dict[tuple[str, str], list[tuple[Configuration, str]]] = {}
        for id, configurations in self.configurations.items():
            for configuration, objection in configurations:
                found.setdefault((id, configuration.element_type), []).append((configuration, objection))
        return found

    def plan(self, kind: str, job: str) -> dict[str, Any]:
        """Everything a measure job is asked to do, as plain data: Snakemake reruns the job when it changes."""
        name, element_type, *shard = job.split(".")
        if name == BASELINE_JOB:
            names = [b for b in self.baselines[kind] if b != "cublas_tf32" or element_type == "float32"]
            contestants = [_contestant(b, Configuration(element_type, ()), "", PRECISION.get(b, "")) for b in names]
            kernel = None
        else:
            kernel = f"{kind}/{name}"
            configurations = self._of_type[kernel, element_type]
            if shard:
                number, shards = (int(part) for part in shard[0].split("of"))
                begin, end = (len(configurations) * part // shards for part in (number - 1, number))
                configurations = configurations[begin:end]
            precision = self.kernels[kernel].precision
            contestants = [_contestant(name, configuration, objection, precision) for configuration, objection in configurations]
        return {
            "kernel": kernel,
            "geometry": self.kernels[kernel].geometry if kernel else [],
            "contestants": contestants,
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


def _contestant(name: str, configuration: Configuration, objection: str, precision: str) -> dict[str, Any]:
    """What is measured, as plain data: a kernel in one configuration, or a baseline; with an objection it is skipped."""
    return {
        "name": name,
        "slug": configuration.slug,
        "label": configuration.label,
        "parameters": [list(parameter) for parameter in configuration.parameters],
        "objection": objection,
        "precision": precision,
    }


def is_baseline(kernel: str) -> bool:
    """Whether a kernel's name is that of a vendor's call."""
    return any(kernel in names for names in BASELINES.values())


def digest(data: Any) -> str:
    """A short digest of plain data, the same in every process."""
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()[:16]


def find(folder: Path, name: str) -> Path:
    """The file under `config/` whose `campaign:` is `name`; raises `InputError` that lists those there are."""
    known = {}
    for path in sorted(folder.glob("*.yaml")):
        data = yamlfile.load(yamlfile.read(path), str(path))
        if isinstance(data, dict) and "campaign" in data:
            known[str(data["campaign"])] = path
    if name not in known:
        raise InputError(f"--config campaign={name}: no such campaign in {folder}; expected one of {', '.join(known)}")
    return known[name]


def read(folder: Path, files: Sequence[Path], given: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The data of the campaign that the command line asks for, and what messages call it.

    `files` are those of --configfile, which Snakemake has merged into `given` already. Without any it is the campaign under `folder` that
    `given` names, with `given` over it. Where `given` has other kernels than the file, it is a campaign of its own, whose name says which:
    the tables and figures of the whole one stay. Raises `InputError` for a file that our loader refuses, and for an unknown name.
    """
    if files:
        loaded = [yamlfile.load(yamlfile.read(file), str(file)) for file in files]  # Snakemake's loader takes more than ours
        whole = {key: value for one in loaded if isinstance(one, dict) for key, value in one.items()}
        source = ", ".join(os.path.relpath(file) for file in files)
    else:
        path = find(folder, given.get("campaign", "default"))
        whole, source = yamlfile.load(yamlfile.read(path), str(path)), str(path.relative_to(folder.parent))
    data = {} if files else dict(whole)
    data |= {key: value if files and whole.get(key) == value else yamlfile.typed(value) for key, value in given.items()}
    if len(files) < 2 and data != whole:
        source += " and --config"
    return (data | {"campaign": _narrowed(data["campaign"], data["kernels"])} if _other_kernels(whole, data) else data), source


def _other_kernels(whole: Mapping[str, Any], data: Mapping[str, Any]) -> bool:
    """Whether the command line asks for other kernels than the file; what is not of the form that the schema demands is refused later."""
    kernels = data.get("kernels", "all")
    right = isinstance(kernels, list) and all(isinstance(one, str) for one in kernels) and isinstance(data.get("campaign"), str)
    return right and kernels != whole.get("kernels", "all")


def _narrowed(name: str, patterns: Sequence[str]) -> str:
    """The name of a campaign with other kernels: `default-cpu-mine`, or, where that is too long or not plain, with a digest at its end."""
    plain = "-".join([name, *(re.sub("[^a-z0-9_]+", "-", pattern) for pattern in patterns)])
    exact = all(re.fullmatch("(cuda|cpu)/[a-z0-9_]+", pattern) for pattern in patterns)
    return (
        plain
        if exact and len(plain) <= MOST_OF_NAME
        else f"{plain[: MOST_OF_NAME - 7].rstrip('-_')}-{digest(list(patterns))[:6]}"
    )


def load(
    data: Mapping[str, Any], source: str, kernels: Mapping[str, Kernel], refused: Mapping[str, InputError] | None = None
) -> Campaign:
    """Check a campaign and build it; `source` is the file that messages name, `refused` are the kernels that cannot be used.

    Raises `InputError` for an unknown key, a wrong type or value, an unknown kernel, parameter or device kind, and a sweep without a
    legal configuration.
    """
    yamlfile.check(data, "config", source)
    chosen = _choose(data.get("kernels", "all"), source, kernels, refused or {})
    parameters = _check_parameters(data.get("parameters", {}), source, chosen, kernels)
    given = dict(data.get("measure", {}))
    shard, energy = given.pop("shard", 0), [str(label) for label in given.pop("energy", [])]
    limits = Limits(**given)
    if limits.max_samples < limits.min_samples:
        raise InputError(
            f"{source}: measure.max_samples: got {limits.max_samples}; expected at least min_samples, {limits.min_samples}"
        )
    common = dict(data.get("confirm", {}))
    own = {kind: common.pop(kind, {}) for kind in KINDS}
    confirm = {kind: Confirm(**common | own[kind]) for kind in KINDS}
    if 0 < confirm["cuda"].processes < FEWEST:
        raise InputError(
            f"{source}: confirm.processes: got {confirm['cuda'].processes}; expected 0, which leaves the confirmation out, or at least "
            f"{FEWEST}: how far processes differ cannot be told from fewer"
        )
    devices, architectures = data.get("devices", "auto"), data.get("architectures", "auto")
    campaign = Campaign(
        name=data["campaign"],
        source=source,
        kernels=chosen,
        devices=["auto"] if devices == "auto" else devices,
        architectures=[] if architectures == "auto" else architectures,
        problem_sizes={kind: _sizes(entries, f"{source}: problems.{kind}") for kind, entries in data["problems"].items()},
        element_types=data.get("element_types", ["float32"]),
        parameters=parameters,
        header_configurations=data.get("header_configurations", False),
        builds=_builds({"compiler": data.get("compiler", COMPILERS[0])} | data.get("options", {})),
        baselines={kind: data.get("baselines", {}).get(kind, BASELINES[kind]) for kind in KINDS},
        limits=limits,
        confirm=confirm,
        energy=energy,
        partitions=_partitions(data.get("partitions", {}), source),
        shard=shard,
        operands={name: data[name] for name in ("alpha", "beta", "padding", "distribution", "seed") if name in data},
        width=data.get("figures", {}).get("width", WIDTH),
        formats=data.get("figures", {}).get("formats", []),
    )
    for id, configurations in campaign.configurations.items():
        if not configurations:
            raise InputError(
                f"{source}: element_types: got {json.dumps(list(campaign.element_types))}; {id} supports "
                f"{', '.join(chosen[id].element_types)} only; choose its kernels under `kernels`"
            )
        if all(reason for _, reason in configurations):
            configuration, reason = configurations[0]
            raise InputError(
                f"{source}: parameters.{id}: none of the {len(configurations)} configurations is legal; "
                f"expected at least one (the first, {configuration.label}, is refused: {reason})"
            )
    return campaign


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


def _unknown(value: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(value, known, n=1, cutoff=0.4)
    return f"expected one of {', '.join(known)}" + (f" (did you mean {close[0]}?)" if close else "")


def _choose(patterns: Any, source: str, kernels: Mapping[str, Kernel], refused: Mapping[str, InputError]) -> dict[str, Kernel]:
    for id, error in refused.items():
        if patterns == "all" or any(fnmatch.fnmatch(id, pattern) for pattern in patterns):
            raise error
    if patterns == "all":
        return dict(kernels)
    matches = {}
    for index, pattern in enumerate(patterns):
        matches[pattern] = fnmatch.filter(kernels, pattern)
        if not matches[pattern]:
            raise InputError(f"{source}: kernels[{index}]: got {json.dumps(pattern)}; {_unknown(pattern, list(kernels))}")
    chosen = set(itertools.chain.from_iterable(matches.values()))
    return {id: kernel for id, kernel in kernels.items() if id in chosen}


def _check_parameters(
    parameters: Mapping[str, Mapping[str, Sequence[int]]],
    source: str,
    chosen: Mapping[str, Kernel],
    kernels: Mapping[str, Kernel],
) -> Mapping[str, Mapping[str, Sequence[int]]]:
    for id, lists in parameters.items():
        if id not in kernels:
            raise InputError(f"{source}: parameters.{id}: unknown kernel; {_unknown(id, list(kernels))}")
        for name, values in lists.items():
            if name not in kernels[id].parameters:
                known = list(kernels[id].parameters)
                raise InputError(
                    f"{source}: parameters.{id}.{name}: got {list(values)}; {_unknown(name, known) if known else 'it has no parameters'}"
                )
    return {id: lists for id, lists in parameters.items() if id in chosen}


def _builds(given: Mapping[str, Any]) -> list[Build]:
    """All combinations of compilers and options; the usual compiler is not named."""
    lists = [[(name, str(value)) for value in _many(given[name])] for name in OF_BUILD if name in given]
    return [tuple(pair for pair in build if pair != ("compiler", COMPILERS[0])) for build in itertools.product(*lists)]


def _many(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


def _partitions(entries: Mapping[str, Mapping[str, Any]], source: str) -> dict[str, Partition]:
    partitions = {name: Partition(**entry) for name, entry in entries.items()}
    for name, partition in partitions.items():
        if partition.kind == "cuda" and not partition.architecture:
            raise InputError(f"{source}: partitions.{name}: missing key architecture; expected that of its GPUs, such as sm_90")
    return partitions


def _sizes(entries: Sequence[Any], where: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for index, entry in enumerate(entries):
        if isinstance(entry, dict) and math.prod(len(_many(value)) for value in entry.values()) > MAX_PROBLEMS:
            raise InputError(f"{where}[{index}]: got more than {MAX_PROBLEMS} problems; expected at most as many")
        if isinstance(entry, list):
            sizes: list[tuple[int, ...]] = [tuple(entry)]
        elif "square" in entry:
            sizes = [(size, size, size) for size in _many(entry["square"])]
        else:
            sizes = list(itertools.product(_many(entry["M"]), _many(entry["N"]), _many(entry["K"])))
        own = {name: _many(entry[name]) for name in VARIED if name in entry} if isinstance(entry, dict) else {}
        for values in itertools.product(*own.values()):
            found += [dict(zip(("m", "n", "k", *own), (*size, *values), strict=True)) for size in sizes]
    return found
