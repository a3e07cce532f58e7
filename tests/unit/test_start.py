"""What is checked before a run."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from checkout import interpreter
from ladder.core.errors import InputError
from ladder.pipeline import start
from planted import ROOT, written


def test_the_package_must_be_that_of_the_checkout(tmp_path):
    start.check_installation(sys.executable, ROOT)
    with pytest.raises(InputError, match=f"runs the package of {ROOT}; expected that of {tmp_path}, which"):
        start.check_installation(sys.executable, tmp_path)
    with pytest.raises(InputError, match="runs the package of no checkout; expected that of"):
        start.check_installation("/bin/true", ROOT)
    written(tmp_path / "elsewhere" / "ladder" / "__init__.py", "raise ImportError")
    without = interpreter(tmp_path / "without", tmp_path / "elsewhere")
    with pytest.raises(InputError, match="runs the package of no checkout; expected that of"):
        start.check_installation(without, ROOT)


def test_a_path_with_a_space_is_given_from_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert start.unquoted("/usr/bin/python3") == "/usr/bin/python3"
    (tmp_path / "a space").mkdir()
    monkeypatch.chdir(tmp_path / "a space")
    assert start.unquoted(str(tmp_path / "a space" / "bin" / "python")) == "bin/python"
    for name in ("with space", "it's"):
        with pytest.raises(InputError, match=f"{name}/python: has a space, a quote or the like in its path from here"):
            start.unquoted(str(tmp_path / "a space" / name / "python"))


def test_a_folder_must_be_writable(tmp_path):
    start.check_writable(tmp_path, "x")
    assert list((tmp_path / ".snakemake").iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file: cannot be written: .*; expected a folder for results: .* by snakemake x$"):
        start.check_writable(tmp_path / "file", "snakemake x")


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """What Python of an environment with `envs/start.py` finds: the environment given, code may print more."""
    folder = tmp_path_factory.mktemp("environment")
    python = interpreter(folder, "import gemm_ladder_start")
    (packages,) = folder.glob("lib/python3*/site-packages")
    shutil.copy(ROOT / "envs" / "start.py", packages / "gemm_ladder_start.py")

    def run(code="", **environment):
        code = f"import json, os, sys; {code}\nprint(json.dumps([sys.path, dict(os.environ)]))"
        given = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"} | environment
        done = subprocess.run([python, "-c", code], env=given, capture_output=True, text=True, check=False)
        return done.stderr, *(json.loads(done.stdout) if not done.returncode else ((), {}))

    run.prefix = folder
    return run


def test_modules_of_the_shell_replace_none_of_the_lock(started, tmp_path):
    (tmp_path / "numpy.py").write_text("raise ImportError('not this one')")
    (tmp_path / "sitecustomize.py").write_text("print('nor this one')")
    errors, path, environment = started("import numpy", PYTHONPATH=f"{tmp_path}:{tmp_path}/none")
    assert errors == ""
    assert str(tmp_path) not in path
    assert "PYTHONPATH" not in environment  # for the processes that it starts
    own = sys.path[-1]
    assert own in started(PYTHONPATH=own)[1] or not own.startswith(sys.prefix)


def test_a_home_that_cannot_be_written_needs_no_cache(started):
    assert "XDG_CACHE_HOME" not in started(HOME=str(started.prefix))[2]
    assert started(HOME="/dev/null")[2]["XDG_CACHE_HOME"] == f"{started.prefix}/cache"
    assert (started.prefix / "cache").is_dir()
    assert started(HOME="/dev/null", XDG_CACHE_HOME="/x")[2]["XDG_CACHE_HOME"] == "/x"


@pytest.mark.slow
def test_snakemake_starts_without_a_home(started, tmp_path):
    (tmp_path / "Snakefile").write_text("rule all:\n    shell: 'true'\n")
    command = ["-m", "snakemake", "-n", "--directory", tmp_path, "-s", tmp_path / "Snakefile"]
    environment = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"} | {"HOME": "/dev/null"}
    command = [started.prefix / "bin" / "python", *command]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_engine_that_nobody_uses_does_not_warn(started):
    text = "The environment variable CONDOR_CONFIG is unset, /etc/condor does not exist, and there is no user named 'condor'"
    assert started(f"import warnings; warnings.warn({text!r})")[0] == ""
    assert "UserWarning: other" in started("import warnings; warnings.warn('other')")[0]


def test_the_environment_gets_what_runs_at_its_start():
    recipe = (ROOT / "Makefile").read_text().partition("$(BIN)/ladder: $(READY)")[2].partition("\n\n")[0]
    assert "cp envs/start.py $$packages/gemm_ladder_start.py && echo 'import gemm_ladder_start' >" in recipe
