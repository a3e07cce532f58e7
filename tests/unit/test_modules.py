"""The packages keep their floors, and a stage knows all that it depends on."""

import ast
import re

import pytest
from ladder.pipeline import code_digest
from planted import ROOT

PACKAGE = ROOT / "workflow" / "ladder"
PAGE = ROOT / "docs" / "architecture.md"
MOST_FLOORS = 9


def read_floors():
    """Each folder's floor, from the picture in docs/architecture.md."""
    picture = re.search(
        r"^## The packages\n.*?```\n(.*?)```", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )[1]
    return {
        folder.rstrip("/"): int(line.split()[0])
        for line in picture.splitlines()
        for folder in re.match(r"\d+ +((?:[\w/]+/ +)+)", line)[1].split()
    }


FLOORS = read_floors()
PACKAGES = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


def modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        if name != "__init__":
            yield name


def imports(path):
    """The package's modules that a file imports, by its syntax tree."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert not any(alias.name.split(".")[0] == "ladder" for alias in node.names), path
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, path
            if node.module.split(".")[0] == "ladder":
                base = node.module.removeprefix("ladder").removeprefix(".")
                inner = {f"{base}.{alias.name}".strip(".") for alias in node.names}
                names |= {name if code_digest.exists(name) else base for name in inner}
    return names - {""}


def test_the_picture_has_every_package_and_at_most_nine_floors():
    assert sorted(FLOORS) == sorted([*PACKAGES, "workflow/scripts", "studies", "book"])
    assert max(FLOORS.values()) <= MOST_FLOORS


def test_a_package_imports_only_from_lower_floors():
    files = {
        path: path.relative_to(PACKAGE).parts[0]
        for package in PACKAGES
        for path in (PACKAGE / package).rglob("*.py")
    }
    files |= {
        path: folder
        for folder in ("workflow/scripts", "studies", "book")
        for path in (ROOT / folder).rglob("*.py")
    }
    upwards = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path, folder in files.items()
        for name in imports(path)
        if name.split(".")[0] != folder and FLOORS[name.split(".")[0]] >= FLOORS[folder]
    ]
    assert upwards == []


def test_the_package_imports_no_study_and_neither_imports_the_tests():
    def roots(folder):
        nodes = [
            node for path in folder.rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))
        ]
        names = [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
        names += [
            alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names
        ]
        return {name.split(".")[0] for name in names}

    studies, tests = (
        {path.stem for path in (ROOT / folder).rglob("*.py")} for folder in ("studies", "tests")
    )
    assert roots(PACKAGE) & (studies | tests | {"book"}) == set()
    assert roots(ROOT / "studies") & tests == set()
    # by names known only at run time: parts of nvmath, and the stand-in for GPUs, which an
    # environment variable names
    dynamic = sorted(
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if "import_module" in path.read_text()
    )
    assert dynamic == ["devices/cublas.py", "devices/simulation.py"]


def test_no_modules_import_each_other_in_a_circle():
    graph = {name: imports(code_digest.path(name)) for name in modules()}
    while free := {name for name, needed in graph.items() if not needed & graph.keys()}:
        graph = {name: needed for name, needed in graph.items() if name not in free}
    assert sorted(graph) == []  # what is left imports itself through others


def test_a_package_imports_nothing_by_itself():
    """Importing one module of a package must not load the others."""
    assert [package for package in PACKAGES if imports(PACKAGE / package / "__init__.py")] == []


def test_code_digest_finds_every_import():
    for name in modules():
        assert code_digest.imports(name) >= imports(code_digest.path(name)), name


@pytest.mark.parametrize("package", ["analysis", "figures", "claims"])
def test_what_draws_needs_no_gpu(package):
    needed = code_digest.closure(*(name for name in modules() if name.startswith(f"{package}.")))
    code = {name for name in needed if "." in name}
    assert (
        not {
            "measuring.worker",
            "compiling.compile",
            "devices.cuda",
            "devices.cpu",
            "devices.cublas",
            "devices.blas",
        }
        & code
    )
    for name in code:
        assert (
            "pycuda" not in code_digest.path(name).read_text() or name == "compiling.provenance"
        ), name


def test_a_digest_follows_what_is_imported():
    assert {
        "devices.cuda",
        "devices.cublas",
        "measuring.verify",
        "core.expressions",
    } <= code_digest.closure("measuring.worker")
    assert "figures.draw" not in code_digest.closure("measuring.sweep", "measuring.worker")
    assert code_digest.digest("analysis.tables") != code_digest.digest("figures.draw")
