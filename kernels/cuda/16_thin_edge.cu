/*---
title: Thin tiles at the edge
idea: the few rows of C below the last full tiles are computed in tiles of 16 rows, which take a fraction of the time of a full one
label: thin edge tiles
builds_on: 13_snake_order
parameters: {BM: 128, BN: 256, BK: 8, TM: 16, TN: 8, STAGES: 5, SPREAD: 16, LEAD: 1, B_FIRST: 1, SPLIT: 3, THIN: 32, THIN_STAGES: 8}
block: [BM * BN // (TM * TN)]
grid: ["ceil_div(N, BN) * (M // BM + (ceil_div(M % BM, 16) if M % BM <= THIN else 1))"]
dynamic_shared: max(STAGES * BK * (BM + 4 + BN), BM * BN if N % 4 + ldc % 4 + alignment % 16 > 0 else 0, 2 * BM // (TM * TN) * max(THIN_STAGES * 8 * (16 + 4 + BN), 16 * BN)) * element_size
requires: [BM % (4 * TM) == 0, BN % (8 * TN) == 0, BK % 8 == 0, BM * BN % (4 * BK * TM * TN) == 0, BK * TM * TN % BN == 0, BM % (TM * TN) == 0, BK * TM * TN % (4 * BM) == 0, STAGES >= 3, LEAD + SPLIT < BK, ((TM + TN) // 4 - 1) * SPREAD < TM * TN, STAGES * BK * (BM + 4 + BN) <= 58000, BM * BN == 256 * TM * TN, BN % 64 == 0, THIN_STAGES >= 3, 2 * BM % (TM * TN) == 0]
needs: [BM * lda < 2 ** 31]
compute_capability: 8.0
global_reads: K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: M * N
accesses:
  - {global_read: thread % 8 + thread % 32 // 8 * lda, per_k: TM * TN / BN}
  - {global_read: thread // (BN // 4) * ldb + thread % (BN // 4) * 4, width: 4, per_k: TM * TN / BM}
  - {shared_write: thread % 8 * (BM + 4) + thread % 32 // 8, per_k: TM * TN / BN}
  - {shared_write: 4 * thread, width: 4, per_k: TM * TN / BM}
  - {shared_read: thread // 2 % 4 * 4, width: 4, per_k: TM}
  - {shared_read: (thread % 32 // 8 * 2 + thread % 2) * 4, width: 4, per_k: TN}
---*/
// A C of 2049 rows has 17 rows of tiles of 128, of which the last holds one row of C and takes as long as any. Where at most THIN rows are
// left over, they are done in tiles of 16 rows by other blocks of the same launch: a second kind of tile, of as many threads, whose
// warps share out K between them as in rung 14. Those blocks come last, on SMs that the full tiles leave idle.
//
// What holds it back: the columns at the edge have no such tiles. And an odd leading dimension still makes every copy of B one element.

#include "snake.cuh"

constexpr int THIN_GROUPS = BM * 2 / (TM * TN);  // a thin tile is 16 x BN, BN/64 warps, as many groups of them as the block has
using Block = BlockTile<BM, BN, BK, TM, TN, 1, STAGES, SPREAD, LEAD, B_FIRST, SPLIT>;
using Thin = BlockTile<16, BN, 8 * THIN_GROUPS, 4, 8, THIN_GROUPS, THIN_STAGES, 8, 4, 1, 0>;
static_assert(Block::THREADS == Thin::THREADS, "both kinds of tile for the same block");

// The tile of C at (row, col), of a matrix that ends at `rows`.
template <class Kind, bool WIDE>
__device__ __forceinline__ void tile(int rows, int N, int K, T alpha, const T* A, int lda, const T* B, int ldb, T beta, T* C, int ldc,
                                     int row, int col) {
  extern __shared__ __align__(128) T ring[];
  Kind block;
  block.template accumulate<WIDE>(ring, rows, N, A, lda, B, ldb, row, col, 0, alpha == 0 ? 0 : K);
  block.put(ring, &C[size_t(row) * ldc + col], ldc, rows - row, N - col, alpha, beta, wide(C, ldc, N));
}

extern "C" __global__ void __launch_bounds__(Block::THREADS, 1)
    gemm(int M, int N, int K, T alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, T beta,
         T* __restrict__ C, int ldc) {
  const int edge = M % BM <= THIN ? M / BM * BM : M;  // the first row that thin tiles do
  const int tiles_n = (N + BN - 1) / BN, full = (edge + BM - 1) / BM * tiles_n, index = blockIdx.x;
  if (index >= full) {
    const int row = edge + (index - full) / tiles_n * 16, col = (index - full) % tiles_n * BN;
    if (wide(B, ldb, N))
      tile<Thin, true>(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc, row, col);
    else
      tile<Thin, false>(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc, row, col);
  } else {
    const Corner<BM, BN> at(index, edge, N);
    if (wide(B, ldb, N))
      tile<Block, true>(edge, N, K, alpha, A, lda, B, ldb, beta, C, ldc, at.row, at.col);
    else
      tile<Block, false>(edge, N, K, alpha, A, lda, B, ldb, beta, C, ldc, at.row, at.col);
  }
}
