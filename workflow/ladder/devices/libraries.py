"""Find the versions of cuBLAS that a campaign compares, and load one of them into a worker.

A process can have only one: the files of all versions have the same names for the loader (dlopen(3),
"SONAME"), so that whatever asks for cuBLAS later gets the one that was loaded first.
"""

import ctypes
from functools import lru_cache
from pathlib import Path

from ladder.core import places
from ladder.core.errors import InputError
from ladder.core.surroundings import identity

PACKAGE = "nvidia-cublas"
FILES = ("libcublasLt.so.13", "libcublas.so.13")
"""In the order in which they are loaded: cuBLAS needs cuBLASLt."""
WITHIN = ("", "lib", "lib64", "nvidia/cu13/lib")
"""Where a folder may have the files: a toolkit, or one into which the package was installed."""


@lru_cache
def installed() -> tuple[str, str]:
    """Return the version of the installed package and the folder of its files; empty without
    them.
    """
    from importlib.metadata import PackageNotFoundError, distribution  # slow, for a CPU's worker

    try:
        package = distribution(PACKAGE)
    except PackageNotFoundError:
        return "", ""
    return package.version, _files_in(Path(str(package.locate_file(""))))


def _files_in(folder: Path) -> str:
    """Return the folder, in or below another, that has all files; "" if there is none."""
    for within in WITHIN:
        if all((folder / within / name).is_file() for name in FILES):
            return str((folder / within).absolute())
    return ""


def find(version: str, named: str, where: str) -> str:
    """Return the folder with the files of a version: the one that a campaign has `named`, or else
    that of the installed package, or one below `libraries/` of the project or of home.

    Raises `InputError` if there is none. It begins with `where`, and says how to get the version.
    """
    own = f"libraries/cublas-{version}"
    if named:
        if folder := _files_in(places.find(named)):
            return folder
        raise InputError(
            f"{where}.folder: got {named}, which does not have {' and '.join(FILES)}; expected a "
            f"folder that has them, or has them in {' or '.join(WITHIN[1:])}"
        )
    has, folder = installed()
    if has == version and folder:
        return folder
    if folder := _files_in(places.find(own)):
        return folder
    raise InputError(
        f"{where}: got {version}, but {has or 'none'} is installed and {own} has no "
        f"{' and '.join(FILES)}; expected its files there: uv pip install --no-deps --target {own} "
        f"{PACKAGE}=={version}"
    )


def identities(folder: str) -> dict[str, str] | None:
    """Return what identifies the files in a folder, by default those of the installed package; None
    without any.
    """
    folder = folder or installed()[1]
    return {name: identity(Path(folder) / name) for name in FILES} if folder else None


def load(folder: str) -> None:
    """Load the files in a folder, by default those of the installed package. Whatever loads cuBLAS
    later in this process gets these; without any, it finds others.
    """
    for name in FILES if (folder := folder or installed()[1]) else ():
        ctypes.CDLL(str(Path(folder) / name))
