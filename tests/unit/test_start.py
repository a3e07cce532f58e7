"""What is checked before a run."""

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from checkout import interpreter
from ladder.core.errors import InputError
from ladder.measuring.supervisor import MARK
from ladder.model.kernel import ARGUMENTS
from ladder.pipeline import start
from planted import HOME, written


def test_the_package_must_be_that_of_the_checkout(tmp_path):
    def check(python, root):
        with start.installation_checked(python, root):
            begun.append(python)

    begun = []
    check(sys.executable, HOME)
    with pytest.raises(InputError, match=r"got version 0\.1\.0 installed; expected 9, that"):
        start.check_version("9")
    with pytest.raises(
        InputError, match=f"runs the package of {HOME}; expected that of {tmp_path}, which"
    ):
        check(sys.executable, tmp_path)
    with pytest.raises(InputError, match="runs the package of no checkout; expected that of"):
        check("/bin/true", HOME)
    written(tmp_path / "elsewhere" / "ladder" / "__init__.py", "raise ImportError")
    without = interpreter(tmp_path / "without", tmp_path / "elsewhere")
    with pytest.raises(InputError, match="runs the package of no checkout; expected that of"):
        check(without, HOME)
    assert len(begun) == 4  # what else is done does not wait


def test_a_path_with_a_space_is_given_from_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert start.unquoted("/usr/bin/python3") == "/usr/bin/python3"
    (tmp_path / "a space").mkdir()
    monkeypatch.chdir(tmp_path / "a space")
    assert start.unquoted(str(tmp_path / "a space" / "bin" / "python")) == "bin/python"
    for name in ("with space", "it's"):
        with pytest.raises(
            InputError, match=f"{name}/python: this path has a space, a quote or the like, which"
        ):
            start.unquoted(str(tmp_path / "a space" / name / "python"))


def test_a_folder_must_be_writable(tmp_path):
    start.check_writable(tmp_path, "x")
    assert list((tmp_path / ".snakemake").iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(
        InputError,
        match=r"file: cannot be written: .*; expected a folder for results: .* by snakemake x$",
    ):
        start.check_writable(tmp_path / "file", "snakemake x")


@pytest.mark.parametrize(
    ("left", "files", "full"),
    [
        (200, (1000, 1000), True),
        (9000, (1000, 60), True),
        (9000, (1000, 900), False),
        (9000, (0, 0), False),
    ],
)
def test_a_disk_that_is_full_from_the_start_is_told_first(tmp_path, monkeypatch, left, files, full):
    room = SimpleNamespace(f_bavail=left, f_frsize=1 << 10, f_files=files[0], f_favail=files[1])
    monkeypatch.setattr(os, "statvfs", lambda path: room)
    says = (
        rf"{tmp_path}: the disk has room for {left} KiB and {files[1]} files; expected at least "
        rf"1024 KiB and 200 files"
    )
    with pytest.raises(InputError, match=says) if full else contextlib.nullcontext():
        start.check_writable(tmp_path, "x")


def test_two_interrupts_at_once_are_one(virtual_clock):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    start.interrupt_once()
    try:
        for seconds, counts in ((0.0, True), (0.4, False), (2.0, True)):
            virtual_clock.sleep(seconds)
            with pytest.raises(KeyboardInterrupt) if counts else contextlib.nullcontext():
                signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """What Python of an environment with `envs/start.py` finds: the environment given, code may
    print more.
    """
    folder = tmp_path_factory.mktemp("environment")
    python = interpreter(folder, "import gemm_ladder_start")
    (packages,) = folder.glob("lib/python3*/site-packages")
    shutil.copy(HOME / "envs" / "start.py", packages / "gemm_ladder_start.py")

    def run(code="", **environment):
        code = f"import json, os, sys; {code}\nprint(json.dumps([sys.path, dict(os.environ)]))"
        given = {
            name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"
        } | environment
        done = subprocess.run(
            [python, "-c", code], env=given, capture_output=True, text=True, check=False
        )
        return done.stderr, *(json.loads(done.stdout) if not done.returncode else ((), {}))

    run.prefix = folder
    return run


def test_only_a_worker_looks_for_garbage_as_often_as_python_does(started):
    look = "import gc; print(gc.get_threshold()[0], file=sys.stderr)"
    usual, workers = (int(started(look, **given)[0]) for given in ({}, {MARK: "1"}))
    assert usual > 10 * workers


def test_no_process_looks_for_garbage_when_it_ends(started):
    lost = "C = type('C', (), {'__del__': lambda _: print(1, file=sys.stderr)}); c = C(); c.c = c"
    assert started(f"{lost}; del c")[0] == ""


OTHER = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
"""An environment in which Python takes text for ASCII."""
COMPILES = """
from pathlib import Path
from ladder.compiling import compilers
from ladder.model.kernel_file import parse
from ladder.model.kernel import Configuration
for compiler, name in (("cc", "cpu/odd.c"), ("nvcc", "cuda/odd.cu")):
    source = parse(Path(name)).source(Configuration("float32", ()))
    print(len(compilers.compile_source(compiler, source, "sm_90")[0]) > 1000, "≈ – ×")
"""


@pytest.mark.parametrize("options", [(), ("-I",)])
def test_files_are_utf_8_whatever_the_locale(started, tmp_path, monkeypatch, options):
    header = "/*---\ntitle: ≈ – ×\nidea: odd\n{}---*/\n// ≈ – ×\n"
    written(
        tmp_path / "cpu" / "odd.c",
        header.format("") + "void gemm() {}\n".replace("()", f"({ARGUMENTS})"),
    )
    written(
        tmp_path / "cuda" / "odd.cu",
        header.format("block: [1]\ngrid: [1]\n") + 'extern "C" __global__ void gemm() {}\n',
    )
    monkeypatch.chdir(tmp_path)
    command = [started.prefix / "bin" / "python", *options, "-c", COMPILES]
    done = subprocess.run(
        command, env=os.environ | OTHER, capture_output=True, encoding="utf-8", check=False
    )
    assert (done.stderr, done.stdout) == ("", "True ≈ – ×\n" * 2)


def test_a_terminal_gets_its_own_encoding_and_escapes_for_what_it_lacks(started, tmp_path):
    charmap = ["localedef", "-i", "de_DE", "-f", "ISO-8859-1", tmp_path / "de_DE"]
    if (
        not shutil.which("localedef")
        or subprocess.run(charmap, capture_output=True, check=False).returncode > 1
    ):
        pytest.skip("needs localedef and the sources of locales")  # Debian's package `locales`
    reader, terminal = os.openpty()
    command = [started.prefix / "bin" / "python", "-c", "print('µ ≈', open('/dev/null').encoding)"]
    environment = os.environ | {"LOCPATH": str(tmp_path), "LC_ALL": "de_DE", "PYTHONUTF8": "0"}
    subprocess.run(command, env=environment, stdout=terminal, check=True)
    os.close(terminal)
    assert os.read(reader, 1000) == b"\xb5 \\u2248 utf-8\r\n"


def test_too_little_memory_is_one_line(started):
    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (200 << 20, 200 << 20))

    command = [started.prefix / "bin" / "python", "-c", "print('started')"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=limited)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: ulimit -v: got 200 MiB of memory; expected at least 350 MiB\n"


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
    environment = {
        name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"
    } | {"HOME": "/dev/null"}
    command = [started.prefix / "bin" / "python", *command]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_engine_that_nobody_uses_does_not_warn(started):
    text = (
        "The environment variable CONDOR_CONFIG is unset, /etc/condor does not exist, and there "
        "is no user named 'condor'"
    )
    assert started(f"import warnings; warnings.warn({text!r})")[0] == ""
    assert "UserWarning: other" in started("import warnings; warnings.warn('other')")[0]
