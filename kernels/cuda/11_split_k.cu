/*---
title: Split K
idea: K is cut into slices that different blocks sum up side by side, and a second launch adds the slices, so that a thin C keeps the whole device busy
label: split-K
parameters: {BM: 128, BN: 128, BK: 8, TM: 8, TN: 8, SLICES: 8}
sweep: {BM: [64, 128], BN: [128], SLICES: [2, 8]}
configurations:
  - {BM: 64, BN: 128, BK: 8, TM: 8, TN: 8, SLICES: 4}
  - {BM: 128, BN: 128, BK: 8, TM: 8, TN: 8, SLICES: 32}
block: [BM * BN / (TM * TN)]
grid: ["ceil_div(N, BN)", "ceil_div(M, BM)", SLICES]
then:
  - {function: reduce, block: [256], grid: ["ceil_div(M * N, 256)"], accesses: [{global_read: thread, per_k: SLICES / K}]}
workspace: SLICES * M * N * element_size
requires: [SLICES >= 1, BM % (4 * TM) == 0, BN % (8 * TN) == 0, BK * TM * TN % (4 * BM) == 0, BK * TM * TN % (4 * BN) == 0, 2 * BK * (BM + 4 + BN) <= 12288, BM * BN <= 32768]
global_reads: K * (M * ceil_div(N, BN) + N * ceil_div(M, BM)) + SLICES * M * N
global_writes: (SLICES + 1) * M * N
accesses:
  - {global_read: thread // (BK // 4) * lda + thread % (BK // 4) * 4, width: 4, per_k: TM * TN / BN / SLICES}
  - {global_read: thread // (BN // 4) * ldb + thread % (BN // 4) * 4, width: 4, per_k: TM * TN / BM / SLICES}
  - {shared_write: thread % (BK // 4) * 4 * (BM + 4) + thread // (BK // 4), per_k: TM * TN / BN / SLICES}
  - {shared_write: 4 * thread, width: 4, per_k: TM * TN / BM / SLICES}
  - {shared_read: (thread % 32 // 16 * 2 + thread % 2) * 4, width: 4, per_k: TM / SLICES}
  - {shared_read: thread // 2 % 8 * 4, width: 4, per_k: TN / SLICES}
---*/
// The rung below has one block for each tile of C. A C of 256 x 256 has four tiles of 128 x 128, and so four busy SMs,
// however long K is. Here a third dimension of the grid cuts K: block (x, y, z) sums slice z of its tile and writes the partial sums to
// its own place in a workspace. A second launch adds the slices of each element, always in the same order, so that
// the result is the same at every run (atomic additions to C would need no workspace, but their order changes).
//
// What holds it back: the workspace is written and read once, 2*SLICES*M*N elements more than the rung below moves. It pays
// where K is long and C is small, and costs where C alone fills the device.

#include "tile.cuh"

constexpr int THREADS = BM * BN / (TM * TN);
constexpr int WM = 4 * TM, WN = 8 * TN;  // the tile of a warp
constexpr int PAD = 4;                   // as in rung 08
constexpr int BLOCKS_PER_SM = 32768 / (BM * BN);

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    gemm(int M, int N, int K, T alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, T beta,
         T* __restrict__ C, int ldc, Acc* __restrict__ workspace) {
  alignas(16) __shared__ T sA[2][BK][BM + PAD];
  alignas(16) __shared__ T sB[2][BK][BN];
  const bool vector = vectorizable(M, N, K, A, lda, B, ldb, workspace, N);
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int row = warp / (BN / WN) * WM + (lane / 16 * 2 + lane % 2) * 4;
  const int col = warp % (BN / WN) * WN + lane / 2 % 8 * 4;
  // Slices are whole tiles long; the last ones may be short, or empty: then their sums are zeros.
  const int length = ((K + SLICES - 1) / SLICES + BK - 1) / BK * BK;
  const int begin = min(int(blockIdx.z) * length, K), end = min(begin + length, K);

  Tile<BM, BK, THREADS> tileA;
  Tile<BK, BN, THREADS> tileB;
  tileA.load(A, lda, row0, begin, M, end, thread, vector);
  tileB.load(B, ldb, begin, col0, end, N, thread, vector);
  tileA.put_transposed(sA[0], thread);
  tileB.put(sB[0], thread);
  __syncthreads();

  float sum[TM][TN] = {}, a[2][TM], b[2][TN];
  read4<TM, 16>(a[0], &sA[0][0][row]);
  read4<TN, 32>(b[0], &sB[0][0][col]);
  int now = 0;  // the buffer that is computed on; the other one is filled
  for (int k0 = begin; k0 < end && alpha != 0; k0 += BK) {
    tileA.load(A, lda, row0, k0 + BK, M, end, thread, vector);
    tileB.load(B, ldb, k0 + BK, col0, end, N, thread, vector);
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      if (k == BK - 1) {  // every fragment of this tile has been read: on to the next, whose first are loaded below
        now ^= 1;
        tileA.put_transposed(sA[now], thread);
        tileB.put(sB[now], thread);
        __syncthreads();
      }
      read4<TM, 16>(a[(k + 1) % 2], &sA[now][(k + 1) % BK][row]);
      read4<TN, 32>(b[(k + 1) % 2], &sB[now][(k + 1) % BK][col]);
#pragma unroll
      for (int m = 0; m < TM; ++m)
#pragma unroll
        for (int n = 0; n < TN; ++n) sum[m][n] += a[k % 2][m] * b[k % 2][n];
    }
  }

  Acc* slice = workspace + size_t(blockIdx.z) * M * N;
#pragma unroll
  for (int m = 0; m < TM; ++m) {
    const int r = row0 + row + m / 4 * 16 + m % 4;
#pragma unroll
    for (int n = 0; n < TN; n += 4) {
      const int c = col0 + col + n / 4 * 32;
      store4(&slice[size_t(r) * N + c], 1, &sum[m][n], 0, r < M ? N - c : 0, vector);
    }
  }
}

// C <- alpha * (the sum of the slices) + beta * C, one thread for each element.
extern "C" __global__ void __launch_bounds__(256)
    reduce(int M, int N, int K, T alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, T beta,
           T* __restrict__ C, int ldc, const Acc* __restrict__ workspace) {
  const size_t i = size_t(blockIdx.x) * 256 + threadIdx.x, elements = size_t(M) * N;
  if (i >= elements) return;
  Acc sum = 0;
  for (int slice = 0; slice < SLICES; ++slice) sum += workspace[slice * elements + i];
  store(&C[i / N * ldc + i % N], alpha, sum, beta);
}
