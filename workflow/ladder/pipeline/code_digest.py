"""Digest the modules that a stage depends on, because Snakemake sees a job's script but not what
the script imports.
"""

import hashlib
import re
from functools import lru_cache
from pathlib import Path

from ladder.core.places import HOME

PACKAGE = Path(__file__).resolve().parents[1]
IMPORT = re.compile(r"^ *from ladder((?:\.\w+)*) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)
"""A pattern, because a parser is much slower, and every start of Snakemake and most jobs would wait
for it.
"""


@lru_cache
def imports(module: str) -> frozenset[str]:
    """Return the modules of the package that a module imports anywhere in its text: `worker` ->
    `devices.cuda`, `timing`, …
    """
    imported = set()
    for base, in_parentheses, in_line in IMPORT.findall(path(module).read_text()):
        for name in re.findall(r"(\w+)(?: as \w+)?", in_parentheses or in_line):
            inner = f"{base}.{name}".strip(".")
            imported.add(inner if exists(inner) else base.strip("."))
    return frozenset(imported - {""})


@lru_cache
def exists(module: str) -> bool:
    """Return whether the package has a module of that name."""
    return path(module).exists()


@lru_cache
def path(module: str) -> Path:
    """Return the file of a module."""
    plain = PACKAGE / module.replace(".", "/")
    return plain / "__init__.py" if plain.is_dir() else plain.with_suffix(".py")


def closure(*modules: str) -> set[str]:
    """Return the modules and all that they import, directly or indirectly."""
    reached: set[str] = set()
    todo = list(modules)
    while todo:
        module = todo.pop()
        if module not in reached:
            reached.add(module)
            todo += imports(module)
            if "." in module:
                todo.append(module.rsplit(".", 1)[0])
    return reached


@lru_cache
def contents(module: str) -> bytes:
    """Return the text of a module, and of the device code and pages beside it."""
    files = [path(module), *path(module).parent.glob(f"{path(module).stem}.html")]
    if module.startswith("devices"):
        files += sorted({*(PACKAGE / "devices").glob("*.c*"), *(PACKAGE / "devices").glob("*.h")})
    if module == "analysis.tables":  # which names the columns of its tables
        files.append(HOME / "workflow" / "schemas" / "data.yaml")
    return b"".join(file.read_bytes() for file in files)


def digest(*modules: str) -> str:
    """Return a digest of the contents of the modules, and of all that they import."""
    state = hashlib.sha256()
    for module in sorted(closure(*modules)):
        state.update(contents(module))
    return state.hexdigest()[:16]
