"""The packages keep their floors, and the digest of a stage covers all that it imports."""

import ast
import re

from ladder.pipeline import code_digest
from planted import HOME

PACKAGE = HOME / "workflow" / "ladder"
PAGE = HOME / "docs" / "architecture.md"
FLOORS = {
    folder.rstrip("/"): int(floor)
    for floor, folders in re.findall(r"^(\d) +((?:\S+/ +)+)", PAGE.read_text(), re.MULTILINE)
    for folder in folders.split()
}
"""Each folder's floor, from the picture in docs/architecture.md."""


def imports(path):
    """The package's modules that a file imports, by its syntax tree."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("ladder."):
            base = node.module.removeprefix("ladder.")
            inner = {f"{base}.{alias.name}" for alias in node.names}
            names |= {name if code_digest.exists(name) else base for name in inner}
    return names


def test_a_package_imports_only_from_lower_floors():
    folders = {path.name: path for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    folders |= {name: HOME / name for name in ("workflow/scripts", "studies", "book")}
    assert folders.keys() == FLOORS.keys()
    upwards = [
        f"{path} imports {name}"
        for folder, place in folders.items()
        for path in place.rglob("*.py")
        for name in imports(path)
        if name.split(".")[0] != folder and FLOORS[name.split(".")[0]] >= FLOORS[folder]
    ]
    assert upwards == []


def test_a_digest_follows_every_import():
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        if path.name != "__init__.py":
            assert code_digest.imports(name) >= imports(path), name
    needed = code_digest.closure("measuring.worker")
    assert {"devices.cuda", "measuring.verify", "core.expressions"} <= needed
    assert code_digest.digest("analysis.tables") != code_digest.digest("figures.draw")
