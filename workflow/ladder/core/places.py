"""Where files are: at home, which is what was installed, or in the project, the folder in which a
person stands. A checkout is both.
"""

from pathlib import Path

from ladder.core.errors import InputError
from ladder.core.types import KINDS

_PACKAGE = Path(__file__).resolve().parents[1]
IS_CHECKOUT = (_PACKAGE.parent / "Snakefile").exists()
HOME = _PACKAGE.parents[1] if IS_CHECKOUT else _PACKAGE / "home"
"""The checkout or, of an installed wheel, the folder of the package with the same layout. Nothing
is written there, unless it is the project too.
"""


def check_folders() -> None:
    """Raise `InputError` if the package has no home, as `pip install` of a checkout leaves it out,
    or if the current folder is gone.
    """
    project()
    if not HOME.exists():
        raise InputError(
            f"{HOME}: missing; expected the wheel that `make wheel` builds, or `make setup` in a "
            "checkout"
        )


def published() -> Path:
    """Return the folder of the published data. Raises `InputError` in an installed wheel, which has
    none.
    """
    if not IS_CHECKOUT:
        raise InputError(
            f"{HOME}: has no published data; expected a clone of the repository, which has them: "
            "run this there"
        )
    return HOME / "results" / "published"


def project() -> Path:
    """Return the nearest folder, from the current one upwards, that has kernels; without one, the
    current folder. Raises `InputError` if that is gone.
    """
    try:
        here = Path.cwd()
    except OSError as error:
        raise InputError(
            f"the current folder: {error.strerror}; expected one that exists: `cd` to it"
        ) from None
    return next(filter(has_kernels, (here, *here.parents)), here)


def has_kernels(folder: Path) -> bool:
    """Return whether a folder has `kernels/cuda/` or `kernels/cpu/`."""
    return any((folder / "kernels" / kind).is_dir() for kind in KINDS)


def both() -> list[Path]:
    """Return the places where files are looked up, in this order: the project, then home."""
    return list(dict.fromkeys((project(), HOME)))


def find(name: str | Path) -> Path:
    """Return the file of a name such as `kernels/cpu/mine.c`: in the project, else at home, else
    where it would be in the project. An absolute path stays.
    """
    paths = [place / name for place in both()]
    return next(filter(Path.exists, paths), paths[0])


def named(path: Path) -> str:
    """Return the name by which `find` returns a file: relative to its place, else absolute."""
    path = path.absolute()
    for place in sorted(both(), key=lambda place: -len(place.parts)):  # one may be in the other
        if path.is_relative_to(place):
            return path.relative_to(place).as_posix()
    return str(path)


def include_folders(kernel: Path) -> list[Path]:
    """Return the folders, absolute, in which the headers of a kernel's file are looked up.

    A kernel of home gets home's headers only, so a project cannot change what is published. Any
    other gets those beside it, then the project's, then home's.
    """
    kernel, home = kernel.absolute(), HOME / "kernels" / "include"
    if kernel.is_relative_to(HOME / "kernels"):
        return [home]
    own = [kernel.parent, kernel.resolve().parent]
    if kernel.parent.name in KINDS:
        own.append(kernel.parents[1] / "include")
    return list(dict.fromkeys((*own, project() / "kernels" / "include", home)))
