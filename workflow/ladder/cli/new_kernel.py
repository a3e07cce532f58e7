"""What to begin with: a project, or a kernel in each language."""

import re
from pathlib import Path

from ladder.core import places
from ladder.core.errors import InputError
from ladder.core.files import write_whole
from ladder.model.kernel import KIND_OF, SUFFIXES
from ladder.model.kernel_file import check_name

TEMPLATE = Path(__file__).with_name("init")
"""The files of a new project."""
STARTS = {
    ".cu": Path(__file__).with_name("new.cu"),
    ".c": TEMPLATE / "kernels" / "cpu" / "mine.c",
    ".ptx": places.HOME / "kernels" / "cuda" / "64_ptx.ptx",
    "tensor": places.HOME / "kernels" / "cuda" / "30_half_tensor_maps.cu",
}
"""What a kernel in each language begins as."""


def init(folder: Path) -> list[Path]:
    """Write the files of a project that are not there yet, and return them: a kernel, a campaign,
    and what Git, a CI and programs need. Raises `InputError` for a folder that cannot be made.
    """
    files = {folder / path.relative_to(TEMPLATE): path for path in TEMPLATE.rglob("*")}
    files[folder / "AGENTS.md"] = places.HOME / "AGENTS.md"
    new = [file for file, path in sorted(files.items()) if path.is_file() and not file.exists()]
    for file in new:
        write_whole(file, files[file].read_bytes())
    return new


def write(start: str, name: str) -> Path:
    """Write a kernel of the project that begins as one of `STARTS`; return its path.

    Raises `InputError` if there is no project here, and if the name is not valid or is taken.
    """
    folder, begun = places.project(), STARTS[start]
    if not places.has_kernels(folder):
        raise InputError(
            f"{folder}: got neither kernels/cuda nor kernels/cpu; expected a project, which "
            "`ladder init` begins"
        )
    kind = KIND_OF[begun.suffix]
    path = folder / "kernels" / kind / f"{name}{begun.suffix}"
    check_name(name, name)
    if taken := next(filter(Path.exists, map(path.with_suffix, SUFFIXES[kind])), None):
        raise InputError(f"{taken}: is there already; expected a name that is not taken")
    title = name.lstrip("0123456789_").replace("_", " ").capitalize() or name
    text = re.sub("^title: .*$", f"title: {title}", begun.read_text(), count=1, flags=re.MULTILINE)
    write_whole(path, text.replace("\nrival: true\n", "\n", 1).encode())
    return path
