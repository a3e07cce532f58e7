"""The environment does not change what a compiler makes: each variable that would is set, and the
binary stays the same.
"""

import hashlib
import json
import os
import tempfile
from functools import cache

import pytest
from ladder.compiling import compilers, toolchain
from ladder.core.errors import InputError
from planted import HOME, written

CUDA = """#include <cuda_fp16.h>
#include <cstdint>
extern "C" __global__ void gemm(float* a, int n) { a[n] = expf(a[n]) / n; }
"""
SOURCES = {
    "nvcc": CUDA,
    "nvrtc": CUDA,
    "cc": "#include <stdint.h>\nvoid gemm(float *a, int n) {\n#pragma omp parallel for\n"
    "  for (int i = 0; i < n; ++i) a[i] *= a[i];\n}",
}
STALE = ("cc1", "cc1plus", "as", "ld", "collect2", "libc.so")
STALE_HEADERS = ("stddef.h", "stdint.h", "cstdint", "cuda_fp16.h", "cuda_runtime.h")
"""Programs, a library and headers that end every compiler that finds them."""
EVERY = {"CPATH": "{}", "GCC_EXEC_PREFIX": "{}/", "COMPILER_PATH": "{}"}
VARIABLES = {
    "cc": {**EVERY, "C_INCLUDE_PATH": "{}", "LIBRARY_PATH": "{}", "LD_RUN_PATH": "{}"},
    "nvcc": {
        "NVCC_APPEND_FLAGS": "-G",
        "NVCC_PREPEND_FLAGS": "-G",
        "NVCC_CCBIN": "{}",
        **EVERY,
        "CPLUS_INCLUDE_PATH": "{}",
        "INCLUDES": "-I{}",
        **dict.fromkeys(("PTXAS_FLAGS", "OCG_FLAGS", "NVVM_FLAGS"), "-O0"),
    },
}
CASES = [
    pytest.param(
        compiler,
        name,
        value,
        marks=pytest.mark.slow if compiler == "nvcc" and value != "-G" else (),
        id=f"{compiler}-{name}",
    )
    for compiler, variables in VARIABLES.items()
    for name, value in variables.items()
]


def made(compiler, source="", include=HOME / "kernels" / "include"):
    source = source or SOURCES[compiler]
    return compilers.compile_source(compiler, source, "sm_90", [include])[0]


@cache
def usual(compiler):
    return hashlib.sha256(made(compiler)).hexdigest()


@pytest.mark.parametrize(("compiler", "name", "value"), CASES)
def test_a_variable_changes_no_binary(tmp_path, monkeypatch, compiler, name, value):
    expected = usual(compiler)
    for file in STALE:
        written(tmp_path / file, "stale\n", 0o700)
    for file in STALE_HEADERS:
        written(tmp_path / file, "#error stale\n")
    monkeypatch.setenv(name, value.format(tmp_path))
    assert hashlib.sha256(made(compiler)).hexdigest() == expected


@pytest.mark.parametrize("compiler", list(SOURCES))
def test_headers_and_temporary_files_may_lie_in_a_folder_with_an_odd_name(
    tmp_path, monkeypatch, compiler
):
    folder = tmp_path / """a é b'c (d) $e&f,g%h#i"j[k]*m;n|o<p=r!s~"""
    written(folder / "include" / "one.h", "#define ONE 1\n")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    source = '#include "one.h"\n' + SOURCES[compiler].replace("[n]", "[n + ONE - 1]")
    assert made(compiler, source, folder / "include")


@pytest.fixture
def fresh():
    """The compiler is looked up once in a process."""
    caches = (toolchain.cc, toolchain._version)
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


@pytest.mark.parametrize(
    ("given", "words"),
    [("gcc", ""), ("", ""), ("gcc -O2", "gcc -O2"), ("'{}/a cache' gcc", "'a cache' gcc")],
)
def test_cc_may_be_several_words(tmp_path, monkeypatch, fresh, given, words):
    """As for make. What a compiler does with arguments is another compiler: results of the one are
    stale with the other.
    """
    written(tmp_path / "a cache", '#!/bin/sh\nexec "$@"\n', 0o755)
    monkeypatch.setenv("CC", given.format(tmp_path))
    assert made("cc")
    version, _, named = toolchain.compiler_version("cc").partition(", as ")
    assert "gcc" in version
    assert named == words


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("nogcc -m64", "CC: the C compiler nogcc was not found"),
        ("gcc 'x", "CC: got gcc 'x: No closing quotation; expected a C compiler"),
        ("true gcc", "true gcc --version: exit code 0; expected a compiler"),
    ],
)
def test_a_cc_that_does_not_work_is_named(monkeypatch, fresh, given, says):
    monkeypatch.setenv("CC", given)
    with pytest.raises(InputError, match=says):
        toolchain.compiler_version("cc")


def test_nvrtc_sees_no_other_variables_either(tmp_path, monkeypatch):
    from cuda.bindings import nvrtc

    path = tmp_path / "said.json"

    def note(*_):
        path.write_text(json.dumps(dict(os.environ)))
        os._exit(1)

    monkeypatch.setenv("NVRTC_APPEND_FLAGS", "-G")
    monkeypatch.setattr(nvrtc, "nvrtcCreateProgram", note)
    with pytest.raises(compilers.CompileError):
        made("nvrtc")
    assert json.loads(path.read_text()) == toolchain.environment()
    assert os.environ["NVRTC_APPEND_FLAGS"] == "-G"


@pytest.mark.slow
def test_a_compilers_messages_are_in_english(monkeypatch):
    """The pipeline looks for words in them."""
    # the quotes tell: there is no other language on most machines
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    with pytest.raises(compilers.CompileError, match="'oops' undeclared"):
        made("cc", "int f(void) { return oops; }")
