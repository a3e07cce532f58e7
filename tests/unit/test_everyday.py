"""What docs/everyday.md says of the Makefile, and what commands of the pages leave in a
checkout.
"""

import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from ladder.cli.main import parser
from packaging.markers import Marker
from planted import ROOT, written


def run(folder, *command, **given):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, **given)


def test_cleaning_leaves_what_is_published_and_what_is_installed(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    kept = ["results/published/x/environment.json", ".venv/bin/python", "kernels/cpu/mine.c"]
    gone = [
        "results/smoke/cpu-x/best.csv",
        "results/try/history",
        "results/.hidden",
        ".snakemake/log",
        ".pytest_cache/x",
    ]
    for name in kept + gone:
        written(tmp_path / name, "")
    assert run(tmp_path, "make", "clean").returncode == 0
    assert [name for name in kept + gone if (tmp_path / name).exists()] == kept
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == ["published"]


def test_in_a_checkout_that_was_moved_the_environment_is_made_again(tmp_path):
    """What is installed there names the folder where it was."""
    here, moved = tmp_path / "here", tmp_path / "moved"
    for name in (
        "envs/requirements.lock",
        "envs/bootstrap.lock",
        "envs/start.py",
        "pyproject.toml",
        ".venv/.ready",
        ".venv/bin/ladder",
    ):
        written(here / name, "")
    shutil.copy(ROOT / "Makefile", here)
    (here / ".venv" / "pyvenv.cfg").write_text(
        f"home = /usr/bin\ncommand = python3 -m venv --clear {here}/.venv\n"
    )

    assert "venv" not in run(here, "make", "-n", "setup").stdout
    here.rename(moved)
    would_run = run(moved, "make", "-n", "setup").stdout
    assert "-m venv --clear .venv" in would_run
    assert "--editable ." in would_run


def test_what_the_pages_commands_write_here_makes_no_checkout_dirty(tmp_path):
    """Else what is measured after a report was made could not be published."""
    text = "".join(page.read_text() for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    written = set(re.findall(r"--report (\S+\.html)|tar -czf (\S+\.tar\.gz)", text))
    names = {name for paths in written for name in paths if name}
    assert {"report.html", "smoke.tar.gz"} <= names
    run(tmp_path, "git", "init", "-q")
    shutil.copy(ROOT / ".gitignore", tmp_path)
    assert set(run(tmp_path, "git", "check-ignore", *names).stdout.split()) == names


ODD = """a é b'c (d) $e&f,g%h#i"j[k]*m;n|o<p`q=r!s~"""
"""A folder with each character that a shell, Make or a compiler may mistake."""


def test_the_environment_is_set_up_in_a_folder_with_an_odd_name(tmp_path):
    """With stand-ins for Python and uv. `python -c` says where packages are installed, as the real
    one does.
    """
    folder = bare(tmp_path / ODD / "gemm ladder", "", None)
    packages = folder / ".venv" / "site packages"
    python = f"""#!/bin/sh
case $* in
*purelib*) echo {shlex.quote(str(packages))} ;;
*version_info*) echo yes ;;
*venv*) mkdir -p .venv/bin {shlex.quote(str(packages))}; cp bin/* .venv/bin
  echo {shlex.quote(f"command = {folder}/.venv")} > .venv/pyvenv.cfg ;;
esac
"""
    written(folder / "bin" / "python", python, 0o755)
    written(folder / "bin" / "uv", "#!/bin/sh\nparallel-c++ >> said || true\n", 0o755)
    written(folder / "envs" / "parallel-c++", '#!/bin/sh\necho "$COMPILER"\n', 0o755)
    setup = ["make", "setup", "PYTHON=bin/python", "CXX='/a path/ccache' g++"]
    assert run(folder, *setup).returncode == 0
    assert (folder / "said").read_text() == "'/a path/ccache' g++\n"
    assert (packages / "gemm_ladder_start.py").read_text() == (
        folder / "envs" / "start.py"
    ).read_text()
    assert (packages / "gemm_ladder_start.pth").read_text() == "import gemm_ladder_start\n"
    assert "venv" not in run(folder, *setup, "-n").stdout


@pytest.mark.parametrize("name", ["a:b", "a{b", "a}b", "a\\b"])
def test_a_folder_in_which_nothing_can_be_set_up_is_refused_at_once(tmp_path, name):
    folder = bare(tmp_path / name, "", None)
    done = run(folder, "make", "setup")
    assert done.returncode == 2
    assert f"{folder}: got a path with {name[1]}; expected one without" in done.stderr
    assert not (folder / ".venv").exists()


def test_a_c_plus_plus_compiler_of_several_words_compiles(tmp_path):
    """What PyCUDA is built with: all that is noted before the linker's turn."""
    cache = written(tmp_path / "a cache", '#!/bin/sh\necho "$0" >> said; exec "$@"\n', 0o755)
    for name in ("a", "b"):
        written(tmp_path / f"{name} '.cpp", f"int {name}() {{ return 0; }}\n")
    for arguments in (
        ("-c", "a '.cpp", "-o", "a '.o"),
        ("-c", "b '.cpp", "-o", "b.o"),
        ("-shared", "a '.o", "b.o", "-o", "made"),
    ):
        environment = os.environ | {"COMPILER": f"{shlex.quote(str(cache))} g++"}
        subprocess.run(
            [ROOT / "envs" / "parallel-c++", *arguments], cwd=tmp_path, env=environment, check=True
        )
    assert (tmp_path / "made").exists()
    assert (tmp_path / "said").read_text() == f"{cache}\n" * 3


@pytest.mark.parametrize(
    ("python", "version"), [("python3.10", (3, 10)), ("python3.15", (3, 15)), ("", None)]
)
def test_without_a_python_that_suits_it_says_how_to_get_one(tmp_path, python, version):
    folder = bare(tmp_path, python, version)
    done = run(folder, "make", "-n", "setup", f"PYTHON={python}", env=only(folder))
    assert done.returncode == 2
    assert f"PYTHON: got {python or 'none'}; expected Python 3.11 to 3.14" in done.stderr
    for way in (
        "Debian 12",
        "Ubuntu 24.04",
        "apt-get install python3-venv python3-dev",
        "uv python install 3.13",
    ):
        assert way in done.stderr


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13), (3, 14)])
def test_a_python_that_suits_is_found_beside_one_that_does_not(tmp_path, version):
    name = "python{}.{}".format(*version)
    folder = bare(bare(tmp_path, "python3", (3, 10)), name, version)
    done = run(folder, "make", "-n", "setup", env=only(folder))
    assert f"\n{name} -m venv --clear .venv" in f"\n{done.stdout}"


def bare(folder, python, version):
    """A folder with the Makefile and what it sets up from; in its `bin` a Python, of which only the
    version is asked.
    """
    for name in (
        "envs/requirements.lock",
        "envs/bootstrap.lock",
        "envs/start.py",
        "pyproject.toml",
        "bin/made",
    ):
        written(folder / name, "")
    shutil.copy(ROOT / "Makefile", folder)
    if python:
        pretend = f"import sys; sys.version_info = {version}; exec(sys.argv[1])"
        written(
            folder / "bin" / python,
            f"""#!/bin/sh\nexec {sys.executable} -c "{pretend}" "$2"\n""",
            0o755,
        )
    return folder


def only(folder):
    """The environment in which no Python but the folder's is found."""
    for name in ("make", "sh", "grep"):
        if not (folder / "bin" / name).exists():
            (folder / "bin" / name).symlink_to(shutil.which(name))
    given = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MAKE", "MFLAGS", "PYTHON"))
    }
    return given | {"PATH": str(folder / "bin")}


@pytest.mark.parametrize("name", ["requirements", "cluster", "bootstrap"])
def test_the_lock_has_every_python_and_both_processors(name):
    """Each package once for every environment, with hashes, and no index."""
    text = (ROOT / "envs" / f"{name}.lock").read_text()
    assert not re.search(r"index-url|find-links|https?://", text)
    pinned = re.findall(r"^(\S+)==(\S+) ; (.+) \\\n    --hash", text, re.MULTILINE)
    assert len(pinned) == len(re.findall(r"^\S+==", text, re.MULTILINE))
    usual = {"sys_platform": "linux", "platform_python_implementation": "CPython"}
    markers = [(package, Marker(marker)) for package, _, marker in pinned]
    for version, machine in itertools.product(
        ("3.11.0", "3.12.9", "3.13.0", "3.14.3"), ("x86_64", "aarch64")
    ):
        given = usual | {"python_full_version": version, "platform_machine": machine}
        chosen = [package for package, marker in markers if marker.evaluate(given)]
        assert len(chosen) == len(set(chosen))
        assert set(chosen) == {package for package, _, _ in pinned}, (version, machine)


@pytest.mark.parametrize(
    ("measured", "compared", "code"), [(0, 0, 0), (2, 0, 2), (4, 0, 4), (0, 3, 3), (0, 1, 1)]
)
def test_the_script_of_a_night_ends_with_the_first_code_that_is_not_0(
    tmp_path, measured, compared, code
):
    """The script of docs/nightly.md, with stand-ins for all that it calls."""
    (script,) = re.findall(
        r"^```sh\n(.*?)^```", (ROOT / "docs" / "nightly.md").read_text(), re.DOTALL | re.MULTILINE
    )
    for name, ends in (
        ("git", 0),
        ("make", 0),
        ("gemm-ladder/.venv/bin/snakemake", measured),
        ("gemm-ladder/.venv/bin/ladder", compared),
    ):
        body = f'echo "$(basename "$0") $*"\necho "$*" > "{tmp_path}/$(basename "$0").said"'
        written(tmp_path / name, f"#!/bin/sh\n{body}\nexit {ends}\n", 0o755)
    for night in "123":
        (tmp_path / "nights" / "trusted" / night / "results" / "default").mkdir(parents=True)
    environment = os.environ | {"HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = run(tmp_path, "sh", "-c", script, env=environment)
    assert done.returncode == code, done.stderr
    if not measured:
        words = shlex.split((tmp_path / "ladder.said").read_text())
        given = parser().parse_args([word for word in words if word != "--"])
        assert [path.parent.parent.name for path in given.folders[:3]] == ["1", "2", "3"]
        assert len(given.folders) == 4
        assert given.fail_if_slower == 0.01
