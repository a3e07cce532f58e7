/*---
title: Vectorized loads
idea: loads of four elements; A is transposed on its way to shared memory, so that a thread's elements of A are adjacent
label: float4 loads
parameters: {BM: 64, BN: 64, BK: 16, TM: 4, TN: 4}
configurations:
  - {BM: 128, BN: 128, BK: 16, TM: 8, TN: 8}
  - {BM: 64, BN: 128, BK: 16, TM: 8, TN: 4}
  - {BM: 64, BN: 64, BK: 16, TM: 4, TN: 4}
  - {BM: 64, BN: 64, BK: 8, TM: 8, TN: 8}
layouts: [nn, nt, tn, tt]
block: [BN / TN, BM / TM]
grid: ["ceil_div(N, BN)", "ceil_div(M, BM)"]
requires: [TM % 4 == 0, TN % 4 == 0, BK % 4 == 0, BK * TM * TN % (4 * BM) == 0, BK * TM * TN % (4 * BN) == 0, BK * (BM + BN) <= 12288]
global_reads: K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: M * N
accesses:
  - {global_read: thread // (BM // 4) * lda + thread % (BM // 4) * 4 if TRANS_A else thread // (BK // 4) * lda + thread % (BK // 4) * 4, width: 4, per_k: TM * TN / BN}
  - {global_read: thread // (BK // 4) * ldb + thread % (BK // 4) * 4 if TRANS_B else thread // (BN // 4) * ldb + thread % (BN // 4) * 4, width: 4, per_k: TM * TN / BM}
  - {shared_write: 4 * thread if TRANS_A else thread % (BK // 4) * 4 * BM + thread // (BK // 4), width: 4 if TRANS_A else 1, per_k: TM * TN / BN}
  - {shared_write: thread % (BK // 4) * 4 * BN + thread // (BK // 4) if TRANS_B else 4 * thread, width: 1 if TRANS_B else 4, per_k: TM * TN / BM}
  - {shared_read: 4 * y, width: 4, per_k: TM}
  - {shared_read: 4 * x, width: 4, per_k: TN}
---*/
// A float4 moves four elements with one instruction and one address. Rows of B can be read so as they are. Of A a thread needs
// adjacent elements of a column, which lie lda apart. So the tile of A is read along its rows, four elements at a time, and stored
// transposed in shared memory.
//
// The rows and columns of a thread come in groups of four, each read by one 128-bit load from shared memory. The hardware serves such
// a load for eight threads at a time. Eight adjacent groups of four cover all 32 banks once.
//
// In each configuration every thread moves the same number of float4, so that the copy loops unroll and all loads are in flight at
// once. If a row does not begin on a 16-byte boundary, the same code runs with `VECTOR` false, one element at a time.
//
// What holds it back: all threads still wait for global memory twice a tile. And storing a row of A as a column sends the threads
// of a warp to a few banks. In NT and TT, B is stored transposed too, an element at a time (docs/ladder/layouts.md).

#include "vector.cuh"

constexpr int THREADS_M = BM / TM, THREADS_N = BN / TN, THREADS = THREADS_M * THREADS_N;

// Moves SIZE rows of op(A), or columns of op(B), by BK of K, to where K runs down: from `first` of `count` and from k0 on, zeros beyond the ends.
// MN-major, they lie across K in memory, too. K-major, they are transposed on the way.
template <int SIZE, bool MN_MAJOR>
__device__ __forceinline__ void move(T (&tile)[BK][SIZE], const T* from, int ld, int first, int count, int k0, int K, int thread, bool vector) {
#pragma unroll
  for (int start = 0; start < SIZE * BK / 4; start += THREADS) {
    const int i = start + thread;
    if (MN_MAJOR) {
      const int k = i / (SIZE / 4), c = i % (SIZE / 4) * 4;
      *reinterpret_cast<float4*>(&tile[k][c]) =
          load4(from + size_t(k0 + k) * ld + first + c, k0 + k < K ? count - first - c : 0, vector);
    } else {
      const int r = i / (BK / 4), k = i % (BK / 4) * 4;
      const float4 v = load4(from + size_t(first + r) * ld + k0 + k, first + r < count ? K - k0 - k : 0, vector);
      tile[k][r] = v.x, tile[k + 1][r] = v.y, tile[k + 2][r] = v.z, tile[k + 3][r] = v.w;
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    gemm(int M, int N, int K, T alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, T beta,
         T* __restrict__ C, int ldc) {
  alignas(16) __shared__ T sA[BK][BM];
  alignas(16) __shared__ T sB[BK][BN];
  const bool vector = vectorizable(M, N, K, A, lda, B, ldb, C, ldc);
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const int thread = threadIdx.y * THREADS_N + threadIdx.x;

  float sum[TM][TN] = {};
  for (int k0 = 0; k0 < K && alpha != 0; k0 += BK) {
    move<BM, TRANS_A>(sA, A, lda, row0, M, k0, K, thread, vector);
    move<BN, !TRANS_B>(sB, B, ldb, col0, N, k0, K, thread, vector);
    __syncthreads();  // the tiles are complete
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      float a[TM], b[TN];
      read4<TM, 4 * THREADS_M>(a, &sA[k][4 * threadIdx.y]);
      read4<TN, 4 * THREADS_N>(b, &sB[k][4 * threadIdx.x]);
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
      const int row = row0 + (m / 4 * THREADS_M + threadIdx.y) * 4 + m % 4;
      const int col = col0 + (n / 4 * THREADS_N + threadIdx.x) * 4 + n % 4;
      if (row < M && col < N) store(&C[size_t(row) * ldc + col], alpha, sum[m][n], beta);
    }
}
