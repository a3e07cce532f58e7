"""Read kernel files: parse a header, check its names, and find all kernels."""

import itertools
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ladder.core import places, store, yaml_schema
from ladder.core.errors import InputError, nearest, one_of
from ladder.core.expressions import Number, evaluate
from ladder.core.files import digest
from ladder.core.types import KINDS, OF_CUDA
from ladder.model.baselines import BASELINE_JOB, BASELINES, is_baseline
from ladder.model.kernel import INCLUDE, KIND_OF, SUFFIXES, Configuration, Kernel
from ladder.model.problem import Problem

_CODE = digest(
    [
        file.read_text()
        for module in (__file__, places.__file__)
        for file in sorted(Path(module).parent.glob("*.py"))
    ]
)
"""A digest of the modules by which a kernel is checked."""
SOURCES = {".c", ".cc", ".cpp", ".cu", ".cubin", ".cuh", ".cxx", ".h", ".ptx", ".py"}
"""Suffixes of files that somebody may mean as kernels."""

PROBLEM_NAMES = tuple(Problem(1, 1, 1).names())
DEVICE_NAMES = {
    "sm_count": "sm_count",
    "shared_memory_per_block": "shared_memory_per_block_bytes",
    "clusters_of_4": "clusters_of_4",
}
"""GPU attributes: the name in expressions -> the name in `environment.json`."""
THREAD_NAMES = ("thread", "x", "y")
_OF_PROBLEM = (
    "grid",
    "dynamic_shared",
    "when",
    "workspace",
    "at",
    "width",
    "height",
    "pitch",
    "box",
    "swizzle",
    "needs",
    "global_reads",
    "global_writes",
    "accesses",
)
"""Keys whose expressions know the problem and, for a CUDA kernel, the device. Those of `block` and
`requires` know only the parameters.
"""
_LANGUAGES = {
    "parameters": (".cu", ".py", ".c"),
    "uses": (".cu",),
    "batch": (".cu", ".c"),
    "multiples": (".py",),
    **dict.fromkeys(("block", "grid", "dynamic_shared"), (".cu", ".ptx", ".py")),
    **dict.fromkeys(("architecture", "then", "workspace", "tensor_maps"), (".cu", ".ptx")),
}
"""Keys that only kernels in some languages have, with the suffixes of these."""
_HEADER = re.compile(r"\A\s*(?:/\*|\"{3})---\n(.*?)\n---(?:\*/|\"{3})", re.DOTALL)
_PATH = re.compile(r"[./].*|.*/")
_MACRO = re.compile(r"^[^\S\n]*#[^\S\n]*define[^\S\n]+(\w+)", re.MULTILINE)
_READS = re.compile(
    r"^(?:.*\*/)?[^\S\n]*((?:#|%:)(?:[^\S\n]|\\\n)*+"
    r"(?:/\*|(?:include|include_next|import|embed)\b).*)|(\.incbin\b.*)",
    re.MULTILINE,
)
"""Everything that may make a compiler read another file. `INCLUDE` must see it too. No pattern
passes over lines: in a stranger's file that could take hours.
"""


def device_names(environment: Mapping[str, Any]) -> dict[str, int]:
    """Return the values of `DEVICE_NAMES` of the device that an `environment.json` describes.

    Data older than `clusters_of_4` gets the most that there can be, `sm_count // 4`, or 0 if the
    device has no clusters.
    """
    attributes = environment.get("attributes", {})
    if {"sm_count", "compute_capability"} <= attributes.keys():
        most = attributes["sm_count"] // 4 if float(attributes["compute_capability"]) >= 9 else 0
        attributes = {"clusters_of_4": most, **attributes}
    return {name: attributes[key] for name, key in DEVICE_NAMES.items() if key in attributes}


def check_name(name: str, source: str) -> None:
    """Raise `InputError` unless a kernel may have this name: files and tables have the baselines
    under theirs.
    """
    taken = [BASELINE_JOB, *itertools.chain.from_iterable(BASELINES.values())]
    if not re.fullmatch("[A-Za-z0-9_][A-Za-z0-9_-]*", name) or name in taken:
        raise InputError(
            f"{source}: the name of a kernel; expected letters, digits, _ and - only, and none of "
            f"{', '.join(taken)}, which baselines have"
        )


def header_of(path: Path) -> tuple[str, str, str] | None:
    """Return the text of a kernel's file, its header, and that header again if it stands in a file
    `.yaml` beside one that has none, else "". Return None if there is no header.

    A header in the file begins with as many blank lines as are before it, so that messages name
    lines of the file. Raises `InputError` for a file that cannot be read, and for a pipe or a
    device: to read it could take forever.
    """
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: a pipe, a device or a folder; expected a regular file")
    text, beside = yaml_schema.read(path), path.with_suffix(".yaml")
    if match := _HEADER.match(text):
        return text, "\n" * text[: match.start(1)].count("\n") + match[1], ""
    if not beside.is_file():
        return None
    sidecar = yaml_schema.read(beside)
    return text, sidecar, sidecar


def parse(path: Path) -> Kernel:
    """Return the kernel in a file anywhere. Raises `InputError` with the file and the key if the
    header cannot be used.
    """
    kind = KIND_OF.get(path.suffix)
    if not kind:
        raise InputError(f"{path}: expected a kernel, in a file {', '.join(KIND_OF)}")
    check_name(path.stem, str(path))
    found = header_of(path)
    if not found:
        raise InputError(
            f"{path}: no header; expected the file to begin with a comment /*--- … ---*/ of YAML, "
            f"or a docstring, or {path.stem}.yaml beside it; only `ladder try` takes a kernel "
            "without one"
        )
    for suffix in SUFFIXES[kind]:
        other = path.with_suffix(suffix)
        if other != path and _is_kernel(other, kind):
            raise InputError(f"{path}: has the name of {other.name}; rename one of them")
    text, whole, sidecar = found
    header = yaml_schema.load(whole, f"{path}: header")
    if sidecar and isinstance(header, dict):
        header = {"title": path.stem, "idea": path.name} | header
    yaml_schema.check(header, "kernel", f"{path}: header")
    multiples = header.get("multiples", [])
    needs = [
        f"{f'alignment_{name.lower()}' if name in 'ABC' else name} % 16 == 0" for name in multiples
    ]
    header |= {"needs": [*needs, *header.get("needs", [])]}
    kernel = Kernel(kind=kind, name=path.stem, path=path, text=text, sidecar=sidecar, **header)
    _check_place(kernel)
    key = digest([_CODE, kernel.digest, *map(str, [path, *kernel.includes])])
    if not store.take(key):  # each start of Snakemake reads all kernels
        _check_keys(kernel, header)
        _check_expressions(kernel, header)
        _check_code(kernel)
        store.keep(key, b"valid")
    return kernel


def _check_place(kernel: Kernel) -> None:
    """Raise `InputError` for a misspelled name of the rung that a kernel builds on.

    A rung may be copied to a project without the one that it builds on; only a name that looks
    misspelled is refused.
    """
    base = kernel.builds_on
    if not base or (base != kernel.name and path_of(kernel.kind, base).exists()):
        return
    folders = (place / "kernels" / kernel.kind for place in places.both())
    paths = [path for folder in (kernel.path.parent, *folders) for path in _files(folder)]
    others = [path.stem for path in paths if path != kernel.path and _is_kernel(path, kernel.kind)]
    if base == kernel.name or (base not in others and nearest(base, others)):
        raise InputError(
            f"{kernel.path}: header: builds_on: got {yaml_schema.shorten(base)}; "
            f"{one_of(base, others)}"
        )


def _check_code(kernel: Kernel) -> None:
    """Raise `InputError` for a macro of a parameter's name, and for a file that is read but not
    seen by `includes`: a change of that file would leave a stale result.
    """
    folders = places.include_folders(kernel.path)
    for path in (kernel.path, *kernel.includes):
        text = kernel.text if path == kernel.path else path.read_text(errors="replace")
        for macro in _MACRO.finditer(text):
            if macro[1] in kernel.parameters:
                raise InputError(
                    f"{_line(path, text, macro.end())}: got {macro[0].strip()}; expected no macro "
                    f"of this name: the pipeline defines the parameter {macro[1]}"
                )
        ours = path == kernel.path or any(map(path.is_relative_to, folders))
        if kernel.path.suffix == ".py" or not ours:
            continue
        header = _HEADER.match(text)
        for match in _READS.finditer(text, header.end() if header else 0):
            begins = match.start(match.lastindex or 0)
            if not INCLUDE.match(text, text.rfind("\n", 0, begins) + 1):
                raise InputError(
                    f"{_line(path, text, match.end())}: got "
                    f'{yaml_schema.shorten(text[begins : match.end()])}; expected #include "..." '
                    "or #include <...> only, without a macro or a comment in it: a change to an "
                    "included file must be noticed"
                )


def _line(path: Path, text: str, at: int) -> str:
    return f"{path}: line {text.count(chr(10), 0, at) + 1}"


def _check_keys(kernel: Kernel, header: dict[str, Any]) -> None:
    """Raise `InputError` for keys and element types that the kernel's language does not have, and
    for values of an unknown parameter.
    """
    source, types = f"{kernel.path}: header", kernel.element_types
    for key, suffixes in _LANGUAGES.items():
        if key in header and kernel.path.suffix not in suffixes:
            raise InputError(
                f"{source}: {key}: got {yaml_schema.shorten(header[key])}; expected only kernels "
                f"in {' or '.join(suffixes)} to have it"
            )
    if kernel.kind == "cuda" and not {"block", "grid"} <= set(header):
        raise InputError(f"{source}: missing key block or grid; a CUDA kernel declares both")
    lists = {f"configurations[{i}]": own for i, own in enumerate(kernel.configurations)}
    for where, values in {"sweep": kernel.sweep, **lists}.items():
        for name in values:
            if name not in kernel.parameters:
                raise InputError(
                    f"{source}: {where}.{name}: no such parameter; known: "
                    f"{', '.join(kernel.parameters) or 'none'}"
                )
    if kernel.path.suffix == ".ptx" and len(kernel.layouts) > 1:
        raise InputError(
            f"{source}: layouts: got {', '.join(kernel.layouts)}; expected one, because PTX has no "
            "constants"
        )
    if kernel.kind == "cpu" and set(types) & set(OF_CUDA):
        expected = "float32 or float64 in a CPU kernel"
    elif kernel.path.suffix == ".ptx" and len(types) > 1:
        expected = "one, because PTX has no type `T`"
    else:
        return
    raise InputError(f"{source}: element_types: got {', '.join(types)}; expected {expected}")


def _check_expressions(kernel: Kernel, header: dict[str, Any]) -> None:
    """Raise `InputError` unless every expression uses known names only and has a value for the
    default configuration.
    """
    source = f"{kernel.path}: header"

    def value_of(key: str, expression: str | int, names: Mapping[str, Number]) -> Number:
        try:
            return evaluate(expression, names)
        except InputError as error:
            raise InputError(f"{source}: {key}: {error}") from None

    parameters = tuple(kernel.parameters.items())
    default = Configuration(kernel.element_types[0], parameters, layout=kernel.layouts[0]).names()
    known = dict.fromkeys(PROBLEM_NAMES, 1000) | default
    if kernel.kind == "cuda":
        known |= dict.fromkeys(DEVICE_NAMES, 1000)
    of_thread = dict.fromkeys(THREAD_NAMES, 0)
    for name, expression in kernel.where.items():
        known[name] = value_of(f"where.{name}", expression, known)
    names_of = dict.fromkeys(_OF_PROBLEM, known) | {"block": default, "requires": default}
    names_of["accesses"] = known | of_thread
    entries = {
        "": header,
        **{f"then[{index}].": launch for index, launch in enumerate(kernel.then)},
        **{f"tensor_maps[{index}].": matrix for index, matrix in enumerate(kernel.tensor_maps)},
    }
    for prefix, entry in entries.items():
        for key, value in entry.items():
            if key not in names_of:
                continue
            values = value if isinstance(value, list) else [value]
            if key == "accesses":
                values = [expression for access in values for expression in access.values()]
            for expression in values:
                value_of(prefix + key, expression, names_of[key])


def discover(root: Path, refused: dict[str, InputError] | None = None) -> dict[str, Kernel]:
    """Return all kernels in `root`/kernels by id, in ladder order. `refused` gets the errors of
    those that cannot be used, by id.
    """
    return _read(_kernels_in(root), refused)


def everywhere(
    refused: dict[str, InputError] | None = None, files: Iterable[Path] = ()
) -> dict[str, Kernel]:
    """Return all kernels of home, of the project and in other `files`, as `discover` does.

    Tables and claims know a kernel by its name, so one that has the name of another at home is
    refused, unless they are the same.
    """
    of_places = map(_kernels_in, reversed(places.both()))
    return _read(itertools.chain(*of_places, files), refused)


def here() -> set[str]:
    """Return the ids of the kernels of `everywhere`, usable or not, without reading the files."""
    return {id_of(path) for place in places.both() for path in _kernels_in(place)}


def _read(paths: Iterable[Path], refused: dict[str, InputError] | None) -> dict[str, Kernel]:
    kernels: dict[str, Kernel] = {}
    errors = {} if refused is None else refused
    for path in paths:
        try:
            kernel = parse(path)
            other = kernels.setdefault(kernel.id, kernel)
            if other is not kernel and other.digest != kernel.digest:
                raise InputError(
                    f"{path}: has the name of {other.path}; rename one of them: tables and claims "
                    "know kernels by name"
                )
        except InputError as error:
            errors[id_of(path)] = error
    return dict(sorted(kernels.items(), key=lambda each: (KINDS.index(each[1].kind), each[0])))


def _kernels_in(root: Path) -> list[Path]:
    return [path for kind, path in _sources(root) if _is_kernel(path, kind)]


def id_of(path: Path) -> str:
    """Return the id of the kernel in a file."""
    return f"{KIND_OF.get(path.suffix, '')}/{path.stem}"


def files_of(pattern: str) -> list[Path] | None:
    """Return the files that a campaign's pattern names, relative to the project's folder: a file, or
    the kernels of a folder or a glob. None for a pattern of ids.
    """
    if not (_PATH.fullmatch(pattern) or Path(pattern).suffix in KIND_OF):
        return None
    root = Path("/") if pattern.startswith("/") else places.project()
    paths = sorted(root.glob(pattern.removeprefix("/")))
    files = [file for path in paths for file in (_files(path) if path.is_dir() else [path])]
    return [
        file.resolve()
        for file in files
        if pattern.endswith(file.name) or _is_kernel(file, KIND_OF.get(file.suffix, ""))
    ]


@lru_cache
def known() -> Mapping[str, Kernel]:
    """Return the kernels of `everywhere` by name, as they are when this is first called.

    For those who know of a kernel no more than a table says. A table may name kernels that are
    gone. A name means home's kernel, also if the project has one for the other device kind.
    """
    home = places.HOME / "kernels"
    found = sorted(everywhere().values(), key=lambda each: each.path.is_relative_to(home))
    return {kernel.name: kernel for kernel in found}


def is_rung(name: str) -> bool:
    """Return whether a name in a table is that of a rung: not of a baseline, nor of a rival by its
    header.
    """
    kernel = known().get(name)
    return not (is_baseline(name) or (kernel and kernel.rival))


def strays(root: Path) -> list[str]:
    """Return a message for each file in `root`/kernels that is not taken for a kernel."""
    return [
        f"{path}: ignored; expected the suffix {' or '.join(SUFFIXES[kind])}, and a comment "
        "/*--- … ---*/ of YAML at the beginning. `ladder try` needs no comment"
        for kind, path in _sources(root)
        if not _is_kernel(path, kind)
    ]


def _sources(root: Path) -> list[tuple[str, Path]]:
    return [(kind, path) for kind in KINDS for path in _files(root / "kernels" / kind)]


def _files(folder: Path) -> list[Path]:
    """Return the source files in a folder, without those that editors leave beside them."""
    return sorted(
        path
        for path in folder.glob("*")
        if path.is_file() and path.name[0] not in ".#" and path.suffix in SOURCES
    )


def path_of(kind: str, name: str) -> Path:
    """Return the file of a kernel of home, which tables mean by a name that the project has too,
    else of the project, or where it would be there if it were not gone.
    """
    names = [f"kernels/{kind}/{name}{suffix}" for suffix in SUFFIXES[kind]]
    paths = [place / name for place in reversed(places.both()) for name in names]
    return next(filter(Path.exists, paths), places.project() / names[0])


def _is_kernel(path: Path, kind: str) -> bool:
    """Return whether a file is taken for a kernel of a kind: it has a language's suffix and begins
    with a header.
    """
    if path.suffix not in SUFFIXES.get(kind, ()) or not path.is_file():
        return False
    with path.open("rb") as file:
        return (
            file.read(200)
            .removeprefix(b"\xef\xbb\xbf")
            .lstrip()
            .startswith(b'"""---' if path.suffix == ".py" else b"/*---")
        )
