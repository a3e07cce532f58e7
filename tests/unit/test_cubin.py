"""What is read of cubins that nvcc makes here: variables that outlive a launch, and instructions of
the tensor cores.
"""

import pytest
from ladder.compiling import compilers, cubin
from ladder.model.kernel import Configuration
from planted import HOME
from rungs import ALL

pytestmark = pytest.mark.slow
GEMM = 'extern "C" __global__ void gemm(float* C, const float* A, int n) { %s }'
KEPT = {
    "nothing": ("", "C[0] = A[0];", []),
    "a variable": ("__device__ int seen;", "C[0] = seen++;", ["seen"]),
    "one with a value": (
        "__device__ float before[3] = {1, 2, 3};",
        "C[0] = before[n]++;",
        ["before"],
    ),
    "one in a function": ("", "static int calls; C[0] = calls++;", ["_ZZ4gemmE5calls"]),
    "one that kernels manage": (
        "__managed__ int shared_with_the_host;",
        "C[0] = shared_with_the_host++;",
        ["shared_with_the_host"],
    ),
    "one in a namespace": (
        "namespace hidden { __device__ double memory; }",
        "hidden::memory += A[n];",
        ["_ZN6hidden6memoryE"],
    ),
    "one that a constant points to": (
        "__device__ int seen = 1; __constant__ int* it = &seen;",
        "C[0] = (*it)++;",
        ["seen"],
    ),
    "one of two": (
        "__device__ float one[4] = {1}, two[4] = {2};",
        "C[0] = (n > 3 ? one : two)[n]++;",
        ["one", "two"],
    ),
    "one that is counted atomically": (
        "__device__ int calls = 1;",
        "C[0] = atomicAdd(&calls, 1);",
        ["calls"],
    ),
    "one whose address is taken in assembly": (
        "__device__ int seen = 1;",
        'long long at; asm("mov.u64 %0, seen;" : "=l"(at)); C[0] = (*(int*)at)++;',
        ["seen"],
    ),
    "what is known when it is compiled": (
        "constexpr int PARTS = 4; template <int N> struct Of { static constexpr int TWICE = 2 * N; };",
        "for (int i = 0; i < PARTS; ++i) C[i] = A[i] * Of<3>::TWICE;",
        [],
    ),
    "a constant that is written": (
        "__constant__ int table[8];",
        'int* at = (int*)table; asm volatile("" : "+l"(at)); C[0] = at[n]++;',
        ["table"],
    ),
    "memory that is asked for": (
        "",
        "int* at = (int*)malloc(64); C[0] = at[n]++; free(at);",
        ["malloc"],
    ),
    "memory that is asked for on a boundary": (
        "",
        "C[0] = (*(int*)__nv_aligned_device_malloc(64, 32))++;",
        ["__cuda_syscall_aligned_malloc"],
    ),
    "memory of an object": ("", "int* at = new int[16]; C[0] = at[n]++; delete[] at;", ["malloc"]),
    "a constant": ("__constant__ float table[8] = {1, 2};", "C[0] = table[n];", []),
    "shared memory": (
        "",
        "__shared__ float s[64]; s[threadIdx.x] = A[n]; __syncthreads(); C[n] = s[n];",
        [],
    ),
    "the toolkit's sine": ("", "C[0] = sinf(A[0]) + sin((double)A[1]);", []),
    "a variable with the name of the toolkit's": (
        "__device__ float __cudart_i2opi_f[7];",
        "C[0] = __cudart_i2opi_f[n]++;",
        ["__cudart_i2opi_f"],
    ),
}
WMMA = """
#include <mma.h>
extern "C" __global__ void gemm(const half* A, const half* B, float* C) {
  using namespace nvcuda::wmma;
  fragment<matrix_a, 16, 16, 16, half, row_major> a;
  fragment<matrix_b, 16, 16, 16, half, row_major> b;
  fragment<accumulator, 16, 16, 16, float> c;
  fill_fragment(c, 0.0f);
  load_matrix_sync(a, A, 16);
  load_matrix_sync(b, B, 16);
  mma_sync(c, a, b, c);
  store_matrix_sync(C, c, 16, mem_row_major);
}
"""


def compiled(source, arch="sm_90", compiler="nvcc"):
    return compilers.compile_source(compiler, source, arch, [HOME / "kernels" / "include"])[0]


def found_in(what, arch="sm_90", compiler="nvrtc"):
    before, body, names = KEPT[what]
    binary = compiled(f"{before}\n{GEMM % body}", arch, compiler)
    assert not cubin.uses_tensor_cores(binary)
    return cubin.state(binary), names


BY_NVCC = (
    "one in a function",
    "one that kernels manage",
    "a constant that is written",
    "memory of an object",
)
"""nvcc has the same front end as NVRTC, but may name and place variables in its own way."""


@pytest.mark.parametrize(
    ("what", "compiler"),
    [*((what, "nvrtc") for what in KEPT), *((what, "nvcc") for what in BY_NVCC)],
)
def test_state_that_outlives_a_launch_is_named(what, compiler):
    state, names = found_in(what, compiler=compiler)
    assert state == names


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90"])
def test_matrix_instructions_are_found(arch):
    binary = compiled(WMMA, arch)
    assert cubin.uses_tensor_cores(binary)
    assert cubin.state(binary) == []


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_90a", "sm_100", "sm_120"])
def test_state_is_named_on_every_architecture(arch):
    for what in ("one with a value", "a constant", "a constant that is written", "nothing"):
        state, names = found_in(what, arch)
        assert state == names


@pytest.mark.parametrize(
    ("name", "compiler", "expected"),
    [
        ("03_shared_tile", "nvcc", False),
        ("20_tensor_cores", "nvrtc", True),
        ("21_tensor_split", "nvcc", True),
    ],
)
def test_the_rungs(name, compiler, expected):
    kernel = ALL[f"cuda/{name}"]
    configuration = Configuration("float32", tuple(kernel.parameters.items()))
    binary = compiled(kernel.source(configuration), kernel.architecture or "sm_90", compiler)
    assert cubin.uses_tensor_cores(binary) == expected
    assert cubin.state(binary) == []


@pytest.mark.parametrize("content", [b"", b"// not ELF", b"\x7fELF\x01" + bytes(64)])
def test_what_is_no_cubin_is_refused(content):
    for look in (cubin.state, cubin.uses_tensor_cores):
        with pytest.raises(ValueError, match="not a 64-bit ELF file"):
            look(content)
