"""A kernel: its header's fields, its configurations, and the source that the compiler gets."""

import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ladder.core import places
from ladder.core.errors import InputError
from ladder.core.expressions import Number, evaluate, evaluate_int, names_in
from ladder.core.types import ELEMENT_TYPES
from ladder.model.problem import transposes
from ladder.model.tensor_map import TensorMap, objection, tensor_map

ARGUMENTS = (
    "int M, int N, int K, Acc alpha, const T *A, int lda, const T *B, int ldb, Acc beta, T "
    "*C, int ldc"
)
"""What every launch of a kernel gets."""
SUFFIXES = {"cuda": (".cu", ".ptx", ".py"), "cpu": (".c",)}
"""The languages of a device kind's kernels, by the suffixes of their files: CUDA C++, PTX and
Triton; C. The first is the usual one.
"""
KIND_OF = {suffix: kind for kind, suffixes in SUFFIXES.items() for suffix in suffixes}
"""The device kind of a file with one of these suffixes."""
NO_BATCH = "supports one product at a time only, no batch"
BATCH = "typedef struct { int count; long long stride_a, stride_b, stride_c; } Batch;"
"""What a kernel gets by value after `ldc` where it is compiled for a batch: the number of products,
and the elements from one matrix to the next.
"""
SCALES = "const float *scales_a, const float *scales_b"
"""What it gets where the element type has scales: `operands.scale_places`."""
MAX_THREADS = 1024
"""The most threads per block on every CUDA device (CUDA C++ Programming Guide, "Technical
Specifications per Compute Capability").
"""

MAX_CONFIGURATIONS = 10_000
"""The most configurations of a kernel and element type that `requires` allows. Longer lists are a
mistake rather than a plan.
"""
MAX_TRIED = 200_000
"""The most assignments of the first parameters that are tried at once to find them: about 2 s, at
every start.
"""
COMPILERS = ("nvcc", "nvrtc")
"""Compilers of CUDA kernels. The first is the default."""
OPTIONS = {"maxrregcount": "--maxrregcount={}", "dlcm": "--ptxas-options=-dlcm={}"}
"""Options of both compilers that change how a kernel computes but never what, with their form on
the command line (CUDA Compiler Driver NVCC, "NVCC Command Options"; NVRTC, "Supported Compile
Options").
"""
INCLUDE = re.compile(r'^[^\S\n]*#[^\S\n]*include[^\S\n]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)

_NO_CODE = re.compile(r"//[^\n]*|/\*.*?\*/|\s+", re.DOTALL)
"""Comments and blanks of C++."""

OF_BUILD = ("compiler", *OPTIONS)
Build = tuple[tuple[str, str], ...]
"""The parts of how a configuration is compiled that are not the default: names of `OF_BUILD`, which
no parameter can have, and values.
"""


def code_digest(text: str, includes: Sequence[Path]) -> str:
    """Return the first digits of the SHA-256 of code and of the files that it includes, without
    comments, headers and blanks.
    """
    parts = [text, *(path.read_text(errors="replace") for path in includes)]
    return hashlib.sha256("\0".join(_NO_CODE.sub("", part) for part in parts).encode()).hexdigest()[
        :16
    ]


@dataclass(frozen=True)
class Configuration:
    """One assignment of a kernel's parameters, for one element type, and how it is compiled."""

    element_type: str
    parameters: tuple[tuple[str, int], ...]
    build: Build = ()
    layout: str = "nn"
    """The layout of the problems that it is compiled for."""
    batched: bool = False
    """Whether these are batches."""

    @classmethod
    def of(cls, element_type: str, label: str) -> "Configuration":
        """Return the configuration with a label such as `BM=128 BN=64` or `BM=128 BN=64
        compiler=nvrtc layout=nt batched`.
        """
        parameters, build, layout = [], [], "nn"
        for part in label.split():
            name, _, value = part.partition("=")
            if name in OF_BUILD:
                build.append((name, value))
            elif name == "layout":
                layout = value
            elif value:
                parameters.append((name, int(value)))
        batched = label.endswith("batched")
        return cls(element_type, tuple(parameters), tuple(build), layout, batched)

    @property
    def assignments(self) -> list[str]:
        """The parameters and how they are compiled: `BM=128`, `compiler=nvrtc`."""
        return [f"{name}={value}" for name, value in (*self.parameters, *self.build)]

    @property
    def slug(self) -> str:
        """The configuration in a file name: `float32-BM128-BN64`."""
        return "-".join([self.element_type, *self._words]).replace("=", "")

    @property
    def _words(self) -> list[str]:
        layout = [f"layout={self.layout}"] if self.layout != "nn" else []
        return [*self.assignments, *layout, *(["batched"] if self.batched else [])]

    @property
    def label(self) -> str:
        """The configuration in tables and figures: `BM=128 BN=64`, or `-` if there are no
        parameters.
        """
        return " ".join(self._words) or "-"

    @property
    def form(self) -> tuple[str, bool]:
        """What it is compiled for, as `Problem.form`."""
        return self.layout, self.batched

    @property
    def compiler(self) -> str:
        """One of `COMPILERS`."""
        return dict(self.build).get("compiler", COMPILERS[0])

    @property
    def options(self) -> list[str]:
        """The compiler's arguments, from `OPTIONS`."""
        return [OPTIONS[name].format(value) for name, value in self.build if name in OPTIONS]

    def names(self) -> dict[str, Number]:
        """Return the names that a header's expressions may use, without those of a problem."""
        element = ELEMENT_TYPES[self.element_type]
        sizes = {"element_size": element.size, "element_size_c": element.of_c.size}
        return {**dict(self.parameters), **sizes, **transposes(self.layout)}


@dataclass(frozen=True)
class LaunchShape:
    """One launch: function name, blocks and threads in x, y, z, bytes of dynamic shared memory per
    block, declared accesses.
    """

    function: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared: int
    accesses: Sequence[Mapping[str, str | int]] = ()


@dataclass(frozen=True)
class Kernel:
    """One GEMM implementation: one file, with what its header declares."""

    kind: str
    name: str
    path: Path
    text: str = field(repr=False)
    title: str
    idea: str
    sidecar: str = ""
    """The header's text if it stands in a file beside; "" if it is in the file."""
    label: str = ""
    """The idea in a few words, for figures. "" stands for the name."""
    builds_on: str = ""
    """The rung that it improves; "" for the one before it of the same precision."""
    rival: bool = False
    """Whether it is shown beside the ladder and is no rung of it."""
    made_for: str = ""
    """The problem that it is for, as tables label it; "" for square ones."""
    parameters: Mapping[str, int] = field(default_factory=dict)
    sweep: Mapping[str, Sequence[int]] = field(default_factory=dict)
    configurations: Sequence[Mapping[str, int | Sequence[int]]] = ()
    """Assignments tried in addition to the product of `sweep`, or alone without a sweep. A
    parameter left out has its default, and one with a list all values of that.
    """
    element_types: Sequence[str] = ("float32",)
    layouts: Sequence[str] = ("nn",)
    """The layouts of A and B that it supports, each of which it is compiled for."""
    batch: bool = False
    """Whether it supports batches, for which it is compiled apart."""
    uses: Sequence[str] = ()
    """Libraries of headers that are in no `kernels/include`, by their names in
    `toolchain.LIBRARIES`.
    """
    multiples: Sequence[str] = ()
    """Arguments that Triton's compiler takes for multiples of 16: bytes of an address, else the
    number. Each is among `needs`, too.
    """
    precision: str = ""
    """The arithmetic by which results are verified, if it is coarser than the element type's:
    `tf32`, as for the baseline `cublas_tf32`.
    """
    where: Mapping[str, str | int] = field(default_factory=dict)
    """Named expressions for use in all expressions that know the problem. Each may use those before
    it.
    """
    block: Sequence[str | int] = (1,)
    grid: Sequence[str | int] = (1,)
    dynamic_shared: str | int = 0
    then: Sequence[Mapping[str, Any]] = ()
    """Launches after the first, each with `function`, `grid`, `block` and optionally
    `dynamic_shared`, `when` and `accesses`.
    """
    workspace: str | int = ""
    """Bytes of uninitialized device memory. Every launch gets a pointer to it as an argument after
    `ldc`. "" for no such argument.
    """
    tensor_maps: Sequence[Mapping[str, Any]] = ()
    """Matrices and boxes. Every launch gets the encoded maps as its last arguments."""
    requires: Sequence[str] = ()
    needs: Sequence[str] = ()
    compute_capability: float = 0.0
    architecture: str = ""
    """The architecture, such as `sm_90a`, and thus the only compute capability that it runs on; ""
    for the device's.
    """
    global_reads: str = ""
    global_writes: str = ""
    accesses: Sequence[Mapping[str, str | int]] = ()

    @property
    def id(self) -> str:
        """The kernel's name in campaigns: `cuda/03_shared_tile`."""
        return f"{self.kind}/{self.name}"

    def compiler(self, configuration: Configuration) -> str:
        """Return the name of the configuration's compiler in `toolchain.compiler_version`."""
        of_language = {".c": "cc", ".ptx": "ptxas", ".py": "triton"}
        return of_language.get(self.path.suffix, configuration.compiler)

    @property
    def sources(self) -> dict[str, str]:
        """The text of the file, of its header if that stands beside it, and of `includes`, by their
        paths in a folder of kernels: `mine.cu`, `mine.yaml`, `include/store.cuh`.
        """
        texts = {self.path.name: self.text}
        if self.sidecar:
            texts[f"{self.path.stem}.yaml"] = self.sidecar
        own = self.path.resolve().parent
        for path in self.includes:
            folders = [own, *places.include_folders(self.path)]
            folder = next(filter(path.is_relative_to, folders), path.parent)
            name = path.relative_to(folder).as_posix()
            text = path.read_bytes().decode(errors="replace")
            texts[name if folder == own else f"include/{name}"] = text
        return texts

    @cached_property
    def includes(self) -> list[Path]:
        """The files that the kernel includes, directly or through another, in quotes or brackets.

        They are in one of `places.include_folders` or at an absolute path. The compiler's own
        headers are not among them: the compiler's version stands for them.
        """
        folders = places.include_folders(self.path)
        files: list[Path] = []
        todo = [(self.text, folders[0])]
        while todo:
            text, beside = todo.pop()
            for quoted, bracketed in INCLUDE.findall(text):
                among = [beside, *folders] if quoted else folders
                paths = (folder / (quoted or bracketed) for folder in among)
                path = next(filter(Path.is_file, paths), None)
                if path and path not in files:
                    files.append(path)
                    todo.append((path.read_text(errors="replace"), path.parent))
        return files

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the file and of everything in `includes`."""
        return hashlib.sha256(
            b"\0".join(
                [
                    self.text.encode(),
                    *(path.read_bytes() for path in self.includes),
                    *filter(None, [self.sidecar.encode()]),
                ]
            )
        ).hexdigest()

    def expand(
        self,
        lists: Mapping[str, Sequence[int]],
        element_types: Sequence[str],
        builds: Sequence[Build] = ((),),
        layouts: Sequence[str] = ("nn",),
        batched: Sequence[bool] = (False,),
    ) -> Iterator[tuple[Configuration, str]]:
        """Yield the product of the swept lists, then the declared assignments, each with the reason
        why it is not legal, or "".

        `lists` are the campaign's. A list replaces the header's `sweep` of that parameter, and any
        list replaces `configurations`. The configurations of a kernel in CUDA C++ are compiled in
        every way of `builds`, and all for each of `layouts` and `batched` that the kernel supports.
        Raises `InputError` if there are more than `MAX_CONFIGURATIONS`.
        """
        builds = builds if self.path.suffix == ".cu" else ((),)
        ways = [
            (build, layout, several)
            for layout in layouts
            if layout in self.layouts
            for several in batched
            if self.batch or not several
            for build in builds
        ]
        most = MAX_CONFIGURATIONS // max(1, len(ways))
        swept = {
            name: lists.get(name, self.sweep.get(name, [default]))
            for name, default in self.parameters.items()
        }
        declared = [] if lists else list(itertools.islice(self._declared(), most + 1))
        for element_type in element_types:
            if element_type not in self.element_types:
                continue
            product = self._product(element_type, swept, most) if self.sweep or not declared else []
            assignments = dict.fromkeys([*product, *declared])
            if len(assignments) > most:
                raise self._too_many(len(assignments) * len(ways))
            for values, way in itertools.product(assignments, ways):
                parameters = tuple(zip(self.parameters, values, strict=True))
                configuration = Configuration(element_type, parameters, *way)
                yield configuration, self.objection(configuration)

    def _declared(self) -> Iterator[tuple[int, ...]]:
        for own in self.configurations:
            values = {**self.parameters, **own}.values()
            lists = [[value] if isinstance(value, int) else value for value in values]
            yield from itertools.product(*lists)

    def _product(
        self, element_type: str, lists: Mapping[str, Sequence[int]], most: int
    ) -> list[tuple[int, ...]]:
        """Return all assignments of `lists`. If there are more than `most`, return those that
        `requires` allows, or else the first one, which shows why none is allowed.

        A value that `requires` forbids beside those before it is not combined with later lists.
        """
        product = itertools.product(*lists.values())
        if math.prod(map(len, lists.values())) <= most:
            return list(product)
        size = ELEMENT_TYPES[element_type].size
        allowed: list[dict[str, int]] = [{"element_size": size}]
        known = {"element_size"}
        for name, values in lists.items():
            known.add(name)
            requires = [text for text in self.requires if name in names_in(text) <= known]
            if len(allowed) * len(values) > MAX_TRIED:
                raise self._too_many(math.prod(map(len, lists.values())))
            longer = [names | {name: value} for names in allowed for value in values]
            allowed = [names for names in longer if all(_holds(text, names) for text in requires)]
        return [tuple(names[name] for name in lists) for names in allowed] or [next(product)]

    def _too_many(self, count: int) -> InputError:
        return InputError(
            f"{self.id}: the lists of its parameters make {count} configurations or more; expected "
            f"at most {MAX_CONFIGURATIONS} that `requires` allows: shorten a list, name assignments "
            "under `configurations`, or require more of the first parameters"
        )

    def objection(self, configuration: Configuration) -> str:
        """Return why the configuration is not legal, or "". An expression without a value for it is
        a reason too.
        """
        names = {**self.parameters, **configuration.names()}
        try:
            for requirement in self.requires:
                if not evaluate(requirement, names):
                    return f"requires {requirement}"
            for _, block in self.blocks(names):
                if min(block) < 1:
                    return f"block extent {min(block)} is below 1"
                if math.prod(block) > MAX_THREADS:
                    return f"{math.prod(block)} threads a block; at most {MAX_THREADS}"
        except InputError as error:
            return str(error)
        return ""

    def blocks(self, names: Mapping[str, Number]) -> list[tuple[str, tuple[int, int, int]]]:
        """Return the function and the threads per block of each launch; `names` are those of a
        configuration, as in `names`.
        """
        names = {**self.parameters, **names}
        return [(launch["function"], _three(launch["block"], names)) for launch in self._launches]

    @cached_property
    def _launches(self) -> list[Mapping[str, Any]]:
        first = {
            name: getattr(self, name) for name in ("grid", "block", "dynamic_shared", "accesses")
        }
        return [{"function": "gemm", **first}, *self.then]

    def names(self, configuration: Configuration, given: Mapping[str, Number]) -> dict[str, Number]:
        """Return all names that expressions that know the problem may use; `given` are the names of
        the problem and the device.

        An older configuration may lack a parameter: it then has the default in `parameters`. The
        same holds in `blocks`, `source` and `objection`.
        """
        names = {**self.parameters, **configuration.names(), **given}
        for name, expression in self.where.items():
            names[name] = evaluate(expression, names)
        return names

    def launches(
        self, configuration: Configuration, given: Mapping[str, Number]
    ) -> list[LaunchShape]:
        """Return the launches that together make one GEMM, in order."""
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

    def workspace_of(self, configuration: Configuration, given: Mapping[str, Number]) -> int | None:
        """Return the bytes of workspace for a problem on a device; None if the kernel takes
        none.
        """
        if not self.workspace:
            return None
        return evaluate_int(self.workspace, self.names(configuration, given))

    def maps(self, configuration: Configuration, given: Mapping[str, Number]) -> list[TensorMap]:
        """Return the tensor maps for a problem on a device, in order."""
        names = self.names(configuration, given)
        return [tensor_map(entry, names) for entry in self.tensor_maps]

    def arguments(self, configuration: Configuration) -> str:
        """Return what every launch gets: `ARGUMENTS`, then the batch, the scales of A and of B, a
        pointer to the workspace and the tensor maps, if there are any.
        """
        scaled = ELEMENT_TYPES[configuration.element_type].block
        return ", ".join(
            [
                ARGUMENTS,
                *(["Batch batch"] if configuration.batched else []),
                *([SCALES] if scaled else []),
                *(["void *workspace"] if self.workspace else []),
                *(f"TensorMap {entry['of'].lower()}_map" for entry in self.tensor_maps),
            ]
        )

    @property
    def geometry(self) -> list[Any]:
        """How the kernel is launched, as plain data. This and the binary decide everything that the
        kernel does.
        """
        launches = [
            {key: value for key, value in launch.items() if key != "accesses"}
            for launch in self._launches
        ]
        return [
            dict(self.where),
            launches,
            self.workspace,
            list(self.needs),
            *map(dict, self.tensor_maps),
        ]

    def unmet_need(self, configuration: Configuration, given: Mapping[str, Number]) -> str:
        """Return the need that the problem or the device does not meet, or ""."""
        if reason := self.unsupported(configuration, given):
            return reason
        names = self.names(configuration, given)
        for need in self.needs:
            if not evaluate(need, names):
                return f"needs {need}"
        workspace = self.workspace_of(configuration, given)
        for index, matrix in enumerate(self.maps(configuration, given)):
            if reason := objection(matrix, workspace):
                return f"tensor_maps[{index}]: {reason}"
        return ""

    def unsupported(self, configuration: Configuration, given: Mapping[str, Number]) -> str:
        """Return why the problem is a batch, or one of another layout than the configuration is
        compiled for, or "".
        """
        if (given.get("batch", 1) > 1) != configuration.batched:
            return "is compiled for batches" if configuration.batched else NO_BATCH
        own = transposes(configuration.layout)
        if all(given.get(name, value) == value for name, value in own.items()):
            return ""
        return f"supports the layouts {', '.join(self.layouts)} only"

    def source(self, configuration: Configuration) -> str:
        """Return the text for the compiler: the configuration as constants, then the file with its
        own line numbers.

        They are constants rather than -D macros: a macro named `T` or `BM` would also rewrite the
        toolkit's own headers. Only a layout, a batch, and a type `OUT` of C that is not `T`, are defined
        by macros, which code may ask for by `#if`; the layout `nn` and one product by none.
        """
        if self.path.suffix == ".ptx":  # which has no constants to set
            return self.text
        parameters = {**self.parameters, **dict(configuration.parameters)}
        if self.path.suffix == ".py":  # what `triton_child` reads
            request = {
                "text": self.text,
                "element_type": configuration.element_type,
                "multiples": list(self.multiples),
                "parameters": parameters
                | (transposes(configuration.layout) if list(self.layouts) != ["nn"] else {}),
            }
            return json.dumps(request)
        element = ELEMENT_TYPES[configuration.element_type]
        if self.kind == "cuda":
            lines = [f"#include <{element.header}>"] if element.header else []
            if element.result:
                lines.append(f"#define OUT {element.of_c.c_type}")
            lines += [f"using T = {element.c_type};", f"using Acc = {element.accumulator};"]
            lines += [f"constexpr int {name} = {value};" for name, value in parameters.items()]
        else:
            lines = [f"typedef {element.c_type} T;", f"typedef {element.accumulator} Acc;"]
            lines += [f"enum {{ {name} = {value} }};" for name, value in parameters.items()]
        if configuration.layout != "nn":
            constants = transposes(configuration.layout).items()
            lines += [f"#define {name} {value}" for name, value in constants]
        if configuration.batched:
            lines += ["#define BATCH 1", BATCH]
        if self.kind == "cpu":  # so that the compiler refuses other arguments
            lines.append(f"void gemm({self.arguments(configuration)});")
        return "\n".join([*lines, f'#line 1 "{self.path.name}"', self.text])


def _three(extents: Sequence[str | int], names: Mapping[str, Number]) -> tuple[int, int, int]:
    x, y, z = [*(evaluate_int(extent, names) for extent in extents), 1, 1][:3]
    return x, y, z


def _holds(requirement: str, names: Mapping[str, Number]) -> bool:
    """Return whether a requirement is met. One without a value, because something is divided by 0,
    is not.
    """
    try:
        return bool(evaluate(requirement, names))
    except InputError:
        return False
