"""The published datasets. `results/published/index.yaml` says why each is kept and which one is
featured.

A dataset is a run of a campaign on a device: `results/published/DEVICE/CAMPAIGN/RUN/`. One run of
each device and campaign is featured: figures and pages show it. The others are repeats. They have
no sweep and are kept for the limits between runs and machines.
"""

import csv
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from ladder.core import yaml_schema
from ladder.core.errors import InputError
from ladder.core.files import write_whole
from ladder.core.types import ELEMENT_TYPES

INDEX = "index.yaml"
WITHDRAWN = "withdrawn.yaml"
"""The runs that were published and removed, with the reasons."""
HEADER = """\
# Why each published dataset is kept: results/published/DEVICE/CAMPAIGN/RUN/. A run is named by its date and time, in UTC, and the first
# digits of the GPU's UUID. Figures and pages show the featured run. The others are repeats: they keep only the confirmation, from which
# `ladder repeat` makes the limits between runs and machines. not_from_lock names the packages that were not those of envs/requirements.lock.
"""
HEADLINE_DEVICE, HEADLINE_CAMPAIGN = "nvidia-h200", "default"
"""The device and campaign that the README and the chapters are about."""
HEADLINE = f"{HEADLINE_DEVICE}/{HEADLINE_CAMPAIGN}"

Index = dict[str, dict[str, Any]]
"""For each DEVICE/CAMPAIGN: the name of the `featured` run, of all `runs` by name the reason why
each is kept, and of those that were measured with other packages than `envs/requirements.lock` had
which ones (`not_from_lock`).
"""


def run_name(environment: Mapping[str, Any]) -> str:
    """Return a run's name from its `environment.json`: `2026-11-25T0938-5dee`. The last part is
    from the UUID, which a CPU does not have.
    """
    uuid = environment["attributes"].get("uuid") or ""
    return "-".join(
        [
            f"{datetime.fromisoformat(environment['time']):%Y-%m-%dT%H%M}",
            *(part[:4] for part in uuid.split("-")[1:2]),
        ]
    )


def read(published: Path) -> Index:
    """Return the index of the published datasets, empty if there are none.

    Raises `InputError` if the index breaks its schema, or does not match the folders.
    """
    path, index = published / INDEX, {}
    if path.exists():
        index = yaml_schema.load(yaml_schema.read(path), str(path))
        yaml_schema.check(index, "published", str(path))
    listed = {f"{group}/{run}" for group, entry in index.items() for run in entry["runs"]}
    present = {
        it.parent.relative_to(published).as_posix() for it in published.rglob("environment.json")
    }
    wrong = [
        f"{path}: {name}: got no such dataset; expected {published / name}/environment.json"
        for name in sorted(listed - present)
    ]
    wrong += [
        f"{path}: {name}: missing; expected why {published / name}/ is kept"
        for name in sorted(present - listed)
    ]
    for group, entry in index.items():
        wrong += [
            f"{path}: {group}.not_from_lock: got {run}; expected one of {', '.join(entry['runs'])}"
            for run in entry.get("not_from_lock", {})
            if run not in entry["runs"]
        ]
        if entry["featured"] not in entry["runs"]:
            wrong.append(
                f"{path}: {group}.featured: got {entry['featured']}; expected one of "
                f"{', '.join(entry['runs'])}"
            )
    if wrong:
        raise InputError("\n".join(wrong))
    return index


def write(published: Path, index: Index) -> None:
    """Write the index. Raises `InputError` if it breaks its schema."""
    yaml_schema.check(index, "published", str(published / INDEX))
    text = yaml.safe_dump(index, sort_keys=False, allow_unicode=True, width=1000)
    write_whole(published / INDEX, (HEADER + text).encode())


def runs(published: Path) -> dict[str, Path]:
    """Return the folder of every published dataset by its name DEVICE/CAMPAIGN/RUN.

    `HEADLINE` is first, then the same campaign on other devices. Within a device and campaign the
    featured run is first.
    """
    index = read(published)
    groups = sorted(
        index,
        key=lambda group: (not group.endswith(f"/{HEADLINE_CAMPAIGN}"), group != HEADLINE, group),
    )
    ordered = [
        (
            group,
            sorted(index[group]["runs"], key=lambda run: (run != index[group]["featured"], run)),
        )
        for group in groups
    ]
    return {f"{group}/{run}": published / group / run for group, names in ordered for run in names}


def featured(published: Path) -> dict[str, Path]:
    """Return the folder of the featured run of each device and campaign, by DEVICE/CAMPAIGN, in the
    order of `runs`.
    """
    folders: dict[str, Path] = {}
    for folder in runs(published).values():
        folders.setdefault(folder.parent.relative_to(published).as_posix(), folder)
    return folders


def kind_of(device: str) -> str:
    """Return the kind of a device, which its slug begins with."""
    return "cpu" if device.startswith("cpu-") else "cuda"


def kernel_ids(
    folders: Iterable[Path], element_types: Collection[str] = tuple(ELEMENT_TYPES)
) -> list[str]:
    """Return the ids of the kernels of published datasets in one of these element types. Every
    dataset has the compiler's reports; some have no samples of a sweep.
    """
    ids = set()
    for folder in folders:
        resources = folder / "resources.csv"
        # where it is missing, the check of the data says so
        rows = csv.DictReader(resources.read_text().splitlines()) if resources.exists() else ()
        ids |= {
            f"{kind_of(folder.parents[1].name)}/{row['kernel']}"
            for row in rows
            if row.get("element_type") in element_types
        }
    return sorted(ids)
