/*---
title: Shared-memory tiles, unrolled
idea: the inner loop is unrolled, so that its overhead is shared and loads are issued early
label: unrolling
parameters: {BM: 32, BN: 32, BK: 32, UNROLL: 4}
sweep: {BM: [32], BN: [16], BK: [32], UNROLL: [4, 32]}
element_types: [float32, float64, float16]
block: [BN, BM]
grid: ["ceil_div(N, BN)", "ceil_div(M, BM)"]
requires: [UNROLL >= 1, BM * BK + BK * BN <= 6144]
global_reads: K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: M * N
accesses:
  - {global_read: thread // BK * lda + thread % BK, per_k: 1 / BN}
  - {global_read: thread // BN * ldb + thread % BN, per_k: 1 / BM}
  - {shared_write: thread, per_k: 1 / BN + 1 / BM}
  - {shared_read: y * BK, width: "min(4, UNROLL, 16 // element_size)", per_k: 1}
  - {shared_read: x, per_k: 1}
---*/
// Rung 03 with one line more. Each pass of a loop costs a counter, a comparison and a branch. UNROLL passes in a row share that
// cost, and their loads can be in flight together. UNROLL need not divide BK: the compiler adds the remainder.
//
// The compiler also unrolls rung 03, by its own judgment. UNROLL = 1 forbids it: compare with that to see what unrolling is worth,
// and with rung 03 to see how good the judgment is.
//
// What holds it back: each multiply-add still takes two loads from shared memory.

#include "store.cuh"

extern "C" __global__ void __launch_bounds__(BM * BN)
    gemm(int M, int N, int K, Acc alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, Acc beta,
         T* __restrict__ C, int ldc) {
  __shared__ T sA[BM][BK];
  __shared__ T sB[BK][BN];
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const int thread = threadIdx.y * BN + threadIdx.x;

  Acc sum = 0;
  for (int k0 = 0; k0 < K && alpha != 0; k0 += BK) {
    for (int i = thread; i < BM * BK; i += BM * BN) {
      const int r = i / BK, k = i % BK;
      sA[r][k] = row0 + r < M && k0 + k < K ? A[size_t(row0 + r) * lda + k0 + k] : T(0);
    }
    for (int i = thread; i < BK * BN; i += BM * BN) {
      const int k = i / BN, c = i % BN;
      sB[k][c] = k0 + k < K && col0 + c < N ? B[size_t(k0 + k) * ldb + col0 + c] : T(0);
    }
    __syncthreads();  // the tiles are complete
#pragma unroll UNROLL
    for (int k = 0; k < BK; ++k) sum += Acc(sA[threadIdx.y][k]) * Acc(sB[k][threadIdx.x]);
    __syncthreads();  // nobody reads them any more
  }

  const int row = row0 + threadIdx.y, col = col0 + threadIdx.x;
  if (row < M && col < N) store(&C[size_t(row) * ldc + col], alpha, sum, beta);
}
