"""Kernels in Triton: what their header and text may have. tests/workflow/test_triton.py compiles
them.
"""

import json
import re
import subprocess
import sys

import pytest
from ladder.compiling import compile, toolchain, triton_child
from ladder.core.errors import InputError
from ladder.core.places import HOME
from ladder.model import kernel_file
from ladder.model.problem import Problem
from planted import written

PATH = HOME / "kernels" / "cuda" / "65_triton.py"
TEXT = PATH.read_text()


def parse(folder, text):
    path = written(folder / "kernels" / "cuda" / "mine.py", text)
    return kernel_file.parse(path)


def test_multiples_are_needs_and_a_part_of_what_is_compiled():
    kernel = kernel_file.parse(PATH)
    configuration = next(configuration for configuration, _ in kernel.expand({}, ["float32"]))
    device = {"sm_count": 132, "shared_memory_per_block": 232448, "clusters_of_4": 30}
    assert kernel.unmet_need(configuration, Problem(64, 64, 64).names() | device) == ""
    assert (
        kernel.unmet_need(configuration, Problem(64, 72, 64).names() | device)
        == "needs ldb % 16 == 0"
    )
    request = json.loads(kernel.source(configuration))
    assert request["multiples"] == ["A", "B", "C", "lda", "ldb", "ldc", "N", "K"]
    assert request["parameters"]["STAGES"] == 3
    assert kernel.compiler(configuration) == "triton"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("uses: [cutlass]", 'uses: got ["cutlass"]; expected only kernels in .cu to have it'),
        ("workspace: 8", "workspace: got 8; expected only kernels in .cu or .ptx to have it"),
        (
            "architecture: sm_90a",
            'architecture: got "sm_90a"; expected only kernels in .cu or .ptx to',
        ),
    ],
)
def test_what_a_header_cannot_have_is_refused(tmp_path, line, message):
    with pytest.raises(InputError, match=re.escape(f"mine.py: header: {message}")):
        parse(tmp_path, TEXT.replace("\nblock:", f"\n{line}\nblock:", 1))


def test_without_triton_the_command_that_installs_it_is_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(toolchain, "TRITON", tmp_path / "bin" / "python")
    kernel = kernel_file.parse(PATH)
    rows = compile.compile_kernel(
        kernel, list(kernel.expand({}, ["float32"])), "sm_90", tmp_path, 1
    )
    assert {(row.status, row.reason) for row in rows} == {
        ("not_supported", "needs Triton; `make setup-triton` installs it")
    }
    assert toolchain.versions(kernel, "triton").startswith("triton missing, Build cuda_")


def test_another_version_than_that_of_the_lock_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(toolchain, "TRITON", tmp_path / "bin" / "python")
    (tmp_path / "lib" / "python3.11" / "site-packages" / "triton-1.0.0.dist-info").mkdir(
        parents=True
    )
    message = (
        r"got Triton 1\.0\.0; expected 3\.\d+\.\d+, as in envs/triton\.lock: `make setup-triton`"
    )
    with pytest.raises(InputError, match=message):
        toolchain.triton_version()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("    tl.core.inspect.os.system('true')", "got tl.core"),
        ("    tl.core.builtins.open('x')", "got tl.core"),
        ("    open('x')", "got open; expected a name of the kernel"),
        ("    x = tl", "got tl by itself"),
        ("    x = A.__class__", "got A.__class__"),
        ("    import os", "expected imports at the beginning only"),
        ("    print(1)", "got print; expected a name"),
        (
            "    x = tl.make_tensor_descriptor(A, [1], [1], [1])",
            "got tl.make_tensor_descriptor: tensor descriptors need scratch",
        ),
        (
            "import os",
            "got import os; expected import triton and import triton.language as tl only",
        ),
        ("x = [1]", "expected a name and a constant"),
        ("def f(): pass", "f: expected the decorator @triton.jit"),
        ("@triton.jit\ndef f(x=tl.abs): pass", "expected defaults to be constants"),
        ("@triton.jit\ndef f(x: tl.abs): pass", "expected no annotation but tl.constexpr"),
        ("for x in range(3): pass", "got for x in range(3):"),
    ],
)
def test_text_that_does_more_than_a_kernel_needs_is_refused(line, message):
    triton_child.check(TEXT)
    text = TEXT.rstrip() + f"\n{line}\n"
    number = text[: text.rindex(line)].count("\n") + 1 + line.count("\n")
    with pytest.raises(SystemExit, match=f"line {number}: {re.escape(message)}"):
        triton_child.check(text)


def test_the_child_refuses_before_anything_of_the_kernel_runs(tmp_path):
    request = json.dumps({"text": f"open({str(tmp_path / 'ran')!r}, 'w')"})
    command = [sys.executable, "-I", triton_child.__file__, "90"]
    done = subprocess.run(
        command, input=request, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, list(tmp_path.iterdir())) == (1, [])
    assert done.stderr.startswith("line 1: got open(")
