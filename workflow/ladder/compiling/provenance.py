"""Record what a measurement depends on: versions, the project's commit, and the machine."""

import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ladder.compiling.toolchain import COMPILER, cc, compiler_version, named, nvcc, package_versions
from ladder.core import places
from ladder.core.errors import InputError
from ladder.core.surroundings import cores, memory
from ladder.devices import libraries
from ladder.devices.detect import DetectedDevice, detect_cpu
from ladder.devices.simulation import simulated

LOCK = Path("envs") / "requirements.lock"
LOCKED = re.compile(r"^([a-z0-9-]+)==([^\s;\\]+)", re.MULTILINE)
"""A package of the lock and its version."""
PACKAGES = (
    "snakemake",
    "pycuda",
    "numpy",
    "pandas",
    "seaborn",
    "pyarrow",
    "nvmath-python",
    "cuda-bindings",
    "nvidia-cublas",
)
"""What measurements and figures depend on."""


def check_alike(actual: Mapping[str, Any], recorded: Mapping[str, Any], where: str) -> None:
    """Raise `InputError` if facts about this machine differ from those in `environment.json`: a
    dataset has only one environment.

    `where` names the file and the key that hold the recorded facts.
    """
    for key in sorted({*actual, *recorded}):
        if actual.get(key) != recorded.get(key):
            raise InputError(
                f"{where}.{key}: got {recorded.get(key)!r}; expected {actual.get(key)!r}, as on "
                f"this machine, {platform.node()}. Run in "
                "another folder, or measure everything again: `--forcerun probe`. On a cluster, "
                "ask for identical machines under `partitions`"
            )


def differs_from_lock(installed: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the packages whose version is not that of `envs/requirements.lock`, each with both:
    `13.1.0.3 (lock 13.1.1.3)`.

    `installed` are versions by package, by default those of this environment. A package of the lock
    that is not among them does not count: an image leaves out what only developers need. A package
    has several versions in the lock if Pythons need different ones, and each of them will do. In
    this environment what measurements depend on may not be missing: another library would take its
    place.
    """
    locked: dict[str, list[str]] = {}
    for name, version in LOCKED.findall((places.HOME / LOCK).read_text()):
        locked.setdefault(name, []).append(version)
    needed = PACKAGES if installed is None else ()
    installed = package_versions(locked) if installed is None else installed
    return {
        name: f"{installed.get(name, 'missing')} (lock {' or '.join(versions)})"
        for name, versions in sorted(locked.items())
        if installed.get(name, "" if name in needed else versions[0]) not in versions
    }


def project_state() -> dict[str, Any]:
    """Return the project's `commit` and whether the checkout is `dirty`: has changed or new files.

    Both are None if neither git nor an image's build knows them.
    """

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(places.HOME), *arguments],
                capture_output=True,
                text=True,
                check=True,
            )
        except (OSError, subprocess.CalledProcessError):
            return None
        return done.stdout.strip()

    image = places.HOME / "REVISION"  # an image has no git; its build writes this file
    if image.exists():
        commit, _, dirty = image.read_text().strip().partition("-")
        return {"commit": commit or None, "dirty": bool(dirty) if commit else None}
    changes = git("status", "--porcelain")
    return {"commit": git("rev-parse", "HEAD"), "dirty": None if changes is None else bool(changes)}


def fingerprint(device: DetectedDevice) -> dict[str, Any]:
    """Return what a measurement depends on besides the project. Any change to it makes earlier
    measurements stale.
    """
    versions = package_versions(PACKAGES)
    common = {
        "device": device.full_name,
        "compiler": compiler_version(COMPILER[device.kind]),
        "numpy": versions["numpy"],
    }
    if device.kind == "cuda":
        return common | {
            "uuids": list(device.uuids),
            "driver": device.driver,
            "pycuda": versions.get("pycuda"),
            "nvidia-cublas": device.library or versions.get("nvidia-cublas"),
            "cublas": libraries.identities(device.library_folder),
            **({"simulated": True} if simulated() else {}),
        }
    return common | {"cores": cores(), "python": platform.python_version()}


def describe(device: DetectedDevice) -> dict[str, Any]:
    """Return `environment.json` without what only the device itself can report: its attributes and
    peaks.
    """
    return {
        "device": device.dataset,
        "kind": device.kind,
        "name": device.full_name,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "fingerprint": fingerprint(device),
        "compiler": {
            "path": named([nvcc()] if device.kind == "cuda" else cc()),
            "version": compiler_version(COMPILER[device.kind]),
        },
        "host": {
            "cpu": detect_cpu().name,
            "cores": cores(),
            "memory_bytes": memory(),
            "system": f"{platform.system()} {platform.release()}",
        },
        "python": {
            "version": sys.version.split()[0],
            "packages": package_versions(PACKAGES),
            "differs_from_lock": differs_from_lock(),
        },
        "project": project_state(),
    }
