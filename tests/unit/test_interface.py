"""A kernel whose functions are not those that the pipeline calls is a compile error that names the
argument.
"""

import pytest
from ladder.compiling import compile, compilers, cubin, interface
from ladder.model import kernel_file
from ladder.model.kernel import ARGUMENTS
from planted import C_HEADER, written

HEADER = "/*---\ntitle: t\nidea: planted by a test\nblock: [{block}]\ngrid: [1]\n{more}---*/\n"
EIGHT = "int M, int N, int K, T alpha, const T* A, const T* B, T beta, T* C"
GEMM = 'extern "C" __global__ void gemm'
EXPECTED = f"expected {GEMM}({ARGUMENTS})"
EXAMPLES = {
    "a template that nobody instantiates": (
        f"template <int SIZE> __global__ void sgemm({EIGHT}) {{}}",
        f"no function gemm; found none; {EXPECTED}",
    ),
    "a name in C++": (
        f"__global__ void gemm({EIGHT}) {{}}",
        f"no function gemm; found _Z4gemmiiifPKfS0_fPf; {EXPECTED}",
    ),
    "no leading dimensions": (
        f"{GEMM}({EIGHT}) {{}}",
        f"gemm takes 8 parameters; expected the 11 of gemm({ARGUMENTS}): "
        "the sixth, lda, has 8 bytes at offset 24; expected 4 bytes at offset 24",
    ),
    "sizes of 64 bits": (
        f"{GEMM}({ARGUMENTS.replace('int', 'size_t')}) {{}}",
        "the first, M, has 8 bytes at offset 0; expected 4 bytes at offset 0",
    ),
    "another element type": (
        f"{GEMM}({ARGUMENTS.replace('Acc alpha', 'double alpha')}) {{}}",
        "the fourth, alpha, has 8 bytes at offset 16; expected 4 bytes at offset 12",
    ),
    "alpha and beta left out": (
        f"{GEMM}({ARGUMENTS.replace('Acc alpha, ', '').replace('Acc beta, ', '')}) {{}}",
        "gemm takes 9 parameters; expected the 11 of",
    ),
    "C and ldc left out": (
        f"{GEMM}({ARGUMENTS.replace(', T *C, int ldc', '')}) {{}}",
        "the tenth, C, is missing; expected 8 bytes at offset 48",
    ),
    "one more": (
        f"{GEMM}({ARGUMENTS}, T *workspace) {{}}",
        "the twelfth has 8 bytes at offset 64; expected no more parameters",
    ),
    "no parameters": (f"{GEMM}() {{}}", "gemm takes 0 parameters; expected the 11 of"),
    "too many threads": (
        f"{GEMM}({ARGUMENTS}) {{}}".replace("void", "void __launch_bounds__(32)"),
        "gemm is compiled for at most 32 threads a block (__launch_bounds__); expected 64 or more, "
        "the header's block",
    ),
    "another block": (
        f"{GEMM}({ARGUMENTS}) {{}}".replace("void", "void __block_size__((32, 2, 1))"),
        "gemm is compiled for blocks of 32 x 2 x 1 threads; expected 64 x 1 x 1, the header's block",
    ),
}
WORKSPACE = "workspace: M * N\nthen: [{function: reduce, grid: [1], block: [32]}]\n"


def build(folder, text, kind="cuda", element_type="float32", compiler="nvrtc"):
    path = written(folder / "kernels" / kind / f"t{kernel_file.SUFFIXES[kind][0]}", text)
    kernel = kernel_file.parse(path)
    configurations = list(kernel.expand({}, [element_type], [(("compiler", compiler),)]))
    (row,) = compile.compile_kernel(kernel, configurations, "sm_90", folder / "build", 1)
    return row


@pytest.mark.parametrize("what", list(EXAMPLES))
def test_what_the_pipeline_cannot_call_is_refused_with_what_was_found(tmp_path, what):
    text, reason = EXAMPLES[what]
    row = build(tmp_path, HEADER.format(block=64, more="") + text)
    assert row.status == "compile_error"
    assert reason in row.reason
    assert not list((tmp_path / "build").iterdir())


@pytest.mark.parametrize("element_type", ["float32", "float64", "float16", "bfloat16"])
def test_the_arguments_of_every_element_type_are_taken(tmp_path, element_type):
    more = f"element_types: [{element_type}]\n"
    row = build(
        tmp_path,
        HEADER.format(block=64, more=more) + f"{GEMM}({ARGUMENTS}) {{}}",
        element_type=element_type,
    )
    assert (row.status, row.reason) == ("compiled", "")


def test_functions_of_later_launches_are_checked_too(tmp_path):
    gemm = HEADER.format(block=64, more=WORKSPACE) + f"{GEMM}({ARGUMENTS}, T *workspace) {{}}\n"
    reduce = f"{GEMM}({ARGUMENTS}, T *workspace) {{}}\n".replace("gemm", "reduce")
    assert build(tmp_path, gemm + reduce).status == "compiled"
    expected = f"{EXPECTED[:-1]}, void *workspace)".replace("void gemm", "void reduce")
    assert build(tmp_path, gemm).reason == f"no function reduce; found gemm; {expected}"
    short = build(tmp_path, gemm + reduce.replace(", T *workspace", ""))
    assert short.reason.startswith("reduce takes 11 parameters; expected the 12 of reduce(")
    assert short.reason.endswith(
        "the twelfth, workspace, is missing; expected 8 bytes at offset 64"
    )


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_90a", "sm_100", "sm_120"])
def test_parameters_and_threads_are_read_on_every_architecture(arch):
    """Of a function with code of its own beside it, which is no `__global__` function."""
    before = (
        "__device__ __noinline__ float f(float x, int n) { for (int i = 0; i < n; ++i) x = x "
        "* x + 1; return x; }\n"
    )
    text = before + f"{GEMM}(char a, double b, int* c) {{ *c = f(b, a); }}".replace(
        "void", "void __launch_bounds__(96)"
    )
    functions = interface.functions(compilers.compile_source("nvcc", text, arch)[0])
    assert list(functions) == ["gemm"]
    assert sorted(functions["gemm"].parameters.items()) == [(0, (0, 1)), (1, (8, 8)), (2, (16, 8))]
    assert (functions["gemm"].largest_block, functions["gemm"].exact_block) == ((96, 1, 1), ())


CPU = {
    "no leading dimensions": (f"void gemm({EIGHT}) {{}}", "conflicting types for 'gemm'"),
    "another name": (
        f"void sgemm({EIGHT}) {{}}",
        f"no function gemm; found sgemm; expected void gemm({ARGUMENTS})",
    ),
    "one of the file's own": (
        f"static void gemm({ARGUMENTS}) {{}}",
        "static declaration of 'gemm' follows non-static declaration",
    ),
    "only declared": (
        "extern int nothing;",
        f"no function gemm; found none; expected void gemm({ARGUMENTS})",
    ),
}


@pytest.mark.parametrize("what", list(CPU))
def test_the_c_compiler_says_what_is_wrong_with_a_cpu_kernel(tmp_path, what):
    text, reason = CPU[what]
    row = build(tmp_path, C_HEADER.format("t") + text, "cpu")
    assert row.status == "compile_error"
    assert reason in row.reason
    assert row.reason.startswith(("t.c:", "no function gemm; found "))


MAPPED = """struct alignas(64) TensorMap {{ unsigned long long words[16]; }};
extern "C" __global__ void gemm({arguments}, float* workspace, const __grid_constant__ TensorMap a_map{more}) {{}}
"""


def test_tensor_maps_are_parameters_after_the_workspace(tmp_path):
    maps = (
        "workspace: 64\ntensor_maps: [{of: A, box: [4, 4], swizzle: 0}, {of: C, box: [4, 4], "
        "swizzle: 0}]\n"
    )
    header = HEADER.format(block=64, more=maps)
    row = build(
        tmp_path,
        header
        + MAPPED.format(arguments=ARGUMENTS, more=", const __grid_constant__ TensorMap c_map"),
    )
    assert row.status == "compiled"
    row = build(tmp_path, header + MAPPED.format(arguments=ARGUMENTS, more=""))
    assert row.reason.endswith(
        "TensorMap a_map, TensorMap c_map): the 14th, c_map, is missing; expected 128 bytes"
    )
    row = build(tmp_path, header + MAPPED.format(arguments=ARGUMENTS, more=", float* c_map"))
    assert "c_map, has 8 bytes at offset" in row.reason


def test_what_is_no_elf_file_is_refused():
    for look in (interface.functions, cubin.exported):
        with pytest.raises(ValueError, match="not a 64-bit ELF file"):
            look(b"// not ELF")
