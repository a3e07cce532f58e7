"""The environment does not change what a compiler makes: each variable that would is set, and the binary stays the same."""

import hashlib
import json
import os
from functools import cache

import pytest
from ladder.compiling import compilers, toolchain
from planted import ROOT

SOURCES = {
    "nvcc": '#include <cuda_fp16.h>\n#include <cstdint>\nextern "C" __global__ void gemm(float* a, int n) { a[n] = expf(a[n]) / n; }',
    "cc": "#include <stdint.h>\nvoid gemm(float *a, int n) {\n#pragma omp parallel for\n  for (int i = 0; i < n; ++i) a[i] *= a[i];\n}",
    "nvrtc": "",
}
STALE = ["cc1", "cc1plus", "as", "ld", "collect2", "stddef.h", "stdint.h", "cstdint", "cuda_fp16.h", "cuda_runtime.h", "libc.so"]
"""Programs, headers and a library that end every compiler that finds them."""
EVERY = {"CPATH": "{}", "GCC_EXEC_PREFIX": "{}/", "COMPILER_PATH": "{}"}
VARIABLES = {
    "cc": {**EVERY, "C_INCLUDE_PATH": "{}", "LIBRARY_PATH": "{}", "LD_RUN_PATH": "{}"},
    "nvcc": {"NVCC_APPEND_FLAGS": "-G", "NVCC_PREPEND_FLAGS": "-G", "NVCC_CCBIN": "{}", **EVERY, "CPLUS_INCLUDE_PATH": "{}",
             "INCLUDES": "-I{}"}
    | dict.fromkeys(("PTXAS_FLAGS", "OCG_FLAGS", "NVVM_FLAGS"), "-O0"),
}  # fmt: skip


def made(compiler):
    by = {"nvcc": compilers._nvcc, "nvrtc": compilers._nvrtc, "cc": compilers._cc}[compiler]
    return hashlib.sha256(by(SOURCES[compiler], "sm_90", ROOT / "kernels" / "include")[0]).hexdigest()


usual = cache(made)


@pytest.mark.parametrize(("compiler", "name", "value"), [
    pytest.param(
        compiler, *pair, marks=pytest.mark.slow if compiler == "nvcc" and pair[1] != "-G" else (), id=f"{compiler}-{pair[0]}"
    )
    for compiler, variables in VARIABLES.items()
    for pair in variables.items()
])  # fmt: skip
def test_a_variable_changes_no_binary(tmp_path, monkeypatch, compiler, name, value):
    expected = usual(compiler)
    for file in STALE:
        (tmp_path / file).write_text("#error stale\n" if file.endswith("h") or file.startswith("c") else "stale\n")
        (tmp_path / file).chmod(0o700)
    monkeypatch.setenv(name, value.format(tmp_path))
    assert made(compiler) == expected


def test_nvrtc_sees_no_other_variables_either(tmp_path, monkeypatch):
    from cuda.bindings import nvrtc

    path = tmp_path / "said.json"
    monkeypatch.setenv("NVRTC_APPEND_FLAGS", "-G")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(nvrtc, "nvrtcCreateProgram", lambda *_: path.write_text(json.dumps(dict(os.environ))) and os._exit(1))
    with pytest.raises(compilers.CompileError):
        made("nvrtc")
    assert json.loads(path.read_text()) == toolchain.environment()
    assert {"PATH", "TMPDIR"} <= set(toolchain.environment()) <= set(toolchain.PASSED)
    assert os.environ["NVRTC_APPEND_FLAGS"] == "-G"


@pytest.mark.slow
def test_a_compilers_messages_are_in_english(tmp_path, monkeypatch):
    """The pipeline looks for words in them."""
    monkeypatch.setenv("LC_ALL", "C.UTF-8")  # the quotes tell: there is no other language on most machines
    with pytest.raises(compilers.CompileError, match="'oops' undeclared"):
        compilers._cc("int f(void) { return oops; }", "", tmp_path)
