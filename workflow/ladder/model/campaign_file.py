"""Read a campaign file and check all of it before anything runs."""

import fnmatch
import itertools
import json
import math
import os
import re
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import yaml

from ladder.core import yaml_schema
from ladder.core.errors import InputError, one_of
from ladder.core.files import digest
from ladder.core.places import both, project
from ladder.core.types import KINDS, USUAL
from ladder.model.baselines import BASELINES
from ladder.model.campaign import Campaign, Confirm, Limits, Partition
from ladder.model.kernel import COMPILERS, NO_BATCH, OF_BUILD, Build, Kernel
from ladder.model.kernel_file import files_of, id_of
from ladder.model.problem import VARIED, joined

MOST_OF_NAME = 40
"""The most characters of a campaign's name, as in schemas/config.schema.yaml."""
OF_MODULE = "the config of the module"
"""The source in messages of a campaign that another workflow has read."""
SOME_PROBLEMS = {"cpu": [[1, 1, 1]]}
"""In place of those of a campaign that is only named, to check what is beside its name."""
MAX_PROBLEMS = 10_000
"""The most problems of one entry of `problems`. A longer list is a mistake rather than a plan."""


def find(name: str, source: str = "") -> Path:
    """Return the file in `config/`, of the project or else of home, whose `campaign:` is `name`.

    Raises `InputError` that lists the known campaigns, or that names a file that is not YAML.
    `source` begins it.
    """
    known: list[str] = []
    errors: list[InputError] = []
    folders = [place / "config" for place in both()]
    for folder in folders:
        paths: dict[str, list[Path]] = {}
        for path in sorted(folder.glob("*.yaml")):
            try:
                data = yaml_schema.load(yaml_schema.read(path), str(path))
            except InputError as error:  # perhaps another campaign's
                errors.append(error)
                continue
            if isinstance(data, dict) and "campaign" in data:
                paths.setdefault(str(data["campaign"]), []).append(path)
        if name in paths:
            first, *others = paths[name]
            if others:
                raise InputError(
                    f"{others[0]}: campaign: got {name}, as in {first}; expected another name in "
                    "one of them"
                )
            return first
        known += paths
    if errors:
        raise errors[0]
    raise InputError(
        f"{source}campaign={name}: no such campaign in {' or '.join(map(str, folders))}; "
        f"{one_of(name, list(dict.fromkeys(known)))}"
    )


def read(files: Sequence[Path] | None, given: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the data of the campaign that the command line asks for, and the name of its source in
    messages.

    `files` are those of --configfile, which Snakemake has already merged into `given`. Without
    `files`, `given` names a campaign that `find` returns, and overrides its values. With None for
    `files` in a module, `given` may also be a whole campaign, which has `problems`.

    If `given` chooses other kernels than the file, the result is a separate campaign whose name
    says which: the tables and figures of the whole campaign stay. Raises `InputError` for a file that our loader refuses,
    for an unknown name, and for data that break the schema.
    """
    if files is None:
        data = {key: yaml_schema.typed(value) for key, value in given.items()}
        # those that a file has, whose campaign may be misspelled by a key
        named = {} if "problems" in data else {"campaign": "default", "problems": SOME_PROBLEMS}
        yaml_schema.check(named | data, "config", OF_MODULE)
        if not named:
            return data, OF_MODULE
    whole: dict[str, Any] = {}
    by_snakemake: dict[str, Any] = {}  # its loader accepts more than ours
    if files:
        for file in files:
            text = yaml_schema.read(file)
            whole |= yaml_schema.load(text, str(file)) or {}
            by_snakemake |= yaml.safe_load(text) or {}
    else:
        where = f"{OF_MODULE}: " if files is None else ""
        files = [find(str(given.get("campaign", "default")), where)]
        whole = yaml_schema.load(yaml_schema.read(files[0]), str(files[0]))
        # Snakemake makes a number of some names
        by_snakemake = {"campaign": given.get("campaign")}
    changed = {
        key: yaml_schema.typed(value)
        for key, value in given.items()
        if key not in by_snakemake or by_snakemake[key] != value
    }
    source = ", ".join(os.path.relpath(file) for file in files)
    if len(files) == 1 and changed:
        source += " and --config"
    data = whole | changed
    yaml_schema.check(data, "config", source)
    kernels = data.get("kernels", "all")
    if isinstance(kernels, list) and kernels != whole.get("kernels", "all"):
        data["campaign"] = narrowed(data["campaign"], kernels)
    return data, source


def narrowed(name: str, patterns: Sequence[str]) -> str:
    """Return the name of a campaign for some kernels or one claim: `default-cpu-mine`.

    It ends with a digest if it would be too long or not unique.
    """
    plain = "-".join([name, *(re.sub("[^a-z0-9_]+", "-", pattern) for pattern in patterns)])
    exact = all(re.fullmatch("(cuda|cpu)/[a-z0-9_]+|[a-z0-9_-]+", each) for each in patterns)
    if exact and len(plain) <= MOST_OF_NAME:
        return plain
    return f"{plain[: MOST_OF_NAME - 7].rstrip('-_')}-{digest(list(patterns))[:6]}"


def load(
    data: Mapping[str, Any],
    source: str,
    kernels: Mapping[str, Kernel],
    refused: Mapping[str, InputError] | None = None,
) -> Campaign:
    """Check a campaign and build it. Messages name `source` as its file; `refused` are the kernels
    that cannot be used.

    Raises `InputError` for an unknown key, a wrong type or value, an unknown kernel, parameter or
    device kind, and a sweep without a legal configuration.
    """
    yaml_schema.check(data, "config", source)
    element_types = data.get("element_types", ["float32"])
    usual = {name: data.get(name, value) for name, value in USUAL.items()}
    problem_sizes = {
        kind: _problems(entries, f"{source}: problems.{kind}", usual)
        for kind, entries in data["problems"].items()
    }
    fitting = {
        id
        for id, kernel in kernels.items()
        if set(kernel.element_types) & set(element_types)
        and any(
            entry["layout"] in kernel.layouts and (kernel.batch or entry["batch"] == 1)
            for entry in problem_sizes.get(kernel.kind, [{"layout": kernel.layouts[0], "batch": 1}])
        )
    }
    chosen = _choose(data.get("kernels", "all"), fitting, source, kernels, refused or {})
    parameters = data.get("parameters", {})
    _check_parameters(parameters, source, kernels)
    measure = dict(data.get("measure", {}))
    sustained = [str(label) for label in measure.pop("sustained", [])]
    limits = Limits(**measure)
    if limits.max_samples < limits.min_samples:
        raise InputError(
            f"{source}: measure.max_samples: got {limits.max_samples}; expected at least "
            f"min_samples, {limits.min_samples}"
        )
    common = dict(data.get("confirm", {}))
    own = {kind: common.pop(kind, {}) for kind in KINDS}
    architectures = data.get("architectures", "auto")
    campaign = Campaign(
        name=data["campaign"],
        source=source,
        kernels=chosen,
        devices=_many(data.get("devices", "auto")),
        architectures=[] if architectures == "auto" else architectures,
        problem_sizes=problem_sizes,
        element_types=element_types,
        parameters={id: lists for id, lists in parameters.items() if id in chosen},
        header_configurations=data.get("header_configurations", False),
        builds=_builds({"compiler": data.get("compiler", COMPILERS[0])} | data.get("options", {})),
        baselines=BASELINES | data.get("baselines", {}),
        limits=limits,
        confirm={kind: Confirm(**common | own[kind]) for kind in KINDS},
        sustained=sustained,
        partitions={name: Partition(**entry) for name, entry in data.get("partitions", {}).items()},
        operands={
            name: _value(name, data[name])
            for name in (*VARIED, "seed")
            if name in data.keys() - usual.keys()
        },
        formats=data.get("figures", {}).get("formats", []),
        libraries=_libraries(data.get("libraries", {}).get("cublas", []), source),
    )
    if campaign.libraries and campaign.partitions:
        raise InputError(
            f"{source}: libraries: got some with partitions; expected one or the other: versions "
            "are compared on one GPU of this machine"
        )
    for id, configurations in campaign.configurations.items():
        kernel = chosen[id]
        fits = set(kernel.element_types) & set(element_types)
        layouts = dict.fromkeys(layout for layout, _ in campaign.forms(kernel.kind))
        if not configurations and fits and layouts.keys() & set(kernel.layouts):
            raise InputError(
                f"{source}: batch: got more than 1; {id} {NO_BATCH}: its header does not say "
                "`batch: true`; expected 1"
            )
        if not configurations and fits:
            raise InputError(
                f"{source}: layout: got {', '.join(layouts)}; {id} supports "
                f"{', '.join(kernel.layouts)} only, as `layouts` in its header says; expected one "
                "of these"
            )
        if not configurations:
            raise InputError(
                f"{source}: element_types: got {json.dumps(list(campaign.element_types))}; {id} "
                "supports "
                f"{', '.join(kernel.element_types)} only; choose its kernels under `kernels`"
            )
        if all(reason for _, reason in configurations):
            configuration, reason = configurations[0]
            raise InputError(
                f"{source}: parameters.{id}: none of the {len(configurations)} configurations is "
                "legal; "
                f"expected at least one (the first, {configuration.label}, is refused: {reason})"
            )
    return campaign


def _choose(
    patterns: Any,
    fitting: Set[str],
    source: str,
    kernels: Mapping[str, Kernel],
    refused: Mapping[str, InputError],
) -> dict[str, Kernel]:
    """Return the kernels that a campaign names. A pattern leaves out those that are not `fitting`,
    with none of its element types, layouts and batches.
    """
    for id, error in refused.items():
        if patterns == "all" or any(id in _ids(pattern, [id]) for pattern in patterns):
            raise error
    chosen: set[str] = set()
    for index, pattern in enumerate(["*"] if patterns == "all" else patterns):
        ids = _ids(pattern, list(kernels))
        if not ids and patterns != "all":
            expected = (
                f"expected files of kernels with headers in {project()}; `ladder try` takes others"
            )
            if files_of(pattern) is None:
                expected = f"{one_of(pattern, list(kernels))}, or files of kernels"
            raise InputError(f"{source}: kernels[{index}]: got {json.dumps(pattern)}; {expected}")
        chosen |= fitting & set(ids) or set(ids)
    return {id: kernel for id, kernel in kernels.items() if id in chosen}


def _ids(pattern: str, known: Sequence[str]) -> list[str]:
    """Return the ids that a pattern names: of those that are known, or of its files."""
    files = files_of(pattern)
    return fnmatch.filter(known, pattern) if files is None else list(map(id_of, files))


def _check_parameters(
    parameters: Mapping[str, Mapping[str, Sequence[int]]],
    source: str,
    kernels: Mapping[str, Kernel],
) -> None:
    for id, lists in parameters.items():
        if id not in kernels:
            raise InputError(
                f"{source}: parameters.{id}: unknown kernel; {one_of(id, list(kernels))}"
            )
        known = list(kernels[id].parameters)
        for name, values in lists.items():
            if name not in known:
                raise InputError(
                    f"{source}: parameters.{id}.{name}: got {list(values)}; "
                    f"{one_of(name, known) if known else 'it has no parameters'}"
                )


def _builds(given: Mapping[str, Any]) -> list[Build]:
    """Return all combinations of compilers and options. The default compiler is not named in
    them.
    """
    lists = [
        [(name, str(value)) for value in _many(given[name])] for name in OF_BUILD if name in given
    ]
    return [
        tuple(pair for pair in build if pair != ("compiler", COMPILERS[0]))
        for build in itertools.product(*lists)
    ]


def _libraries(entries: Sequence[Any], source: str) -> dict[str, str]:
    """Return the folder that is named for each version, or ""."""
    folders: dict[str, str] = {}
    for index, entry in enumerate(entries):
        version, folder = (
            (entry, "") if isinstance(entry, str) else (entry["version"], entry["folder"])
        )
        if version in folders:
            raise InputError(
                f"{source}: libraries.cublas[{index}]: got {version} twice; expected each version "
                "once"
            )
        folders[version] = folder
    return folders


def _many(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


def _value(name: str, value: Any) -> Any:
    """Return the value of an operands' property as a problem has it: `[1, 4, 2]` for A, B and C is
    `1,4,2` there.
    """
    of_c = {"padding": 2, "offset": 1}
    return joined(value, of_c[name]) if name in of_c and isinstance(value, list) else value


def _problems(entries: Sequence[Any], where: str, usual: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return m, n and k of each problem, with the keys of `VARIED` that its entry sets, or else
    `usual`.
    """
    problems: list[dict[str, Any]] = []
    for index, entry in enumerate(entries):
        if isinstance(entry, list):
            entry = dict(zip("MNK", entry, strict=True))
        entry = {**usual, **entry}
        names = [name for name in (*VARIED, "square", *"MNK") if name in entry]
        lists = [_many(_value(name, entry[name])) for name in names]
        if math.prod(map(len, lists)) > MAX_PROBLEMS:
            raise InputError(
                f"{where}[{index}]: got more than {MAX_PROBLEMS} problems; expected at most as many"
            )
        for values in itertools.product(*lists):
            problem = dict(zip(names, values, strict=True))
            square = problem.pop("square", None)
            sizes = {size.lower(): problem.pop(size, square) for size in "MNK"}
            problems.append(sizes | problem)
    return problems
