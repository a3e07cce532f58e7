/*---
title: Naive, coalesced
idea: a thread computes one element of C; the threads of a warp are on adjacent columns, so that their accesses coalesce
label: coalesced loads
parameters: {BX: 32, BY: 32}
sweep: {BX: [32], BY: [8, 32]}
element_types: [float32, float64, float16]
block: [BX, BY]
grid: ["ceil_div(N, BX)", "ceil_div(M, BY)"]
global_reads: 2 * M * N * K
global_writes: M * N
accesses:
  - {global_read: y * lda, per_k: 1}
  - {global_read: x, per_k: 1}
---*/
// Rung 01 with x and y exchanged. The 32 threads of a warp are on one row. In a step of the loop they read the same element of A,
// a broadcast, and 32 adjacent elements of B, one transaction of 128 bytes in float.
//
// What holds it back: load instructions. Each element of A is read N times and each element of B M times: 2*M*N*K loads for
// M*N*K multiply-adds. The caches serve most of them, but each load still occupies the load/store units.

#include "store.cuh"

extern "C" __global__ void __launch_bounds__(BX * BY)
    gemm(int M, int N, int K, Acc alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, Acc beta,
         T* __restrict__ C, int ldc) {
  const int row = blockIdx.y * BY + threadIdx.y;
  const int col = blockIdx.x * BX + threadIdx.x;
  if (row >= M || col >= N) return;

  Acc sum = 0;
  for (int k = 0; k < K && alpha != 0; ++k) sum += Acc(A[size_t(row) * lda + k]) * Acc(B[size_t(k) * ldb + col]);

  store(&C[size_t(row) * ldc + col], alpha, sum, beta);
}
