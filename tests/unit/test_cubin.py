"""What is read of cubins that nvcc makes here: variables that outlive a launch, and instructions of the tensor cores."""

import pytest
from ladder import compile as compiling
from ladder import cubin
from ladder.kernels import Configuration, discover
from planted import ROOT

GEMM = 'extern "C" __global__ void gemm(float* C, const float* A, int n) { %s }'
KEPT = {
    "nothing": ("", "C[0] = A[0];", []),
    "a variable": ("__device__ int seen;", "C[0] = seen++;", ["seen"]),
    "one with a value": ("__device__ float before[3] = {1, 2, 3};", "C[0] = before[n]++;", ["before"]),
    "one in a function": ("", "static int calls; C[0] = calls++;", ["_ZZ4gemmE5calls"]),
    "one that kernels manage": ("__managed__ int shared_with_the_host;", "C[0] = shared_with_the_host++;", ["shared_with_the_host"]),
    "one in a namespace": ("namespace hidden { __device__ double memory; }", "hidden::memory += A[n];", ["_ZN6hidden6memoryE"]),
    "a constant": ("__constant__ float table[8] = {1, 2};", "C[0] = table[n];", []),
    "shared memory": ("", "__shared__ float s[64]; s[threadIdx.x] = A[n]; __syncthreads(); C[n] = s[n];", []),
    "the toolkit's sine": ("", "C[0] = sinf(A[0]) + sin((double)A[1]);", []),
    "a variable with the name of the toolkit's": ("__device__ float __cudart_i2opi_f[7];", "C[0] = __cudart_i2opi_f[n]++;",
                                                  ["__cudart_i2opi_f"]),
}  # fmt: skip
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


def compiled(source, arch="sm_90"):
    return compiling._nvcc(source, arch, ROOT / "kernels" / "include")[0]


@pytest.mark.parametrize("what", list(KEPT))
def test_state_that_outlives_a_launch_is_named(what):
    before, body, names = KEPT[what]
    found = compiled(f"{before}\n{GEMM % body}")
    assert cubin.state(found) == names
    assert not cubin.uses_tensor_cores(found)


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90"])
def test_matrix_instructions_are_found(arch):
    assert cubin.uses_tensor_cores(compiled(WMMA, arch))
    assert cubin.state(compiled(WMMA, arch)) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [("03_shared_tile", False), ("12_async_copies", False), ("20_tensor_cores", True), ("21_tensor_split", True)],
)
def test_the_rungs(name, expected):
    kernel = discover(ROOT)[f"cuda/{name}"]
    configuration = Configuration("float32", tuple(kernel.parameters.items()))
    found = compiled(kernel.source(configuration), kernel.architecture or "sm_90")
    assert cubin.uses_tensor_cores(found) == expected
    assert cubin.state(found) == []


@pytest.mark.parametrize("content", [b"", b"// not ELF", b"\x7fELF\x01" + bytes(64)])
def test_what_is_no_cubin_is_refused(content):
    for look in (cubin.state, cubin.uses_tensor_cores):
        with pytest.raises(ValueError, match="not a 64-bit ELF file"):
            look(content)
