/*---
title: Naive, uncoalesced
idea: one thread computes one element of C, with the threads of a warp on neighbouring rows
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
// The shortest parallel GEMM: thread (x, y) walks along row x of A and down column y of B.
//
// What holds it back: a warp's 32 threads differ in x, the row. In one step of the loop they read 32 elements of A
// that lie lda apart, and later write 32 elements of C that lie ldc apart: up to 32 memory transactions where
// one would do, most bytes of each thrown away.

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
