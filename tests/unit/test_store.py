import os
from functools import partial
from unittest.mock import Mock

import pytest
from ladder.compiling import compile as compiling
from ladder.compiling import compilers
from ladder.core import store, yaml_schema
from ladder.core.errors import InputError
from ladder.model import kernel_file
from planted import c_kernel, written


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty store."""
    monkeypatch.setenv("LADDER_STORE", str(tmp_path / "store"))
    return tmp_path


@pytest.fixture
def compiled(folder, monkeypatch):
    """What compiles a kernel to a folder, and returns how often a compiler was started for it."""
    started = []
    run = compilers.COMPILERS["cc"]
    monkeypatch.setitem(
        compilers.COMPILERS, "cc", lambda *given: started.append(given) or run(*given)
    )
    header = written(folder / "kernels" / "include" / "mine.h", "// mine\n")
    text = c_kernel("t", "").replace("---*/", '---*/\n#include "mine.h"', 1)

    def build(campaign, text=text):
        started.clear()
        kernel = kernel_file.parse(written(folder / "kernels" / "cpu" / "20_test.c", text))
        chosen = list(kernel.expand({}, ["float32"]))[:1]
        (row,) = compiling.compile_kernel(kernel, chosen, "here", folder / campaign, 1)
        assert row.status == "compiled"
        assert (
            row.sha256
            == compiling.hashlib.sha256((folder / campaign / row.binary).read_bytes()).hexdigest()
        )
        return len(started)

    build.header, build.text = header, text
    return build


def entries(folder):
    return [path for path in (folder / "store").rglob("*") if path.is_file()]


def binaries(folder):
    """The entries that a compiler made; others are headers that were read."""
    return [path for path in entries(folder) if b"ELF" in path.read_bytes()]


def test_a_second_campaign_in_another_folder_starts_no_compiler(compiled):
    assert compiled("one") == 1
    assert compiled("two") == 0


@pytest.mark.parametrize("change", ["text", "include", "flag", "version", "reader", "instructions"])
def test_what_would_change_the_binary_starts_the_compiler(compiled, folder, monkeypatch, change):
    compiled("one")
    text = compiled.text
    if change == "text":
        text += "// else\n"
    if change == "include":
        compiled.header.write_text("// another\n")
    if change == "flag":
        monkeypatch.setitem(compiling.FLAGS, "cc", (*compiling.FLAGS["cc"], "-O2"))
    if change == "version":
        monkeypatch.setattr(compiling, "compiler_version", lambda compiler: "another")
    if change == "reader":
        monkeypatch.setattr(compiling, "_code", lambda: ["another"])
    if change == "instructions":
        known = compiling.detect.CPUINFO.read_text()
        info = written(folder / "cpuinfo", known + "flags : another\n")
        monkeypatch.setattr(compiling.detect, "CPUINFO", info)
    assert compiled("two", text) == 1
    assert compiled("three", text) == 0


@pytest.mark.parametrize("damage", ["half", "other"])
def test_a_damaged_entry_is_compiled_again(compiled, folder, damage):
    compiled("one")
    (entry,) = binaries(folder)
    data = entry.read_bytes()
    entry.write_bytes(data[: len(data) // 2] if damage == "half" else data[:-1] + b"?")
    assert compiled("two") == 1
    assert compiled("three") == 0


def test_an_entry_under_another_key_or_of_another_user_is_not_taken(folder, monkeypatch):
    store.keep("aa1", b"data")
    assert store.take("aa1") == b"data"
    (entry,) = entries(folder)
    entry.with_name("aa2").write_bytes(entry.read_bytes())
    assert store.take("aa2") is None
    monkeypatch.setattr(os, "getuid", lambda: entry.stat().st_uid + 1)
    assert store.take("aa1") is None


def test_a_folder_that_cannot_be_written_has_no_effect(compiled, folder):
    written(folder / "store", "a file")
    assert [compiled("one"), compiled("two")] == [1, 1]


def test_a_failed_compilation_is_not_kept(folder):
    kernel = kernel_file.parse(
        written(folder / "kernels" / "cpu" / "20_test.c", c_kernel("t", "undeclared;"))
    )
    chosen = list(kernel.expand({}, ["float32"]))[:1]
    (row,) = compiling.compile_kernel(kernel, chosen, "here", folder / "build", 1)
    assert row.status == "compile_error"
    assert binaries(folder) == []


def test_the_least_recently_used_go(folder, monkeypatch):
    monkeypatch.setattr(store, "BYTES", store.SHELVES * 500)  # three entries on a shelf
    store.keep("bb", bytes(100))
    for number in range(4):
        store.keep(f"aa{number}", bytes(100))
        os.utime(store._path(f"aa{number}"), (number, number))
    assert sorted(path.name for path in entries(folder)) == ["aa1", "aa2", "aa3", "bb"]
    store.take("aa1")
    store.keep("aa4", bytes(100))
    assert sorted(path.name for path in entries(folder)) == ["aa1", "aa3", "aa4", "bb"]


def test_what_is_too_large_for_a_shelf_is_not_kept(folder, monkeypatch):
    monkeypatch.setattr(store, "BYTES", store.SHELVES * 500)
    store.keep("ab1", b"small")
    store.keep("ab2", bytes(600))
    assert (store.take("ab1"), store.take("ab2")) == (b"small", None)


def test_without_a_home_nothing_is_kept(monkeypatch):
    monkeypatch.delenv("LADDER_STORE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(store.Path, "expanduser", Mock(side_effect=RuntimeError("no home")))
    store.keep("ab1", b"small")
    assert store.take("ab1") is None


def test_the_support_file_is_compiled_once(folder, monkeypatch):
    first = compiling.compile_support("cpu", "")
    monkeypatch.setattr(compiling, "compile_source", None)
    assert compiling.compile_support("cpu", "") == first


def test_yaml_is_read_and_checked_once_unless_it_is_wrong(folder, monkeypatch):
    header = yaml_schema.load("{title: t, idea: y, parameters: {P: 1}}", "x")
    wrong = header | {"parameters": {"P": 1.0}}
    yaml_schema.check(header, "kernel", "x")
    for _ in range(2):
        for refused in (
            partial(yaml_schema.load, "a: ["),
            partial(yaml_schema.check, wrong, "kernel"),
        ):
            with pytest.raises(InputError, match="x: "):
                refused("x")
        assert yaml_schema.load("a: !!binary aGk=", "x") == {"a": b"hi"}  # is no JSON
    validator = Mock()
    monkeypatch.setattr(yaml_schema, "_Loader", None)
    monkeypatch.setattr(yaml_schema, "_validator", validator)
    assert yaml_schema.load("{title: t, idea: y, parameters: {P: 1}}", "x") == header
    yaml_schema.check(header, "kernel", "x")
    assert not validator.called
    monkeypatch.setattr(yaml_schema, "_schema", lambda name: "another")
    with pytest.raises(TypeError):
        yaml_schema.check(header, "kernel", "x")
