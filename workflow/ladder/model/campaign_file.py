"""Read a campaign file and check all of it before anything runs."""

import fnmatch
import itertools
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from ladder.core import yaml_schema
from ladder.core.errors import InputError, one_of
from ladder.core.files import digest
from ladder.core.types import KINDS
from ladder.model.baselines import BASELINES
from ladder.model.campaign import FEWEST, WIDTH, Campaign, Confirm, Limits, Partition
from ladder.model.kernel import COMPILERS, OF_BUILD, Build, Kernel
from ladder.model.problem import VARIED, joined

MOST_OF_NAME = 40
"""The most characters of a campaign's name, as in schemas/config.schema.yaml."""
MAX_PROBLEMS = 10_000
"""The most problems of one entry of `problems`. A longer list is a mistake rather than a plan."""


def find(folder: Path, name: str) -> Path:
    """Return the file under `config/` whose `campaign:` is `name`.

    Raises `InputError` that lists the known campaigns, or that names a file that is not YAML.
    """
    known: dict[str, Path] = {}
    errors = []
    for path in sorted(folder.glob("*.yaml")):
        try:
            data = yaml_schema.load(yaml_schema.read(path), str(path))
        except (
            InputError
        ) as unreadable:  # perhaps another campaign's: an error only if this one is not found
            errors.append(unreadable)
            continue
        if isinstance(data, dict) and "campaign" in data:
            same = known.setdefault(str(data["campaign"]), path)
            if same != path and data["campaign"] == name:
                raise InputError(
                    f"{path}: campaign: got {name}, as in {same}; expected another name in one of "
                    "them"
                )
    if name not in known:
        if errors:
            raise errors[0]
        raise InputError(
            f"--config campaign={name}: no such campaign in {folder}; expected one of "
            f"{', '.join(known)}"
        )
    return known[name]


def read(
    folder: Path, files: Sequence[Path], given: Mapping[str, Any]
) -> tuple[dict[str, Any], str]:
    """Return the data of the campaign that the command line asks for, and the name of its source in
    messages.

    `files` are those of --configfile, which Snakemake has already merged into `given`. Without
    `files`, `given` names a campaign under
    `folder` and overrides its values. If `given` chooses other kernels than the file, the result is
    a separate campaign whose name says which: the tables and figures of the whole campaign stay.
    Raises `InputError` for a file that our loader refuses, and for an unknown name.
    """
    if files:
        texts = {str(file): yaml_schema.read(file) for file in files}
        # Snakemake's loader accepts more than ours
        loaded = [yaml_schema.load(text, file) for file, text in texts.items()]
        whole = {
            key: value for part in loaded if isinstance(part, dict) for key, value in part.items()
        }
        from_snakemake = {
            key: value
            for text in texts.values()
            for key, value in dict(yaml.safe_load(text) or {}).items()
        }
        source = ", ".join(os.path.relpath(file) for file in files)
    else:
        # Snakemake makes a number of some names
        path = find(folder, str(given.get("campaign", "default")))
        from_snakemake = {"campaign": given.get("campaign")}
        whole, source = (
            yaml_schema.load(yaml_schema.read(path), str(path)),
            str(path.relative_to(folder.parent)),
        )
    data = {} if files else dict(whole)
    for key, value in given.items():
        data[key] = (
            whole[key]
            if key in from_snakemake and from_snakemake[key] == value
            else yaml_schema.typed(value)
        )
    if len(files) < 2 and data != whole:
        source += " and --config"
    return (
        data | {"campaign": narrowed(data["campaign"], data["kernels"])}
        if _other_kernels(whole, data)
        else data
    ), source


def _other_kernels(whole: Mapping[str, Any], data: Mapping[str, Any]) -> bool:
    """Return whether the command line chooses other kernels than the file. Data that breaks the
    schema gives False and is refused later.
    """
    kernels = data.get("kernels", "all")
    right = (
        isinstance(kernels, list)
        and all(isinstance(name, str) for name in kernels)
        and isinstance(data.get("campaign"), str)
    )
    return right and kernels != whole.get("kernels", "all")


def narrowed(name: str, patterns: Sequence[str]) -> str:
    """Return the name of a campaign for some kernels or one claim: `default-cpu-mine`.

    It ends with a digest if it would be too long or not unique.
    """
    plain = "-".join([name, *(re.sub("[^a-z0-9_]+", "-", pattern) for pattern in patterns)])
    exact = all(re.fullmatch("((cuda|cpu)/)?[a-z0-9_-]+", pattern) for pattern in patterns)
    return (
        plain
        if exact and len(plain) <= MOST_OF_NAME
        else f"{plain[: MOST_OF_NAME - 7].rstrip('-_')}-{digest(list(patterns))[:6]}"
    )


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
    chosen = _choose(data.get("kernels", "all"), element_types, source, kernels, refused or {})
    parameters = _check_parameters(data.get("parameters", {}), source, chosen, kernels)
    given = dict(data.get("measure", {}))
    shard, sustained = given.pop("shard", 0), [str(label) for label in given.pop("sustained", [])]
    limits = Limits(**given)
    if limits.max_samples < limits.min_samples:
        raise InputError(
            f"{source}: measure.max_samples: got {limits.max_samples}; expected at least "
            f"min_samples, {limits.min_samples}"
        )
    common = dict(data.get("confirm", {}))
    own = {kind: common.pop(kind, {}) for kind in KINDS}
    confirm = {kind: Confirm(**common | own[kind]) for kind in KINDS}
    if 0 < confirm["cuda"].processes < FEWEST:
        raise InputError(
            f"{source}: confirm.processes: got {confirm['cuda'].processes}; expected 0, which "
            "leaves the confirmation out, or at least "
            f"{FEWEST}: how far processes differ cannot be told from fewer"
        )
    devices, architectures = data.get("devices", "auto"), data.get("architectures", "auto")
    campaign = Campaign(
        name=data["campaign"],
        source=source,
        kernels=chosen,
        devices=["auto"] if devices == "auto" else devices,
        architectures=[] if architectures == "auto" else architectures,
        problem_sizes={
            kind: _sizes(entries, f"{source}: problems.{kind}")
            for kind, entries in data["problems"].items()
        },
        element_types=element_types,
        parameters=parameters,
        header_configurations=data.get("header_configurations", False),
        builds=_builds({"compiler": data.get("compiler", COMPILERS[0])} | data.get("options", {})),
        baselines={kind: data.get("baselines", {}).get(kind, BASELINES[kind]) for kind in KINDS},
        limits=limits,
        confirm=confirm,
        sustained=sustained,
        partitions=_partitions(data.get("partitions", {}), source),
        shard=shard,
        operands={name: _value(name, data[name]) for name in (*VARIED, "seed") if name in data},
        width=data.get("figures", {}).get("width", WIDTH),
        formats=data.get("figures", {}).get("formats", []),
    )
    for id, configurations in campaign.configurations.items():
        if not configurations:
            raise InputError(
                f"{source}: element_types: got {json.dumps(list(campaign.element_types))}; {id} "
                "supports "
                f"{', '.join(chosen[id].element_types)} only; choose its kernels under `kernels`"
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
    element_types: Sequence[str],
    source: str,
    kernels: Mapping[str, Kernel],
    refused: Mapping[str, InputError],
) -> dict[str, Kernel]:
    """Return the kernels that a campaign names. A pattern leaves out those with none of its element
    types.
    """
    for id, error in refused.items():
        if patterns == "all" or any(fnmatch.fnmatch(id, pattern) for pattern in patterns):
            raise error
    matches = {}
    for index, pattern in enumerate(["*"] if patterns == "all" else patterns):
        ids = fnmatch.filter(kernels, pattern)
        matches[pattern] = [
            id for id in ids if set(kernels[id].element_types) & set(element_types)
        ] or ids
        if not matches[pattern] and patterns != "all":
            raise InputError(
                f"{source}: kernels[{index}]: got {json.dumps(pattern)}; "
                f"{one_of(pattern, list(kernels))}"
            )
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
            raise InputError(
                f"{source}: parameters.{id}: unknown kernel; {one_of(id, list(kernels))}"
            )
        for name, values in lists.items():
            if name not in kernels[id].parameters:
                known = list(kernels[id].parameters)
                raise InputError(
                    f"{source}: parameters.{id}.{name}: got {list(values)}; "
                    f"{one_of(name, known) if known else 'it has no parameters'}"
                )
    return {id: lists for id, lists in parameters.items() if id in chosen}


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


def _many(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


def _value(name: str, value: Any) -> Any:
    """Return the value of an operands' property as a problem has it: `[1, 4, 2]` for A, B and C is
    `1,4,2` there.
    """
    of_c = {"padding": 2, "offset": 1}
    return joined(value, of_c[name]) if name in of_c and isinstance(value, list) else value


def _partitions(entries: Mapping[str, Mapping[str, Any]], source: str) -> dict[str, Partition]:
    partitions = {name: Partition(**entry) for name, entry in entries.items()}
    for name, partition in partitions.items():
        if partition.kind == "cuda" and not partition.architecture:
            raise InputError(
                f"{source}: partitions.{name}: missing key architecture; expected that of its "
                "GPUs, such as sm_90"
            )
    return partitions


def _sizes(entries: Sequence[Any], where: str) -> list[dict[str, Any]]:
    sizes_of_entries: list[dict[str, Any]] = []
    for index, entry in enumerate(entries):
        if (
            isinstance(entry, dict)
            and math.prod(len(_many(value)) for value in entry.values()) > MAX_PROBLEMS
        ):
            raise InputError(
                f"{where}[{index}]: got more than {MAX_PROBLEMS} problems; expected at most as many"
            )
        if isinstance(entry, list):
            sizes: list[tuple[int, ...]] = [tuple(entry)]
        elif "square" in entry:
            sizes = [(size, size, size) for size in _many(entry["square"])]
        else:
            sizes = list(itertools.product(_many(entry["M"]), _many(entry["N"]), _many(entry["K"])))
        own = (
            {name: _many(_value(name, entry[name])) for name in VARIED if name in entry}
            if isinstance(entry, dict)
            else {}
        )
        for values in itertools.product(*own.values()):
            sizes_of_entries += [
                dict(zip(("m", "n", "k", *own), (*size, *values), strict=True)) for size in sizes
            ]
    return sizes_of_entries
