"""Check before a run that the package is that of the checkout, that jobs can be started, and that
the folder can be written.
"""

import contextlib
import importlib.metadata
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from ladder.core import clock
from ladder.core.errors import InputError

LEAST_KIB, LEAST_FILES = 1024, 200
"""What a disk must have left: less than any run needs. Snakemake's own records come first, and its
errors are tracebacks.
"""
AT_ONCE = 2.0
"""Seconds between two interrupts that count as one."""
SPECIAL = set(" \t\n'\"\\$`&|;<>()*?[]{}#~")
"""Characters that a shell interprets."""


def check_version(version: str) -> None:
    """Raise `InputError` unless the package has the version of the rules, which may come from
    elsewhere: from a repository, as those of a module.
    """
    installed = importlib.metadata.version("gemm-ladder")
    if installed != version:
        raise InputError(
            f"gemm-ladder: got version {installed} installed; expected {version}, that of the rules"
        )


@contextlib.contextmanager
def installation_checked(python: str, root: Path) -> Iterator[None]:
    """Raise `InputError` at the end of the body unless the jobs, which `python` runs, get the
    package whose home is `root`. The other process looks meanwhile.

    Snakemake itself gets that of its environment, which the jobs do, too.
    """
    command = [python, "-c", "from ladder.core.places import HOME; print(HOME)"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as other:
        try:
            yield
        finally:
            home = other.communicate()[0].strip()
            if not home or not root.samefile(home):
                raise InputError(
                    f"{python}: runs the package of {home or 'no checkout'}; expected that of "
                    f"{root}, which `make setup` there installs"
                )


def unquoted(python: str) -> str:
    """Return the path of an interpreter that a shell takes without quotes, relative to this folder
    if necessary.

    Raises `InputError` if the relative path has special characters, too.
    """
    path = os.path.relpath(python) if SPECIAL & set(python) else python
    if SPECIAL & set(path):
        raise InputError(
            f"{path}: this path has a space, a quote or the like, which Snakemake does not escape; "
            "run in the project's own folder"
        )
    return path


def check_writable(folder: Path, command: str) -> None:
    """Raise `InputError` unless Snakemake can keep its records in a folder, and a run its first
    results.

    `command` is how to run it from another folder.
    """
    try:
        (folder / ".snakemake").mkdir(exist_ok=True)
        tempfile.TemporaryFile(dir=folder / ".snakemake").close()
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be written: {error.strerror}; expected a folder for results: run "
            f"from another one, by {command}"
        ) from None
    disk = os.statvfs(folder)
    # some count no files
    kib, files = (
        disk.f_bavail * disk.f_frsize >> 10,
        disk.f_favail if disk.f_files else LEAST_FILES,
    )
    if kib < LEAST_KIB or files < LEAST_FILES:
        raise InputError(
            f"{folder}: the disk has room for {kib} KiB and {files} files; expected at least "
            f"{LEAST_KIB} KiB and {LEAST_FILES} files"
        )


def interrupt_once() -> None:
    """Ignore a Ctrl-C that follows another within `AT_ONCE`: Snakemake, which then ends its jobs,
    would end in tracebacks.
    """
    last = -AT_ONCE

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal last
        if clock.now() - last >= AT_ONCE:
            last = clock.now()
            raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell's `&` ignores it
        signal.signal(signal.SIGINT, interrupt)
