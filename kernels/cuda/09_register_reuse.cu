/*---
title: Register reuse
idea: fragments of A and B are held in registers twice, so that the shared loads for the next k run behind the multiply-adds of this one; larger tiles
label: fragment prefetch
builds_on: 07_double_buffer
parameters: {BM: 128, BN: 128, BK: 8, TM: 8, TN: 8, PAD: 4}
sweep: {BM: [64, 128], BN: [128], BK: [8], TM: [8], TN: [8], PAD: [0, 4]}
block: [BN / TN, BM / TM]
grid: ["ceil_div(N, BN)", "ceil_div(M, BM)"]
requires: [PAD % 4 == 0, TM % 4 == 0, TN % 4 == 0, BK % 4 == 0, BK * TM * TN % (4 * BM) == 0, BK * TM * TN % (4 * BN) == 0, 2 * BK * (BM + PAD + BN) <= 12288, BM * BN <= 32768]
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
// A thread holds two fragments of A and two of B: while it multiplies the ones for k, those for k + 1 are already on their way
// from shared memory. That goes on across tiles: the barrier and the first shared loads of the next tile come before the last
// multiply-adds of this one. Large tiles now pay: 8 x 8 sums a thread use every value loaded eight times.
//
// What holds it back: with 16 threads along N a warp reads 2*TM values of A and 16*TN of B for each k, more than a squarer
// arrangement of its threads would; and C is written one element at a time.

#include "tile.cuh"

constexpr int THREADS_M = BM / TM, THREADS_N = BN / TN, THREADS = THREADS_M * THREADS_N;
// Half of an SM's 65536 registers hold sums, the other half all else: the compiler shall not use so many that fewer blocks fit.
constexpr int BLOCKS_PER_SM = 32768 / (BM * BN);

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
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

  float sum[TM][TN] = {}, a[2][TM], b[2][TN];
  const int row = 4 * threadIdx.y, col = 4 * threadIdx.x;
  read4<TM, 4 * THREADS_M>(a[0], &sA[0][0][row]);
  read4<TN, 4 * THREADS_N>(b[0], &sB[0][0][col]);
  int now = 0;  // the buffer that is computed on; the other one is filled
  for (int k0 = 0; k0 < K && alpha != 0; k0 += BK) {
    tileA.load(A, lda, row0, k0 + BK, M, K, thread, vector);
    tileB.load(B, ldb, k0 + BK, col0, K, N, thread, vector);
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      if (k == BK - 1) {  // every fragment of this tile has been read: on to the next, whose first are loaded below
        now ^= 1;
        tileA.put_transposed(sA[now], thread);
        tileB.put(sB[now], thread);
        __syncthreads();
      }
      read4<TM, 4 * THREADS_M>(a[(k + 1) % 2], &sA[now][(k + 1) % BK][row]);
      read4<TN, 4 * THREADS_N>(b[(k + 1) % 2], &sB[now][(k + 1) % BK][col]);
#pragma unroll
      for (int m = 0; m < TM; ++m)
#pragma unroll
        for (int n = 0; n < TN; ++n) sum[m][n] += a[k % 2][m] * b[k % 2][n];
    }
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
