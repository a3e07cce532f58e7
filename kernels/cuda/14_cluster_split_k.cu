/*---
title: Split K within a cluster
idea: the slices of K go to the warps of a block and to the blocks of a cluster, which add them up in shared memory, so that there is neither a workspace nor a second launch
label: split-K in a cluster
parameters: {BM: 128, BN: 128, BK: 16, TM: 16, TN: 8, GROUPS: 2, SLICES: 2, STAGES: 5, SPREAD: 24, LEAD: 1, B_FIRST: 0, SPLIT: 0}
configurations:
  - {BM: 16, BN: 64, BK: 32, TM: 4, TN: 4, STAGES: 5, SPREAD: 8, LEAD: 3, B_FIRST: 0}
  - {BM: 32, BN: 128, BK: 16, TM: 4, TN: 8, STAGES: 5, SPREAD: 8, LEAD: 4, B_FIRST: 1}
  - {BM: 64, BN: 256, BK: 16, STAGES: 4, SPREAD: 12, LEAD: 2, B_FIRST: 1, SPLIT: 2}
  - {BM: 64, BN: 256, BK: 8, TM: 8, GROUPS: 1, STAGES: 4, SPREAD: 4, LEAD: 4, B_FIRST: 1}
  - {STAGES: 4, SPREAD: 20, LEAD: 4, B_FIRST: 1, SPLIT: 3}
block: [BM * BN // (TM * TN) * GROUPS]
grid: ["ceil_div(N, BN)", "ceil_div(M, BM)", SLICES]
dynamic_shared: max(STAGES * BK * (BM + 4 + BN), GROUPS * BM * BN) * element_size
requires: [GROUPS >= 1, BM % (4 * TM) == 0, BN % (8 * TN) == 0, BK % 8 == 0, BK % (2 * GROUPS) == 0, BM * BN * GROUPS % (4 * BK * TM * TN) == 0, BK * TM * TN % (BN * GROUPS) == 0, BM * GROUPS % (TM * TN) == 0, BK * TM * TN % (4 * BM * GROUPS) == 0, STAGES >= 3, LEAD + SPLIT < BK // GROUPS, ((TM + TN) // 4 - 1) * SPREAD < TM * TN, STAGES * BK * (BM + 4 + BN) <= 58000, GROUPS * BM * BN <= 58000, SLICES >= 1, SLICES <= 8, BM * BN % (4 * SLICES) == 0, BM * BN * GROUPS >= 128 * TM * TN, BM * BN * GROUPS <= 256 * TM * TN]
needs: [BM * lda < 2 ** 31]
compute_capability: 9.0
global_reads: K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: M * N
accesses:
  - {global_read: thread % 8 + thread % 32 // 8 * lda, per_k: TM * TN / BN / GROUPS / SLICES}
  - {global_read: thread // (BN // 4) * ldb + thread % (BN // 4) * 4, width: 4, per_k: TM * TN / BM / GROUPS / SLICES}
  - {shared_write: thread % 8 * (BM + 4) + thread % 32 // 8, per_k: TM * TN / BN / GROUPS / SLICES}
  - {shared_write: 4 * thread, width: 4, per_k: TM * TN / BM / GROUPS / SLICES}
  - {shared_read: thread // 2 % 4 * 4, width: 4, per_k: TM / GROUPS / SLICES}
  - {shared_read: (thread % 32 // 8 * 2 + thread % 2) * 4, width: 4, per_k: TN / GROUPS / SLICES}
---*/
// Rung 11 cuts K into slices, which costs a workspace and a second launch. Here a slice goes to each block of a cluster: blocks that run at
// the same time, close to each other, and can read each other's shared memory (compute capability 9.0). Within a block, the warps
// form GROUPS groups, each of which sums its own share of every BK: so a small tile of C has enough warps, each with a large tile of sums.
// At the end all partial sums of a tile lie in the cluster's shared memory, and each block adds up a share of the elements, in a
// fixed order.
//
// What holds it back: a cluster must find all its SMs within one of the device's groups of SMs, so wide clusters leave some idle. A deep K and
// a C of a few tiles want more slices than a cluster can have.

#include "cluster.cuh"
#include "snake.cuh"

using Block = BlockTile<BM, BN, BK, TM, TN, GROUPS, STAGES, SPREAD, LEAD, B_FIRST, SPLIT>;

template <bool WIDE>
__device__ __forceinline__ void slice_of_tile(int M, int N, int K, T alpha, const T* A, int lda, const T* B, int ldb, T beta, T* C,
                                              int ldc) {
  extern __shared__ __align__(128) T ring[];
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, slice = blockIdx.z;
  // Slices are whole tiles long; the last ones may be short, or empty: then their sums are zeros.
  const int length = ((K + SLICES - 1) / SLICES + BK - 1) / BK * BK;
  const int begin = min(slice * length, K), end = min(begin + length, K);
  Block block;
  block.accumulate<WIDE>(ring, M, N, A, lda, B, ldb, row0, col0, begin, alpha == 0 ? begin : end);
  block.put_own(ring + block.group * BM * BN, BN, BM, BN, alpha, 0, true);

  cluster_sync();
  // Each block of the cluster adds up its share of the tile's elements, always in the same order.
  const bool vector = wide(C, ldc, N);
#pragma unroll 2
  for (int i = slice * (BM * BN / SLICES) + 4 * threadIdx.x; i < (slice + 1) * (BM * BN / SLICES); i += 4 * Block::THREADS) {
    float total[4] = {};
#pragma unroll
    for (int part = 0; part < SLICES * GROUPS; ++part)
      Block::add4(total, shared_of(ring, part / GROUPS) + part % GROUPS * BM * BN + i);
    const int row = row0 + i / BN, col = col0 + i % BN;
    store4(&C[size_t(row) * ldc + col], 1, total, beta, row < M ? N - col : 0, vector);
  }
  cluster_sync();  // no block leaves while another reads its shared memory
}

extern "C" __global__ void __cluster_dims__(1, 1, SLICES) __launch_bounds__(Block::THREADS, 1)
    gemm(int M, int N, int K, T alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, T beta,
         T* __restrict__ C, int ldc) {
  if (wide(B, ldb, N))
    slice_of_tile<true>(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
  else
    slice_of_tile<false>(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
}
