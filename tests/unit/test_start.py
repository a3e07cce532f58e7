"""What is checked before a run."""

import sys

import pytest
from checkout import interpreter
from ladder.core.errors import InputError
from ladder.pipeline import start
from planted import ROOT


def test_the_package_must_be_that_of_the_checkout(tmp_path):
    start.check_installation(sys.executable, ROOT)
    with pytest.raises(InputError, match=f"runs the package of {ROOT}; expected that of {tmp_path}, which"):
        start.check_installation(sys.executable, tmp_path)
    with pytest.raises(InputError, match="runs the package of no checkout; expected that of"):
        start.check_installation("/bin/true", ROOT)
    (tmp_path / "elsewhere" / "ladder").mkdir(parents=True)
    (tmp_path / "elsewhere" / "ladder" / "__init__.py").write_text("raise ImportError")
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
