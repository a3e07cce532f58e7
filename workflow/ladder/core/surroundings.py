"""What surrounds a measuring process and may change its times or results: cores, quotas, and the
libraries loaded into it.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import psutil

PROC = Path("/proc/self")
CGROUPS = Path("/sys/fs/cgroup")
PRELOAD = Path("/etc/ld.so.preload")
"""Libraries that the loader puts into every process; no variable takes them out (ld.so(8))."""
VENDORS = {"cuda": re.compile("lib.*cublas"), "cpu": re.compile("lib.*(blas|mkl|blis)")}
"""The names of the vendor's libraries, by device kind."""
DRIVER = re.compile(r"lib(cuda|nvidia)\b")
"""NVIDIA's driver, which has its own key in the fingerprint."""
BUILD_ID = re.compile(rb"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0(.{20})", re.DOTALL)
"""The note in an ELF file that identifies its build by a digest that the linker made (ld(1),
--build-id).
"""


def _limits(controller: str, *names: str) -> list[list[int]]:
    """Return the limits in files of this process's control groups and of those around them
    (cgroups(7), both versions); `max` and -1 are none.
    """
    limits = []
    with suppress(OSError):
        for line in (PROC / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and controller not in controllers.split(","):
                continue
            group = (CGROUPS / controllers / path.strip("/")).absolute()
            for folder in (group, *group.parents):
                with suppress(OSError):
                    words = [word for name in names for word in (folder / name).read_text().split()]
                    if words[0].isdigit():
                        limits.append([int(word) for word in words])
    return limits


def cpu_quota() -> float | None:
    """Return how many cores' worth of time control groups grant this process; None for no limit."""
    limits = _limits("cpu", "cpu.max") + _limits("cpu", "cpu.cfs_quota_us", "cpu.cfs_period_us")
    return min((quota / period for quota, period in limits), default=None)


@lru_cache
def cores() -> int:
    """Return how many cores this process may use: those of its mask, or fewer under a quota.

    It is asked for once. The worker asks before it loads a library, because a library may bind the
    thread to one core.
    """
    mask, quota = len(os.sched_getaffinity(0)), cpu_quota()
    return mask if quota is None else max(1, min(mask, int(quota)))


def memory() -> int:
    """Return how many bytes of memory this process may use: those of the machine, or fewer in a
    control group.
    """
    limits = _limits("memory", "memory.max") + _limits("memory", "memory.limit_in_bytes")
    return min([psutil.virtual_memory().total, *(limit for (limit,) in limits)])


def identity(library: Path) -> str:
    """Return what identifies a library's file: the build ID in it, or else its SHA-256."""
    with library.open("rb") as file:
        note = BUILD_ID.search(file.read(1 << 16))
        file.seek(0)
        return (
            f"build {note[1].hex()}"
            if note
            else f"sha256 {hashlib.file_digest(file, 'sha256').hexdigest()}"
        )


def _loaded() -> list[Path]:
    """Return the files of the libraries that this process has loaded."""
    maps = re.findall(r" (/.*\.so\b.*)$", (PROC / "maps").read_text(), re.MULTILINE)
    return [Path(path) for path in dict.fromkeys(maps) if Path(path).exists()]


def _of_vendor(kind: str) -> list[Path]:
    return [path for path in _loaded() if VENDORS[kind].match(path.name)]


def sha256(kind: str) -> dict[str, str]:
    """Return the SHA-256 of the vendor's libraries that this process has loaded, by file name. Files
    of a gigabyte take a while.
    """
    digests = {}
    for path in _of_vendor(kind):
        with path.open("rb") as file:
            digests[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def described(kind: str) -> dict[str, Any]:
    """Return what surrounds this process, which has loaded the libraries of a device kind. Keys of
    what is not there are left out.

    - `libraries`: the vendor's libraries,
    - `preloaded`: libraries that /etc/ld.so.preload puts into every process,
    - `from_ld_library_path`: other libraries found by LD_LIBRARY_PATH,
    - `cpu_quota`: the cores' worth of time of a control group, and `cores_in_mask` beside it.
    """
    loaded = _loaded()
    named = PRELOAD.read_text().split() if PRELOAD.exists() else []
    preloaded = {Path(path).resolve() for path in named}
    searched = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    folders = {Path(folder).resolve() for folder in searched if folder}
    by_key = {
        "libraries": _of_vendor(kind),
        "preloaded": [path for path in loaded if path in preloaded],
        "from_ld_library_path": [
            path for path in loaded if path.parent in folders and not DRIVER.match(path.name)
        ],
    }
    keys: dict[str, Any] = {name: _identities(paths) for name, paths in by_key.items() if paths}
    if (quota := cpu_quota()) is not None:
        keys |= {"cpu_quota": quota, "cores_in_mask": len(os.sched_getaffinity(0))}
    return keys


def _identities(paths: Iterable[Path]) -> dict[str, str]:
    """Return what identifies libraries, by name: several loaded from different folders may have the
    same one.
    """
    known: dict[str, set[str]] = {}
    for path in paths:
        known.setdefault(path.name, set()).add(identity(path))
    return {name: ", ".join(sorted(identities)) for name, identities in sorted(known.items())}


def remarks(attributes: Mapping[str, Any]) -> list[str]:
    """Return in words what surrounds the measurements, and no setting of this program takes away,
    from a device's `attributes`.
    """
    words = []
    if names := attributes.get("preloaded"):
        words.append(f"{PRELOAD} loads {', '.join(names)} into every process")
    if names := attributes.get("from_ld_library_path"):
        words.append(f"LD_LIBRARY_PATH provides {', '.join(names)}")
    if quota := attributes.get("cpu_quota"):
        words.append(
            f"a control group grants the time of {quota:g} cores; the mask has "
            f"{attributes['cores_in_mask']}"
        )
    return words
