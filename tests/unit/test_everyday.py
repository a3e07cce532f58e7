"""What docs/everyday.md says of the Makefile, and its script of a night."""

import ctypes
import os
import shlex
import shutil
import subprocess
import sys

import pytest
from ladder.cli.main import parser
from planted import HOME, written


def run(folder, *command, **given):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, **given)


@pytest.fixture
def bare(tmp_path):
    """Makes a folder with the Makefile and what it sets up from."""

    def make(name):
        for path in (
            "requirements.lock",
            "bootstrap.lock",
            "start.py",
            "trim",
            "../pyproject.toml",
        ):
            written(tmp_path / name / "envs" / path, "")
        shutil.copy(HOME / "Makefile", tmp_path / name)
        return tmp_path / name

    return make


def test_cleaning_leaves_what_is_published_and_what_is_installed(bare):
    folder = bare("here")
    kept = ["results/published/x/environment.json", ".venv/bin/python", "kernels/cpu/mine.c"]
    gone = ["results/smoke/best.csv", "results/.hidden", ".snakemake/log", ".pytest_cache/x"]
    for name in kept + gone:
        written(folder / name, "")
    assert run(folder, "make", "clean").returncode == 0
    assert [name for name in kept + gone if (folder / name).exists()] == kept
    assert [path.name for path in (folder / "results").iterdir()] == ["published"]


ODD = """a é b'c (d) $e&f,g%h#i"j[k]*m;n|o<p`q=r!s~"""
"""A folder with each character that a shell, Make or a compiler may mistake."""


def test_the_environment_is_set_up_in_a_folder_with_an_odd_name_and_again_if_moved(bare):
    """With stand-ins for Python and uv. `python -c` says where packages are installed, as the real
    one does.
    """
    folder = bare(ODD)
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
    uv = """#!/bin/sh
case $* in
*offline*) echo "not in the cache" >&2; exit 1 ;;
*install*pyproject.toml*) parallel-c++ >> said ;;
esac
"""
    written(folder / "bin" / "uv", uv, 0o755)
    written(folder / "envs" / "parallel-c++", '#!/bin/sh\necho "$COMPILER"\n', 0o755)
    setup = ["make", "setup", "PYTHON=bin/python", "CXX='/a path/ccache' g++"]
    done = run(folder, *setup)
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "said").read_text() == "'/a path/ccache' g++\n"
    for name, text in (("py", ""), ("pth", "import gemm_ladder_start\n")):
        assert (packages / f"gemm_ladder_start.{name}").read_text() == text
    assert "venv" not in run(folder, *setup, "-n").stdout
    moved = folder.rename(folder.with_name("moved"))
    assert "-m venv --clear .venv" in run(moved, *setup, "-n").stdout


@pytest.mark.parametrize("name", ["a:b", "a{b", "a}b", "a\\b"])
def test_a_folder_in_which_nothing_can_be_set_up_is_refused_at_once(bare, name):
    folder = bare(name)
    done = run(folder, "make", "setup")
    assert done.returncode == 2
    assert f"{folder}: got a path with {name[1]}; expected one without" in done.stderr
    assert not (folder / ".venv").exists()


def test_a_c_plus_plus_compiler_of_several_words_compiles(tmp_path):
    """What PyCUDA is built with: all that is noted before the linker's turn, Boost.Python's files
    as one.
    """
    cache = written(tmp_path / "a cache", '#!/bin/sh\necho "$0" >> said; exec "$@"\n', 0o755)
    environment = os.environ | {"COMPILER": f"{shlex.quote(str(cache))} g++"}
    (tmp_path / "libs/python/src").mkdir(parents=True)
    names = ["libs/python/src/c", "libs/python/src/d", "a '", "b"]
    for letter, name in zip("cdab", names, strict=True):
        written(tmp_path / f"{name}.cpp", f'extern "C" int {letter}() {{ return 0; }}\n')
        compiled = [HOME / "envs/parallel-c++", "-g", "-c", f"{name}.cpp", "-o", f"{name}.o"]
        assert run(tmp_path, *compiled, env=environment).returncode == 0
    linked = [HOME / "envs/parallel-c++", "-shared", *(f"{name}.o" for name in names), "-o", "made"]
    assert run(tmp_path, *linked, env=environment).returncode == 0
    made = ctypes.CDLL(str(tmp_path / "made"))
    assert all(hasattr(made, letter) for letter in "abcd")
    # an empty object, three files and the linker
    assert (tmp_path / "said").read_text() == f"{cache}\n" * 5


@pytest.fixture
def pythons(bare):
    """Runs `make -n setup` where no other Pythons are found than those of the given versions."""

    def make(versions, *options):
        folder = bare("here")
        for name, version in versions.items():
            pretend = f"import sys; sys.version_info = {version}; exec(sys.argv[1])"
            text = f"""#!/bin/sh\nexec {sys.executable} -c "{pretend}" "$2"\n"""
            written(folder / "bin" / name, text, 0o755)
        (folder / "bin").mkdir(exist_ok=True)
        for name in ("make", "sh", "grep"):
            (folder / "bin" / name).symlink_to(shutil.which(name))
        environment = {"PATH": str(folder / "bin")}
        return run(folder, "make", "-n", "setup", *options, env=environment)

    return make


@pytest.mark.parametrize("version", [(3, 10), (3, 15)])
def test_without_a_python_that_suits_it_says_how_to_get_one(pythons, version):
    done = pythons({"python3": version}, "PYTHON=python3")
    assert done.returncode == 2
    assert "PYTHON: got python3; expected Python 3.11 to 3.14" in done.stderr
    assert "apt-get install python3-venv python3-dev" in done.stderr


@pytest.mark.parametrize("version", [(3, 11), (3, 14)])
def test_a_python_that_suits_is_found_beside_one_that_does_not(pythons, version):
    name = "python{}.{}".format(*version)
    done = pythons({"python3": (3, 10), name: version})
    assert f"\n{name} -m venv --clear .venv" in f"\n{done.stdout}"


@pytest.mark.parametrize(
    ("measured", "compared", "code"), [(0, 0, 0), (2, 0, 2), (4, 0, 4), (0, 3, 3), (0, 1, 1)]
)
def test_the_script_of_a_night_ends_with_the_first_code_that_is_not_0(
    tmp_path, measured, compared, code
):
    """With stand-ins for all that it calls."""
    page = (HOME / "docs" / "everyday.md").read_text()
    script = page.split("```sh\n")[1].split("```")[0]
    ends = {"git": 0, "make": 0, "gemm-ladder/.venv/bin/snakemake": measured}
    for name, end in (ends | {"gemm-ladder/.venv/bin/ladder": compared}).items():
        text = f'#!/bin/sh\necho "$*" > "{tmp_path}/said"\nexit {end}\n'
        written(tmp_path / name, text, 0o755)
    for night in "123":
        (tmp_path / "nights" / "trusted" / night / "results" / "default").mkdir(parents=True)
    environment = os.environ | {"HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = run(tmp_path, "sh", "-c", script, env=environment)
    assert done.returncode == code, done.stderr
    if not measured:
        words = shlex.split((tmp_path / "said").read_text())
        given = parser().parse_args([word for word in words if word != "--"])
        assert [path.parent.parent.name for path in given.folders[:3]] == ["1", "2", "3"]
        assert len(given.folders) == 4
        assert given.fail_if_slower == 0.01
