/*---
title: Naive, coalesced
idea: one thread computes one element of C, with the threads of a warp on neighbouring columns, so that a warp's reads of B and writes of C are contiguous
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
// The rung below with x and y exchanged: a warp's 32 threads now share a row and differ in the column. In one step of the
// loop they read the same element of A (one broadcast) and 32 neighbours of B (one transaction of 128 bytes in float).
//
// What holds it back: every element of A is still read N times and every element of B M times, 2*M*N*K reads for
// 2*M*N*K operations. The caches catch many of them, but each costs a load instruction.

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
