"""Kernel files: the declared header, the configurations it allows, and the source handed to the compiler."""

import hashlib
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ladder import yamlfile
from ladder.expressions import Number, evaluate, evaluate_int, names_in
from ladder.units import ELEMENT_TYPES, KINDS, InputError

SUFFIX = {"cuda": ".cu", "cpu": ".c"}
MAX_THREADS = 1024
"""Threads a block may have on every CUDA device (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability")."""

MAX_CONFIGURATIONS = 10_000
"""Of a kernel and element type; beyond it a list of parameters is a mistake rather than a plan."""

PROBLEM_NAMES = ("M", "N", "K", "lda", "ldb", "ldc")
_OF_CONFIGURATION = ("block", "dynamic_shared", "requires")
"""Keys whose expressions know the parameters only."""
_OF_PROBLEM = ("grid", "workspace", "needs", "global_reads", "global_writes")
"""Keys whose expressions know the problem too."""
_HEADER = re.compile(r"\A\s*/\*---\n(.*?)\n---\*/", re.DOTALL)
_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


@dataclass(frozen=True)
class Configuration:
    """One assignment of a kernel's parameters, for one element type."""

    element_type: str
    parameters: tuple[tuple[str, int], ...]

    @property
    def slug(self) -> str:
        """A file name: `float32-BM128-BN64`."""
        return "-".join([self.element_type, *(f"{name}{value}" for name, value in self.parameters)])

    @property
    def label(self) -> str:
        """What tables and figures show: `BM=128 BN=64`, or `-` where there are no parameters."""
        return " ".join(f"{name}={value}" for name, value in self.parameters) or "-"

    def names(self) -> dict[str, Number]:
        """The names a header's expressions may use, without those of a problem."""
        return {**dict(self.parameters), "element_size": ELEMENT_TYPES[self.element_type].size}


@dataclass(frozen=True)
class LaunchShape:
    """One launch: the function's name, blocks and threads in x, y, z, and dynamic shared memory of a block in bytes."""

    function: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared: int


@dataclass(frozen=True)
class Kernel:
    """One GEMM implementation: one file under `kernels/`, with what its header declares."""

    kind: str
    name: str
    path: Path
    text: str = field(repr=False)
    title: str
    idea: str
    parameters: Mapping[str, int] = field(default_factory=dict)
    sweep: Mapping[str, Sequence[int]] = field(default_factory=dict)
    element_types: Sequence[str] = ("float32",)
    block: Sequence[str | int] = (1,)
    grid: Sequence[str | int] = (1,)
    dynamic_shared: str | int = 0
    then: Sequence[Mapping[str, Any]] = ()
    """Launches after the first, each with `function`, `grid`, `block` and, if it likes, `dynamic_shared`."""
    workspace: str | int = ""
    """Bytes of device memory, not initialised, that every launch gets a pointer to as its last argument; "" for no such argument."""
    requires: Sequence[str] = ()
    needs: Sequence[str] = ()
    compute_capability: float = 0.0
    global_reads: str = ""
    global_writes: str = ""

    @property
    def id(self) -> str:
        """`cuda/03_shared_tile`: how a campaign names the kernel."""
        return f"{self.kind}/{self.name}"

    @cached_property
    def includes(self) -> list[Path]:
        """The files of `kernels/include/` that the kernel includes, directly or through another."""
        folder = self.path.parents[1] / "include"
        found: dict[Path, None] = {}
        todo = [self.text]
        while todo:
            for name in _INCLUDE.findall(todo.pop()):
                path = folder / name
                if path.is_file() and path not in found:
                    found[path] = None
                    todo.append(path.read_text(errors="replace"))
        return list(found)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the file and everything of the project's that it includes."""
        return hashlib.sha256(b"\0".join([self.text.encode(), *(path.read_bytes() for path in self.includes)])).hexdigest()

    def expand(self, lists: Mapping[str, Sequence[int]], element_types: Sequence[str]) -> Iterator[tuple[Configuration, str]]:
        """Cross the swept lists; yield each configuration with the reason it is not legal ("" where it is). Raises `InputError`."""
        values = [list(lists.get(name, self.sweep.get(name, [default]))) for name, default in self.parameters.items()]
        if math.prod(map(len, values)) > MAX_CONFIGURATIONS:
            raise InputError(
                f"{self.id}: the lists of its parameters make {math.prod(map(len, values))} configurations; "
                f"expected at most {MAX_CONFIGURATIONS}"
            )
        for element_type in element_types:
            if element_type not in self.element_types:
                continue
            for combination in itertools.product(*values):
                configuration = Configuration(element_type, tuple(zip(self.parameters, combination, strict=True)))
                yield configuration, self.objection(configuration)

    def objection(self, configuration: Configuration) -> str:
        """Why the configuration is not legal, or ""; an expression that has no value for it is a reason too."""
        try:
            return self._objection(configuration.names())
        except InputError as error:
            return str(error)

    def _objection(self, names: Mapping[str, Number]) -> str:
        for requirement in self.requires:
            if not evaluate(requirement, names):
                return f"requires {requirement}"
        if self.kind == "cuda":
            for launch in self._launches:
                if evaluate_int(launch.get("dynamic_shared", 0), names) < 0:
                    return "dynamic_shared is below 0"
                block = _three(launch["block"], names)
                if min(block) < 1:
                    return f"block extent {min(block)} is below 1"
                if math.prod(block) > MAX_THREADS:
                    return f"{math.prod(block)} threads a block; at most {MAX_THREADS}"
        return ""

    @property
    def _launches(self) -> list[Mapping[str, Any]]:
        first = {"function": "gemm", "grid": self.grid, "block": self.block, "dynamic_shared": self.dynamic_shared}
        return [first, *self.then]

    def launches(self, configuration: Configuration, problem: Mapping[str, int]) -> list[LaunchShape]:
        """The launches that together make one GEMM of a problem (`M N K lda ldb ldc`), in order."""
        names = configuration.names()
        return [
            LaunchShape(
                launch["function"],
                _three(launch["grid"], {**names, **problem}),
                _three(launch["block"], names),
                evaluate_int(launch.get("dynamic_shared", 0), names),
            )
            for launch in self._launches
        ]

    def workspace_of(self, configuration: Configuration, problem: Mapping[str, int]) -> int | None:
        """Bytes of workspace for a problem; None where the kernel takes none."""
        return evaluate_int(self.workspace, {**configuration.names(), **problem}) if self.workspace else None

    @property
    def geometry(self) -> list[Any]:
        """How the kernel is launched, as plain data: with its binary, all that decides what it does."""
        return [[dict(launch) for launch in self._launches], self.workspace, list(self.needs)]

    def unmet_need(self, configuration: Configuration, problem: Mapping[str, int]) -> str:
        """The need that the problem does not meet, or ""."""
        names = {**configuration.names(), **problem}
        return next((f"needs {need}" for need in self.needs if not evaluate(need, names)), "")

    def source(self, configuration: Configuration) -> str:
        """The text for the compiler: the configuration as constants, then the file with its own line numbers.

        Constants rather than -D macros: a macro named `T` or `BM` would also rewrite the toolkit's own headers.
        """
        element = ELEMENT_TYPES[configuration.element_type]
        if self.kind == "cuda":
            lines = [f"using T = {element.c_type};", f"using Acc = {element.accumulator};"]
            lines = ["#include <cuda_fp16.h>", *lines] if element.name == "float16" else lines
            lines += [f"constexpr int {name} = {value};" for name, value in configuration.parameters]
        else:
            lines = [f"typedef {element.c_type} T;", f"typedef {element.accumulator} Acc;"]
            lines += [f"enum {{ {name} = {value} }};" for name, value in configuration.parameters]
        return "\n".join([*lines, f'#line 1 "{self.path.name}"', self.text])


def _three(extents: Sequence[str | int], names: Mapping[str, Number]) -> tuple[int, int, int]:
    x, y, z = [*(evaluate_int(extent, names) for extent in extents), 1, 1][:3]
    return x, y, z


def parse(path: Path) -> Kernel:
    """The kernel in a file; raises `InputError` naming the file and the key for a header that cannot be used."""
    kind, text = path.parent.name, yamlfile.read(path)
    if not re.fullmatch("[A-Za-z0-9_]+", path.stem) or path.stem == "baselines":
        raise InputError(f"{path}: the name of a kernel's file; expected letters, digits and _ only, and not baselines")
    found = _HEADER.match(text)
    if not found:
        raise InputError(f"{path}: no header; expected the file to begin with a comment /*--- … ---*/ of YAML")
    header = yamlfile.load(found.group(1), f"{path}: header")
    yamlfile.check(header, "kernel", f"{path}: header")
    kernel = Kernel(kind=kind, name=path.stem, path=path, text=text, **header)
    _check_names(kernel, header)
    return kernel


def _check_names(kernel: Kernel, header: dict[str, Any]) -> None:
    """Every expression uses known names only and gives a value for the default configuration."""
    source = f"{kernel.path}: header"
    for name in kernel.parameters:
        if name in (*PROBLEM_NAMES, "element_size", "T", "Acc"):
            raise InputError(f"{source}: parameters.{name}: the name is taken by the pipeline; choose another")
    for name in kernel.sweep:
        if name not in kernel.parameters:
            raise InputError(f"{source}: sweep.{name}: no such parameter; known: {', '.join(kernel.parameters) or 'none'}")
    if kernel.kind == "cuda" and not {"block", "grid"} <= set(header):
        raise InputError(f"{source}: missing key block or grid; a CUDA kernel declares both")
    launching = sorted({"block", "grid", "dynamic_shared", "then", "workspace"} & set(header))
    if kernel.kind == "cpu" and launching:
        raise InputError(
            f"{source}: {launching[0]}: got {yamlfile.shorten(header[launching[0]])}; expected CUDA kernels only to have it"
        )
    known = {*kernel.parameters, "element_size"}
    default = Configuration(kernel.element_types[0], tuple(kernel.parameters.items())).names()
    sample = dict.fromkeys(PROBLEM_NAMES, 1000)
    given = [(key, value) for key, value in header.items() if key in _OF_CONFIGURATION + _OF_PROBLEM]
    for index, launch in enumerate(kernel.then):
        given += [(f"then[{index}].{key}", value) for key, value in launch.items() if key != "function"]
    for key, value in given:
        with_problem = key.rsplit(".", 1)[-1] in _OF_PROBLEM
        for expression in value if isinstance(value, list) else [value]:
            try:
                unknown = names_in(expression) - known - (set(PROBLEM_NAMES) if with_problem else set())
                if unknown:
                    names = sorted(known | set(PROBLEM_NAMES)) if with_problem else sorted(known)
                    raise InputError(f"unknown name {', '.join(sorted(unknown))}; known: {', '.join(names)}")
                evaluate(expression, default | sample if with_problem else default)
            except InputError as error:
                raise InputError(f"{source}: {key}: {yamlfile.shorten(expression)}: {error}") from None


def discover(root: Path) -> dict[str, Kernel]:
    """All kernels below `root`/kernels, by id, in ladder order."""
    paths = [path for kind in KINDS for path in sorted((root / "kernels" / kind).glob(f"*{SUFFIX[kind]}"))]
    return {kernel.id: kernel for kernel in map(parse, paths)}
