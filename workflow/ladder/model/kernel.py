"""A kernel: its header's fields, its configurations, and the source that the compiler gets."""

import hashlib
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ladder.core.errors import InputError
from ladder.core.expressions import Number, evaluate, evaluate_int
from ladder.core.types import ELEMENT_TYPES

SUFFIX = {"cuda": ".cu", "cpu": ".c"}
MAX_THREADS = 1024
"""Threads a block may have on every CUDA device (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability")."""

MAX_CONFIGURATIONS = 10_000
"""Of a kernel and element type; beyond it a list of parameters is a mistake rather than a plan."""
COMPILERS = ("nvcc", "nvrtc")
"""Of CUDA kernels; the first is the usual one."""
OPTIONS = {"maxrregcount": "--maxrregcount={}", "dlcm": "--ptxas-options=-dlcm={}"}
"""Options of both compilers that change how a kernel computes and never what; the words by which they are given
(CUDA Compiler Driver NVCC, "NVCC Command Options"; NVRTC, "Supported Compile Options").
"""
_INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)

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
        files: dict[Path, None] = {}
        todo = [(self.text, folder)]
        while todo:
            text, beside = todo.pop()
            for quoted, bracketed in _INCLUDE.findall(text):
                paths = [beside / quoted, folder / quoted] if quoted else [folder / bracketed]
                path = next((path for path in paths if path.is_file()), None)
                if path and path not in files:
                    files[path] = None
                    todo.append((path.read_text(errors="replace"), path.parent))
        return list(files)

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
        declared = [] if lists else [tuple({**self.parameters, **own}.values()) for own in self.configurations]
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
