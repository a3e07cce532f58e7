/*---
title: Register tiles
idea: a thread computes TM x TN elements of C, so that a value loaded from shared memory is used TM or TN times
label: register tiles
builds_on: 03_shared_tile
parameters: {BM: 64, BN: 64, BK: 8, TM: 8, TN: 8}
sweep: {BM: [64, 128], BN: [64, 128], BK: [16], TM: [8], TN: [4]}
element_types: [float32, float64, float16]
layouts: [nn, nt, tn, tt]
block: [BN / TN, BM / TM]
grid: ["ceil_div(N, BN)", "ceil_div(M, BM)"]
requires: [BM % TM == 0, BN % TN == 0, BM * (BK + TRANS_A) + BK * (BN + TRANS_B) <= 6144]
global_reads: K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: M * N
accesses:
  - {global_read: thread // BM * lda + thread % BM if TRANS_A else thread // BK * lda + thread % BK, per_k: TM * TN / BN}
  - {global_read: thread // BK * ldb + thread % BK if TRANS_B else thread // BN * ldb + thread % BN, per_k: TM * TN / BM}
  - {shared_write: thread % BM * (BK + 1) + thread // BM if TRANS_A else thread, per_k: TM * TN / BN}
  - {shared_write: thread % BK * (BN + 1) + thread // BK if TRANS_B else thread, per_k: TM * TN / BM}
  - {shared_read: y * BK, width: "min(4, 16 // element_size)", per_k: TM}
  - {shared_read: x, per_k: TN}
---*/
// A tile again, one level up: shared memory saves reads of global memory, and registers save reads of shared memory. A thread keeps
// TM x TN sums in registers. For each k it loads TM values of A and TN of B and does TM*TN multiply-adds with them. Loads from
// shared memory fall from 2 to 1/TM + 1/TN for each multiply-add.
//
// The elements of a thread are not adjacent but lie as far apart as there are threads. So adjacent threads read adjacent columns
// of sB, without bank conflicts, and write adjacent elements of C.
//
// What holds it back: each load moves one element, and all threads wait for global memory twice a tile. In other layouts than NN a transpose is
// stored down the columns of a padded tile (docs/ladder/layouts.md).

#include "layout.h"
#include "store.cuh"

extern "C" __global__ void __launch_bounds__((BM / TM) * (BN / TN))
    gemm(int M, int N, int K, Acc alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, Acc beta,
         T* __restrict__ C, int ldc) {
  constexpr int THREADS_M = BM / TM, THREADS_N = BN / TN, THREADS = THREADS_M * THREADS_N;
  __shared__ T sA[BM][BK + TRANS_A];  // neighbors in memory lie in different banks: a transpose is stored down the columns
  __shared__ T sB[BK][BN + TRANS_B];
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const int thread = threadIdx.y * THREADS_N + threadIdx.x;

  Acc sum[TM][TN] = {};
  for (int k0 = 0; k0 < K && alpha != 0; k0 += BK) {
    for (int i = thread; i < BM * BK; i += THREADS) {
      const int r = TRANS_A ? i % BM : i / BK, k = TRANS_A ? i / BM : i % BK;
      sA[r][k] = row0 + r < M && k0 + k < K ? A[TRANS_A ? size_t(k0 + k) * lda + row0 + r : size_t(row0 + r) * lda + k0 + k] : T(0);
    }
    for (int i = thread; i < BK * BN; i += THREADS) {
      const int k = TRANS_B ? i % BK : i / BN, c = TRANS_B ? i / BK : i % BN;
      sB[k][c] = k0 + k < K && col0 + c < N ? B[TRANS_B ? size_t(col0 + c) * ldb + k0 + k : size_t(k0 + k) * ldb + col0 + c] : T(0);
    }
    __syncthreads();  // the tiles are complete
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      Acc a[TM], b[TN];
#pragma unroll
      for (int m = 0; m < TM; ++m) a[m] = Acc(sA[m * THREADS_M + threadIdx.y][k]);
#pragma unroll
      for (int n = 0; n < TN; ++n) b[n] = Acc(sB[k][n * THREADS_N + threadIdx.x]);
#pragma unroll
      for (int m = 0; m < TM; ++m)
#pragma unroll
        for (int n = 0; n < TN; ++n) sum[m][n] += a[m] * b[n];
    }
    __syncthreads();  // nobody reads them any more
  }

#pragma unroll
  for (int m = 0; m < TM; ++m)
#pragma unroll
    for (int n = 0; n < TN; ++n) {
      const int row = row0 + m * THREADS_M + threadIdx.y, col = col0 + n * THREADS_N + threadIdx.x;
      if (row < M && col < N) store(&C[size_t(row) * ldc + col], alpha, sum[m][n], beta);
    }
}
