"""The published datasets, of which `results/published/index.yaml` says why each is kept and which one is featured.

A dataset is a run of a campaign on a device: `results/published/DEVICE/CAMPAIGN/RUN/`. Of each device and campaign one run is featured:
figures and pages show it. The others are repeats, kept for the limits between runs and machines: they have no sweep.
"""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from ladder.core import yaml_schema
from ladder.core.errors import InputError
from ladder.core.files import write_whole
from ladder.storage.dataset_layout import read_environment

INDEX = "index.yaml"
HEADER = """\
# Why each published dataset is kept: results/published/DEVICE/CAMPAIGN/RUN/. A run is named by its date and time, in UTC, and the first
# digits of the GPU's UUID. Figures and pages show the featured run. The others are repeats: they keep only the confirmation, from which
# `ladder repeat` makes the limits between runs and machines.
"""
HEADLINE_DEVICE, HEADLINE_CAMPAIGN = "nvidia-h200", "default"
"""What the README and the chapters are about."""
HEADLINE = f"{HEADLINE_DEVICE}/{HEADLINE_CAMPAIGN}"

Index = dict[str, dict[str, Any]]
"""By DEVICE/CAMPAIGN the name of the `featured` run, and of all `runs` the reasons why they are kept by their names."""


def run_name(environment: Mapping[str, Any]) -> str:
    """A run's name, by what `environment.json` says of it: `2026-11-25T0938-5dee`. A CPU has no UUID."""
    uuid = environment["attributes"].get("uuid") or ""
    return "-".join(
        [f"{datetime.fromisoformat(environment['time']):%Y-%m-%dT%H%M}", *(part[:4] for part in uuid.split("-")[1:2])]
    )


def read(published: Path) -> Index:
    """The index of the published datasets, empty where there are none.

    Raises `InputError` where it is not as the schema has it, or where it and the folders differ.
    """
    path, index = published / INDEX, {}
    if path.exists():
        index = yaml_schema.load(yaml_schema.read(path), str(path))
        yaml_schema.check(index, "published", str(path))
    listed = {f"{group}/{run}" for group, entry in index.items() for run in entry["runs"]}
    present = {it.parent.relative_to(published).as_posix() for it in published.rglob("environment.json")}
    wrong = [
        f"{path}: {name}: got no such dataset; expected {published / name}/environment.json" for name in sorted(listed - present)
    ]
    wrong += [f"{path}: {name}: missing; expected why {published / name}/ is kept" for name in sorted(present - listed)]
    for group, entry in index.items():
        if entry["featured"] not in entry["runs"]:
            wrong.append(f"{path}: {group}.featured: got {entry['featured']}; expected one of {', '.join(entry['runs'])}")
    if wrong:
        raise InputError("\n".join(wrong))
    return index


def write(published: Path, index: Index) -> None:
    """Write the index. Raises `InputError` where it is not as the schema has it."""
    yaml_schema.check(index, "published", str(published / INDEX))
    published.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(index, sort_keys=False, allow_unicode=True, width=1000)
    write_whole(published / INDEX, (HEADER + text).encode())


def runs(published: Path) -> dict[str, Path]:
    """The folder of every published dataset by its name DEVICE/CAMPAIGN/RUN.

    `HEADLINE` is first, then the same campaign on other devices; within a device and campaign the featured run is first.
    """
    index = read(published)
    groups = sorted(index, key=lambda group: (not group.endswith(f"/{HEADLINE_CAMPAIGN}"), group != HEADLINE, group))
    ordered = [(group, sorted(index[group]["runs"], key=lambda run: (run != index[group]["featured"], run))) for group in groups]
    return {f"{group}/{run}": published / group / run for group, names in ordered for run in names}


def featured(published: Path) -> dict[str, Path]:
    """The folder of the featured run of each device and campaign, by DEVICE/CAMPAIGN, in the order of `runs`."""
    folders: dict[str, Path] = {}
    for folder in runs(published).values():
        folders.setdefault(folder.parent.relative_to(published).as_posix(), folder)
    return folders


def together(published: Path) -> dict[str, list[str]]:
    """The devices and campaigns that one figure compares, by kind of device: those of the headline's campaign, where there are several."""
    by_kind: dict[str, list[str]] = {}
    for group, folder in sorted(featured(published).items()):
        if group.endswith(f"/{HEADLINE_CAMPAIGN}"):
            by_kind.setdefault(read_environment(folder / "environment.json", ("kind",))["kind"], []).append(group)
    return {kind: groups for kind, groups in by_kind.items() if len(groups) > 1}
