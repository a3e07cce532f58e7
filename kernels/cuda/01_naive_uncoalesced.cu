/*---
title: Naive, uncoalesced
idea: a thread computes one element of C; the threads of a warp are on adjacent rows
label: one thread per element
parameters: {BX: 32, BY: 32}
sweep: {BX: [16, 32], BY: [32]}
element_types: [float32, float64, float16]
block: [BX, BY]
grid: ["ceil_div(M, BX)", "ceil_div(N, BY)"]
global_reads: 2 * M * N * K
global_writes: M * N
accesses:
  - {global_read: x * lda, per_k: 1}
  - {global_read: y, per_k: 1}
---*/
// The shortest parallel GEMM: thread (x, y) multiplies row x of A by column y of B.
//
// What holds it back: uncoalesced access. The 32 threads of a warp are on 32 rows. In a step of the loop they read 32 elements
// of A that lie lda apart, and at the end they write 32 elements of C that lie ldc apart. Each access takes up to 32 memory
// transactions instead of one, and most of the bytes are not used.

#include "store.cuh"

extern "C" __global__ void __launch_bounds__(BX * BY)
    gemm(int M, int N, int K, Acc alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, Acc beta,
         T* __restrict__ C, int ldc) {
  const int row = blockIdx.x * BX + threadIdx.x;
  const int col = blockIdx.y * BY + threadIdx.y;
  if (row >= M || col >= N) return;

  Acc sum = 0;
  for (int k = 0; k < K && alpha != 0; ++k) sum += Acc(A[size_t(row) * lda + k]) * Acc(B[size_t(k) * ldb + col]);

  store(&C[size_t(row) * ldc + col], alpha, sum, beta);
}
