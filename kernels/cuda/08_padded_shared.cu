/*---
title: Padded shared memory
idea: padding after each row of the transposed tile of A, so that its stores reach different banks
label: padding
parameters: {BM: 64, BN: 64, BK: 16, TM: 4, TN: 4, PAD: 4}
configurations:
  - {BM: 64, BN: 128, BK: 16, TM: 8, TN: 8, PAD: 0}
  - {BM: 64, BN: 128, BK: 16, TM: 8, TN: 8, PAD: 4}
  - {BM: 128, BN: 128, BK: 8, TM: 8, TN: 8, PAD: 0}
block: [BN / TN, BM / TM]
grid: ["ceil_div(N, BN)", "ceil_div(M, BM)"]
requires: [PAD % 4 == 0, TM % 4 == 0, TN % 4 == 0, BK % 4 == 0, BK * TM * TN % (4 * BM) == 0, BK * TM * TN % (4 * BN) == 0, 2 * BK * (BM + PAD + BN) <= 12288]
global_reads: K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: M * N
accesses:
  - {global_read: thread // (BK // 4) * lda + thread % (BK // 4) * 4, width: 4, per_k: TM * TN / BN}
  - {global_read: thread // (BN // 4) * ldb + thread % (BN // 4) * 4, width: 4, per_k: TM * TN / BM}
  - {shared_write: thread % (BK // 4) * 4 * (BM + PAD) + thread // (BK // 4), per_k: TM * TN / BN}
  - {shared_write: 4 * thread, width: 4, per_k: TM * TN / BM}
  - {shared_read: 4 * y, width: 4, per_k: TM}
  - {shared_read: 4 * x, width: 4, per_k: TN}
---*/
// Shared memory has 32 banks of four bytes. Threads of a warp that access different words of one bank are served one after
// another. A row of sA has BM elements, a multiple of 32, so each row of A has one bank for all k: the BK/4 threads that store
// one row conflict. PAD more elements after each row of sA shift the next row by PAD banks. PAD = 4 keeps rows aligned to 16
// bytes; it removes the conflicts for BK = 8 and halves them for BK = 16. PAD = 0 is rung 07.
//
// sB needs no padding: it is written and read along its rows.
//
// What holds it back: at each k the multiply-adds first wait for their loads from shared memory.

#include "tile.cuh"

constexpr int THREADS_M = BM / TM, THREADS_N = BN / TN, THREADS = THREADS_M * THREADS_N;

extern "C" __global__ void __launch_bounds__(THREADS)
    gemm(int M, int N, int K, T alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, T beta,
         T* __restrict__ C, int ldc) {
  alignas(16) __shared__ T sA[2][BK][BM + PAD];
  alignas(16) __shared__ T sB[2][BK][BN];
  const bool vector = vectorizable(M, N, K, A, lda, B, ldb, C, ldc);
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const int thread = threadIdx.y * THREADS_N + threadIdx.x;

  Tile<BM, BK, THREADS> tileA;
  Tile<BK, BN, THREADS> tileB;
  tileA.load(A, lda, row0, 0, M, K, thread, vector);
  tileB.load(B, ldb, 0, col0, K, N, thread, vector);
  tileA.put_transposed(sA[0], thread);
  tileB.put(sB[0], thread);
  __syncthreads();

  float sum[TM][TN] = {};
  int now = 0;  // the buffer that is computed on; the other one is filled
  for (int k0 = 0; k0 < K && alpha != 0; k0 += BK, now ^= 1) {
    tileA.load(A, lda, row0, k0 + BK, M, K, thread, vector);
    tileB.load(B, ldb, k0 + BK, col0, K, N, thread, vector);
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      float a[TM], b[TN];
      read4<TM, 4 * THREADS_M>(a, &sA[now][k][4 * threadIdx.y]);
      read4<TN, 4 * THREADS_N>(b, &sB[now][k][4 * threadIdx.x]);
#pragma unroll
      for (int m = 0; m < TM; ++m)
#pragma unroll
        for (int n = 0; n < TN; ++n) sum[m][n] += a[m] * b[n];
    }
    tileA.put_transposed(sA[now ^ 1], thread);
    tileB.put(sB[now ^ 1], thread);
    __syncthreads();  // the next tiles are complete, and nobody reads these any more
  }

#pragma unroll
  for (int m = 0; m < TM; ++m)
#pragma unroll
    for (int n = 0; n < TN; ++n) {
      const int row = row0 + (m / 4 * THREADS_M + threadIdx.y) * 4 + m % 4;
      const int col = col0 + (n / 4 * THREADS_N + threadIdx.x) * 4 + n % 4;
      if (row < M && col < N) store(&C[size_t(row) * ldc + col], alpha, sum[m][n], beta);
    }
}
