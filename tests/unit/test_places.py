"""Files of the project come before those of home, and no name has two meanings."""

import shutil
from pathlib import Path

import pytest
from ladder.cli import new_kernel
from ladder.cli.run import run
from ladder.core import places
from ladder.core.errors import InputError
from ladder.model import campaign_file, kernel_file
from planted import C_RIGHT, c_kernel, written


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A project, in one of whose folders a person stands, and a home."""
    home, root = tmp_path / "home", tmp_path / "project"
    monkeypatch.setattr(places, "HOME", home)
    written(home / "config" / "default.yaml", "campaign: default\n")
    written(home / "kernels" / "include" / "x.h", "// of home\n")
    for place in (home, root):
        written(place / "kernels" / "cpu" / f"{place.name}.c", kernel("x.h"))
    monkeypatch.chdir(written(root / "src" / "notes", "").parent)
    return root


def kernel(*includes):
    """A kernel with headers."""
    return c_kernel("t", C_RIGHT) + "".join(f'#include "{name}"\n' for name in includes)


def test_the_project_is_the_nearest_folder_with_kernels_else_the_current_one(root, monkeypatch):
    assert places.project() == root
    monkeypatch.chdir(root.parent)
    assert places.project() == root.parent


def test_a_file_is_looked_up_in_the_project_then_at_home(root):
    for place, name in ((root, "kernels/cpu/project.c"), (places.HOME, "config/default.yaml")):
        assert places.find(name) == place / name
        assert places.named(place / name) == name
    assert places.find("config/mine.yaml") == root / "config" / "mine.yaml"
    assert places.find(places.named(root.parent / "x")) == root.parent / "x"


@pytest.mark.parametrize(
    ("file", "headers"),
    [
        ("project/kernels/cpu/project.c", ["project/kernels/include/x.h"]),
        ("project/src/mine.c", ["project/src/x.h"]),
        ("elsewhere/mine.c", ["project/kernels/include/x.h"]),
        ("home/kernels/cpu/home.c", ["home/kernels/include/x.h"]),
    ],
)
def test_headers_are_those_nearest_to_a_kernel_and_of_home_for_those_of_home(root, file, headers):
    of_home = kernel_file.parse(places.HOME / "kernels/cpu/home.c").digest
    path = root.parent / file
    if not path.exists():
        written(path, kernel("x.h"))
    assert kernel_file.parse(path).includes == [places.HOME / "kernels/include/x.h"]
    for folder in ("kernels/include", "src"):
        written(root / folder / "x.h", "// of the project\n")
    assert kernel_file.parse(path).includes == [root.parent / header for header in headers]
    written(root / "kernels/include/stddef.h", "// of the project\n")
    assert kernel_file.parse(places.HOME / "kernels/cpu/home.c").digest == of_home


def test_a_kernel_with_the_name_of_another_at_home_is_refused(root):
    copy = written(root / "kernels/cpu/home.c", kernel("x.h"))
    refused = {}
    assert list(kernel_file.everywhere(refused)) == ["cpu/home", "cpu/project"]
    assert refused == {}  # the same
    copy.write_text(kernel())
    found = kernel_file.everywhere(refused)
    assert found["cpu/home"].path.is_relative_to(places.HOME)
    assert list(refused) == ["cpu/home"]
    assert kernel_file.path_of("cpu", "home") == found["cpu/home"].path
    message = f"{copy}: has the name of {places.HOME}/kernels/cpu/home.c; rename"
    with pytest.raises(InputError, match=message):
        load(["cpu/*"])


def test_a_name_means_the_kernel_of_home_whatever_the_kind(root):
    written(
        places.HOME / "kernels/cuda/rung.cu",
        "/*---\ntitle: t\nidea: i\nblock: [1]\ngrid: [1]\n---*/\n",
    )
    written(root / "kernels/cpu/rung.c", kernel())
    written(root / "kernels/cpu/home.c", kernel("x.h"))
    kernel_file.known.cache_clear()
    try:
        assert kernel_file.known()["rung"].kind == "cuda"
        assert set(kernel_file.known()) == {"rung", "home", "project"}
    finally:
        kernel_file.known.cache_clear()


def load(patterns):
    data = {"campaign": "t", "problems": {"cpu": [[8, 8, 8]]}, "kernels": patterns}
    files = (file for pattern in patterns for file in kernel_file.files_of(pattern) or [])
    refused = {}
    kernels = kernel_file.everywhere(refused, files)
    return campaign_file.load(data, "t.yaml", kernels, refused)


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["./mine/*.c", "cpu/home"], ["a", "b", "home"]),
        (["mine/"], ["a", "b"]),
        (["mine/a.c"], ["a"]),
        (["../elsewhere/*"], ["c"]),
        ("all", ["home", "project"]),
    ],
)
def test_a_campaign_names_files_and_folders_of_the_project(root, patterns, names):
    for name in ("mine/a", "mine/b", "../elsewhere/c"):
        written(root / f"{name}.c", kernel())
    written(root / "mine" / "part.c", "int x;\n")
    campaign = load(patterns)
    assert [kernel.name for kernel in campaign.kernels.values()] == names
    planned = campaign.plan("cpu", campaign.shares["cpu", "float32"])["paths"]
    assert [kernel_file.parse(places.find(path)).name for path in planned.values()] == names


def test_what_is_nowhere_is_named_with_the_places_that_were_searched(root, monkeypatch):
    message = r'kernels\[1\]: got "./none/\*.c"; expected files of kernels with headers in '
    with pytest.raises(InputError, match=message):
        load(["cpu/home", "./none/*.c"])
    written(root / "config" / "other.yaml", "campaign: other\n")
    message = f"none: no such campaign in {root}/config or {places.HOME}/config; .* other, default"
    with pytest.raises(InputError, match=message):
        campaign_file.find("none")
    written(root / "config" / "mine.yaml", "campaign: default\n")
    assert campaign_file.find("default") == root / "config" / "mine.yaml"
    with pytest.raises(InputError, match=r"othr: no such file; .* did you mean `other`"):
        run("othr", [])
    monkeypatch.setattr(places, "HOME", root / "home")
    with pytest.raises(InputError, match="home: missing; expected the wheel that `make wheel`"):
        places.check_folders()
    gone = written(root / "gone" / "x", "").parent
    monkeypatch.chdir(gone)
    shutil.rmtree(gone)
    with pytest.raises(InputError, match="the current folder: No such file or directory; expected"):
        places.check_folders()


def test_a_project_is_begun_beside_what_is_there(root, tmp_path, monkeypatch):
    folder = tmp_path / "new"
    written(folder / "here", "")
    monkeypatch.chdir(folder)
    with pytest.raises(InputError, match="expected a project, which `ladder init` begins"):
        new_kernel.write(".c", "mine")
    written(folder / ".gitignore", "mine\n")
    written(places.HOME / "AGENTS.md", "for programs\n")
    made = {str(path.relative_to(folder)) for path in new_kernel.init(folder)}
    expected = {"AGENTS.md", ".github/workflows/kernels.yaml", "config/mine.yaml"}
    assert made == expected | {"kernels/cpu/mine.c"}
    assert (folder / ".gitignore").read_text() == "mine\n"
    assert new_kernel.init(folder) == []
    with pytest.raises(InputError, match=r"^/proc/x/.*: cannot be written: No"):
        new_kernel.init(Path("/proc/x"))
