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
SOURCES = {".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".h"}
"""Suffixes of what somebody may mean to be a kernel."""
MAX_THREADS = 1024
"""Threads a block may have on every CUDA device (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability")."""

MAX_CONFIGURATIONS = 10_000
"""Of a kernel and element type; beyond it a list of parameters is a mistake rather than a plan."""

PROBLEM_NAMES = ("M", "N", "K", "lda", "ldb", "ldc", "alignment")
DEVICE_NAMES = {"sm_count": "sm_count", "shared_memory_per_block": "shared_memory_per_block_bytes"}
"""What expressions call attributes of a GPU, and what `environment.json` calls them."""
THREAD_NAMES = ("thread", "x", "y")
COMPILERS = ("nvcc", "nvrtc")
"""Of CUDA kernels; the first is the usual one."""
OPTIONS = {"maxrregcount": "--maxrregcount={}", "dlcm": "--ptxas-options=-dlcm={}"}
"""Options of both compilers that change how a kernel computes and never what; the words by which they are given
(CUDA Compiler Driver NVCC, "NVCC Command Options"; NVRTC, "Supported Compile Options").
"""
_OF_CONFIGURATION = ("block", "requires")
"""Keys whose expressions know the parameters only."""
_OF_PROBLEM = ("grid", "dynamic_shared", "when", "workspace", "needs", "global_reads", "global_writes", "accesses")
"""Keys whose expressions know the problem too, and of a CUDA kernel the device."""
_HEADER = re.compile(r"\A\s*/\*---\n(.*?)\n---\*/", re.DOTALL)
_INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)
_GAP = r"(?:\s|\\\n|/\*(?s:.*?)\*/)*+"
_READS = re.compile(rf"^{_GAP}((?:#|%:){_GAP}(?:include|include_next|import|embed)\b.*)|(\.incbin\b.*)", re.MULTILINE)
"""Whatever makes a compiler read another file; `_INCLUDE` must see it too."""

OF_BUILD = ("compiler", *OPTIONS)
Build = tuple[tuple[str, str], ...]
"""What is not usual about how a configuration is compiled: names of `OF_BUILD`, none of which a parameter can have, with their values."""


@dataclass(frozen=True)
class Configuration:
    """One assignment of a kernel's parameters, for one element type, and how it is compiled."""

    element_type: str
    parameters: tuple[tuple[str, int], ...]
    build: Build = ()

    @classmethod
    def of(cls, element_type: str, label: str) -> "Configuration":
        """The configuration that tables call `BM=128 BN=64`, or `BM=128 BN=64 compiler=nvrtc`."""
        parts = [(name, value) for name, _, value in (part.partition("=") for part in label.split()) if value]
        parameters = tuple((name, int(value)) for name, value in parts if name not in OF_BUILD)
        return cls(element_type, parameters, tuple((name, value) for name, value in parts if name in OF_BUILD))

    @property
    def slug(self) -> str:
        """A file name: `float32-BM128-BN64`."""
        return "-".join([self.element_type, *(f"{name}{value}" for name, value in (*self.parameters, *self.build))])

    @property
    def label(self) -> str:
        """What tables and figures show: `BM=128 BN=64`, or `-` where there are no parameters."""
        return " ".join(f"{name}={value}" for name, value in (*self.parameters, *self.build)) or "-"

    @property
    def compiler(self) -> str:
        """One of `COMPILERS`."""
        return dict(self.build).get("compiler", COMPILERS[0])

    @property
    def options(self) -> list[str]:
        """What the compiler is given of `OPTIONS`."""
        return [OPTIONS[name].format(value) for name, value in self.build if name in OPTIONS]

    def names(self) -> dict[str, Number]:
        """The names a header's expressions may use, without those of a problem."""
        return {**dict(self.parameters), "element_size": ELEMENT_TYPES[self.element_type].size}


@dataclass(frozen=True)
class LaunchShape:
    """One launch: the function's name, blocks and threads in x, y, z, dynamic shared memory of a block in bytes, declared accesses."""

    function: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared: int
    accesses: Sequence[Mapping[str, str | int]] = ()


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
    configurations: Sequence[Mapping[str, int]] = ()
    """Assignments tried beside the product of `sweep`, or alone where there is none; what one leaves out has its default."""
    element_types: Sequence[str] = ("float32",)
    precision: str = ""
    """The arithmetic its results are judged by where that is coarser than the element type's: `tf32`, as the baseline `cublas_tf32`."""
    where: Mapping[str, str | int] = field(default_factory=dict)
    """Names for expressions of the problem, for use in all that know it; each may use those before it."""
    block: Sequence[str | int] = (1,)
    grid: Sequence[str | int] = (1,)
    dynamic_shared: str | int = 0
    then: Sequence[Mapping[str, Any]] = ()
    """Launches after the first, each with `function`, `grid`, `block` and, if it likes, `dynamic_shared`, `when` and `accesses`."""
    workspace: str | int = ""
    """Bytes of device memory, not initialised, that every launch gets a pointer to as its last argument; "" for no such argument."""
    requires: Sequence[str] = ()
    needs: Sequence[str] = ()
    compute_capability: float = 0.0
    architecture: str = ""
    """What it is compiled for, such as `sm_90a`, and so the only compute capability it runs on; "" for that of the device."""
    global_reads: str = ""
    global_writes: str = ""
    accesses: Sequence[Mapping[str, str | int]] = ()

    @property
    def id(self) -> str:
        """`cuda/03_shared_tile`: how a campaign names the kernel."""
        return f"{self.kind}/{self.name}"

    @cached_property
    def includes(self) -> list[Path]:
        """The files that the kernel includes, directly or through another, in quotes or brackets: those of `kernels/include/`, and what an
        absolute path leads to. The compiler's own are not among them: its version stands for them.
        """
        folder = self.path.parents[1] / "include"
        found: dict[Path, None] = {}
        todo = [(self.text, folder)]
        while todo:
            text, beside = todo.pop()
            for quoted, bracketed in _INCLUDE.findall(text):
                paths = [beside / quoted, folder / quoted] if quoted else [folder / bracketed]
                path = next((path for path in paths if path.is_file()), None)
                if path and path not in found:
                    found[path] = None
                    todo.append((path.read_text(errors="replace"), path.parent))
        return list(found)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the file and everything that `includes` finds."""
        return hashlib.sha256(b"\0".join([self.text.encode(), *(path.read_bytes() for path in self.includes)])).hexdigest()

    def expand(
        self, lists: Mapping[str, Sequence[int]], element_types: Sequence[str], builds: Sequence[Build] = ((),)
    ) -> Iterator[tuple[Configuration, str]]:
        """The product of the swept lists, then the declared assignments, each with the reason it is not legal ("" where it is).

        `lists` are the campaign's: where it has any, they replace the kernel's own `sweep` and `configurations`. A CUDA kernel's are
        compiled in every way of `builds`. Raises `InputError`.
        """
        builds = builds if self.kind == "cuda" else ((),)
        values = [list(lists.get(name, self.sweep.get(name, [default]))) for name, default in self.parameters.items()]
        count = math.prod(map(len, values)) * len(builds)
        if count > MAX_CONFIGURATIONS:
            raise InputError(
                f"{self.id}: the lists of its parameters make {count} configurations; expected at most {MAX_CONFIGURATIONS}"
            )
        declared = [] if lists else [tuple({**self.parameters, **one}.values()) for one in self.configurations]
        product = () if declared and not self.sweep else itertools.product(*values)
        combinations = list(dict.fromkeys([*product, *declared]))
        for element_type in element_types:
            if element_type not in self.element_types:
                continue
            for combination, build in itertools.product(combinations, builds):
                configuration = Configuration(element_type, tuple(zip(self.parameters, combination, strict=True)), build)
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
                block = _three(launch["block"], names)
                if min(block) < 1:
                    return f"block extent {min(block)} is below 1"
                if math.prod(block) > MAX_THREADS:
                    return f"{math.prod(block)} threads a block; at most {MAX_THREADS}"
        return ""

    @property
    def _launches(self) -> list[Mapping[str, Any]]:
        first = {name: getattr(self, name) for name in ("grid", "block", "dynamic_shared", "accesses")}
        return [{"function": "gemm", **first}, *self.then]

    def names(self, configuration: Configuration, given: Mapping[str, Number]) -> dict[str, Number]:
        """All that expressions which know the problem may name; `given` are the names of the problem and of the device.

        A parameter that a configuration does not have, since that is older than it, is what `parameters` says; so in `source` too.
        """
        names = {**self.parameters, **configuration.names(), **given}
        for name, expression in self.where.items():
            names[name] = evaluate(expression, names)
        return names

    def launches(self, configuration: Configuration, given: Mapping[str, int]) -> list[LaunchShape]:
        """The launches that together make one GEMM, in order."""
        names = self.names(configuration, given)
        return [
            LaunchShape(
                launch["function"],
                _three(launch["grid"], names),
                _three(launch["block"], names),
                evaluate_int(launch.get("dynamic_shared", 0), names),
                launch.get("accesses", ()),
            )
            for launch in self._launches
            if evaluate(launch.get("when", 1), names)
        ]

    def workspace_of(self, configuration: Configuration, given: Mapping[str, int]) -> int | None:
        """Bytes of workspace for a problem on a device; None where the kernel takes none."""
        return evaluate_int(self.workspace, self.names(configuration, given)) if self.workspace else None

    @property
    def geometry(self) -> list[Any]:
        """How the kernel is launched, as plain data: with its binary, all that decides what it does."""
        launches = [{key: value for key, value in launch.items() if key != "accesses"} for launch in self._launches]
        return [dict(self.where), launches, self.workspace, list(self.needs)]

    def unmet_need(self, configuration: Configuration, given: Mapping[str, int]) -> str:
        """The need that the problem or the device does not meet, or ""."""
        names = self.names(configuration, given)
        return next((f"needs {need}" for need in self.needs if not evaluate(need, names)), "")

    def source(self, configuration: Configuration) -> str:
        """The text for the compiler: the configuration as constants, then the file with its own line numbers.

        Constants rather than -D macros: a macro named `T` or `BM` would also rewrite the toolkit's own headers.
        """
        element, parameters = ELEMENT_TYPES[configuration.element_type], {**self.parameters, **dict(configuration.parameters)}
        if self.kind == "cuda":
            lines = [f"using T = {element.c_type};", f"using Acc = {element.accumulator};"]
            lines = ["#include <cuda_fp16.h>", *lines] if element.name == "float16" else lines
            lines += [f"constexpr int {name} = {value};" for name, value in parameters.items()]
        else:
            lines = [f"typedef {element.c_type} T;", f"typedef {element.accumulator} Acc;"]
            lines += [f"enum {{ {name} = {value} }};" for name, value in parameters.items()]
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
    before = text[: found.start(1)].count("\n")  # so that messages name lines of the file
    header = yamlfile.load("\n" * before + found.group(1), f"{path}: header")
    yamlfile.check(header, "kernel", f"{path}: header")
    kernel = Kernel(kind=kind, name=path.stem, path=path, text=text, **header)
    _check_names(kernel, header)
    _check_includes(path, text, found.end())
    for included in kernel.includes:
        if included.is_relative_to(path.parents[1]):
            _check_includes(included, included.read_text(errors="replace"), 0)
    return kernel


def _check_includes(path: Path, text: str, start: int) -> None:
    """Whatever is read from another file is seen by `includes`: else a change of that file would leave a stale result."""
    for found in _READS.finditer(text, start):
        begins = found.start(found.lastindex or 0)
        if not _INCLUDE.match(text, text.rfind("\n", 0, begins) + 1):
            line = text.count("\n", 0, found.end()) + 1
            raise InputError(
                f'{path}: line {line}: got {yamlfile.shorten(text[begins : found.end()])}; expected #include "..." or #include <...> only, '
                "without a macro or a comment in it: what it names is looked at, to measure again when it has changed"
            )


def _check_names(kernel: Kernel, header: dict[str, Any]) -> None:
    """Every expression uses known names only and gives a value for the default configuration."""
    source = f"{kernel.path}: header"
    for name in kernel.parameters:
        if name in (*PROBLEM_NAMES, "element_size", "T", "Acc"):
            raise InputError(f"{source}: parameters.{name}: the name is taken by the pipeline; choose another")
    given = [("sweep", kernel.sweep), *((f"configurations[{i}]", one) for i, one in enumerate(kernel.configurations))]
    for where, name in [(where, name) for where, values in given for name in values]:
        if name not in kernel.parameters:
            raise InputError(f"{source}: {where}.{name}: no such parameter; known: {', '.join(kernel.parameters) or 'none'}")
    if kernel.precision and list(kernel.element_types) != ["float32"]:
        raise InputError(f"{source}: precision: got {yamlfile.shorten(kernel.precision)}; expected element_types to be [float32]")
    if kernel.kind == "cuda" and not {"block", "grid"} <= set(header):
        raise InputError(f"{source}: missing key block or grid; a CUDA kernel declares both")
    launching = sorted({"architecture", "block", "grid", "dynamic_shared", "then", "workspace"} & set(header))
    if kernel.kind == "cpu" and launching:
        raise InputError(
            f"{source}: {launching[0]}: got {yamlfile.shorten(header[launching[0]])}; expected CUDA kernels only to have it"
        )
    if kernel.kind == "cpu" and "float16" in kernel.element_types:
        raise InputError(f"{source}: element_types: got float16; expected CUDA kernels only to have it")
    default = Configuration(kernel.element_types[0], tuple(kernel.parameters.items())).names()
    known = default | dict.fromkeys((*PROBLEM_NAMES, *(DEVICE_NAMES if kernel.kind == "cuda" else ())), 1000)
    of_thread = dict.fromkeys(THREAD_NAMES, 0)

    def value_of(key: str, expression: str | int, names: Mapping[str, Number]) -> Number:
        try:
            unknown = names_in(expression) - set(names)
            if unknown:
                raise InputError(f"unknown name {', '.join(sorted(unknown))}; known: {', '.join(sorted(names))}")
            return evaluate(expression, names)
        except InputError as error:
            text = str(expression)
            cut = text.count("(") != text.count(")")  # YAML has taken a comma for the end of an element
            hint = '; an expression with a comma is written in quotes: ["ceil_div(N, BX)", M]' if cut else ""
            raise InputError(f"{source}: {key}: {yamlfile.shorten(expression)}: {error}{hint}") from None

    for name, expression in kernel.where.items():
        if name in (*known, *of_thread):
            raise InputError(f"{source}: where.{name}: the name is taken by the pipeline; choose another")
        known[name] = value_of(f"where.{name}", expression, known)
    expressions = [(key, value) for key, value in header.items() if key in _OF_CONFIGURATION + _OF_PROBLEM]
    for index, launch in enumerate(kernel.then):
        expressions += [(f"then[{index}].{key}", value) for key, value in launch.items() if key != "function"]
    for key, value in expressions:
        last = key.rsplit(".", 1)[-1]
        names = {**(known if last in _OF_PROBLEM else default), **(of_thread if last == "accesses" else {})}
        if last == "accesses":
            value = [expression for access in value for expression in access.values()]
        for expression in value if isinstance(value, list) else [value]:
            value_of(key, expression, names)


def discover(root: Path, refused: dict[str, InputError] | None = None) -> dict[str, Kernel]:
    """All kernels below `root`/kernels, by id, in ladder order. Why the others cannot be used comes into `refused`, by their ids."""
    found = {}
    for kind in KINDS:
        for path in _files(root, kind):
            if path.suffix == SUFFIX[kind] and _begins_with_header(path):
                try:
                    kernel = parse(path)
                    found[kernel.id] = kernel
                except InputError as error:
                    if refused is not None:
                        refused[f"{kind}/{path.stem}"] = error
    return found


def strays(root: Path) -> list[str]:
    """What to say of the files below `root`/kernels that are taken for no kernels."""
    return [
        f"{path}: taken for no kernel; expected the suffix {SUFFIX[kind]}, and a comment /*--- … ---*/ of YAML at the beginning"
        for kind in KINDS
        for path in _files(root, kind)
        if path.suffix != SUFFIX[kind] or not _begins_with_header(path)
    ]


def _files(root: Path, kind: str) -> list[Path]:
    """The files of a kind's folder, but for what editors leave beside those they edit."""
    paths = (root / "kernels" / kind).glob("*")
    return sorted(path for path in paths if path.is_file() and path.name[0] not in ".#" and path.suffix in SOURCES)


def _begins_with_header(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(200).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"/*---")
