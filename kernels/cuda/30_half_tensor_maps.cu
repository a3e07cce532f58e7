/*---
title: Half precision, tensor maps
idea: the tensor cores take operands of 16 bits as they lie in memory; the copy engine brings them, box by box, to where the matrix instruction reads them
parameters: {BM: 128, BN: 128}
configurations:
  - {BM: 64, BN: 64}
  - {BM: 64, BN: 128}
  - {BM: 128, BN: 128}
element_types: [bfloat16, float16]
layouts: [nn, nt, tn, tt]
block: [2 * BM]
grid: ["ceil_div(M, BM)", "ceil_div(N, BN)"]
dynamic_shared: (BM + BN) * 128 + 8
tensor_maps:
  - {of: A, box: [64, 64 if TRANS_A else BM], swizzle: 128}
  - {of: B, box: [64, BN if TRANS_B else 64], swizzle: 128}
requires: [BM == 64 or BM == 128, BN == 64 or BN == 128]
architecture: sm_90a
global_reads: K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: M * N
---*/
// Most matrix products that are computed today have operands of 16 bits. The tensor cores multiply them exactly and add in FP32, at twice
// the rate of TF32. They read them in either order: with K along the rows, as A has it, or across them, as B has it. So nothing is
// rounded, transposed, or laid out anew first: rung 20's first launch is gone.
//
// The copy engine does the layout. A tensor map, made on the host, says where a matrix lies and how large a box of it is
// (tensor_map.cuh). One instruction of one thread copies a box to shared memory, with its pieces in the order that keeps the matrix
// instruction's reads in different banks. The engine fills in zeros outside the matrix, so the loop has no guard.
//
// What holds it back: a block either copies or multiplies. Only other blocks on the same SM fill the gaps.

#include "half_operand.cuh"
#include "half_store.cuh"

using OfA = Operand<BM, TRANS_A>;
using OfB = Operand<BN, !TRANS_B>;
constexpr int A_BYTES = OfA::BYTES, B_BYTES = OfB::BYTES;

extern "C" __global__ void __launch_bounds__(2 * BM)
    gemm(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, T* __restrict__ C,
         int ldc, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map) {
  extern __shared__ __align__(1024) uint8_t shared[];
  const uint32_t a = shared_address(shared), b = a + A_BYTES, barrier = b + B_BYTES;
  const int row = blockIdx.x * BM, column = blockIdx.y * BN, group = threadIdx.x / 128;  // a warpgroup has 64 rows
  if (threadIdx.x == 0) {
    barrier_init(barrier, 1);
    barriers_ready();
  }
  __syncthreads();

  float sum[BN / 2] = {};
  const int steps = alpha == 0 ? 0 : (K + DEPTH - 1) / DEPTH;  // as in BLAS, alpha == 0 means that A and B do not count
  for (int step = 0; step < steps; ++step) {
    if (threadIdx.x == 0) {
      barrier_expect(barrier, A_BYTES + B_BYTES);
      OfA::copy(a, a_map, row, step * DEPTH, 0, barrier);
      OfB::copy(b, b_map, column, step * DEPTH, 0, barrier);
    }
    barrier_wait(barrier, step % 2);
    multiply_stage<OfA, OfB>(sum, OfA::at(a + group * STRIP), OfB::at(b), true);
    wgmma_wait<0>();
    __syncthreads();  // before the next boxes come to the same place
  }
  store_sums<BN>(sum, C, ldc, row + group * 64, column, M, N, alpha, beta, in_pairs(C, ldc), fresh(threadIdx.x % 128));
}
