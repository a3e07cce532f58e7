/*---
title: Snake order
idea: multiply-adds in an order in which each shares one factor with the one before it, so that registers are read no faster than the register file allows
label: register-bank order
parameters: {BM: 128, BN: 256, BK: 8, TM: 16, TN: 8, STAGES: 7, SPREAD: 4, LEAD: 2, B_FIRST: 0, SPLIT: 0}
configurations:
  - {STAGES: 7, SPREAD: 4, LEAD: 2, B_FIRST: 0}
  - {BN: 128, TM: 8, STAGES: 5, SPREAD: 4, LEAD: 6, B_FIRST: 1}
layouts: [nn, nt, tn, tt]
block: [BM * BN // (TM * TN)]
grid: ["ceil_div(M, BM) * ceil_div(N, BN)"]
dynamic_shared: max(STAGES * BK * (BM + BN + 4 * (1 - TRANS_A + TRANS_B)), BM * BN if N % 4 + ldc % 4 + alignment % 16 > 0 else 0) * element_size
requires: [BM % (4 * TM) == 0, BN % (8 * TN) == 0, BK % 8 == 0, BM * BN % (4 * BK * TM * TN) == 0, BK * TM * TN % BN == 0, BM % (TM * TN) == 0, BK * TM * TN % (4 * BM) == 0, STAGES >= 3, LEAD + SPLIT < BK, ((TM + TN) // 4 - 1) * SPREAD < TM * TN, STAGES * BK * (BM + BN + 4 * (1 - TRANS_A + TRANS_B)) <= 58000, BM * BN == 256 * TM * TN, BM * BN <= 32768]
needs: [TRANS_A or BM * lda < 2 ** 31, not TRANS_B or BN * ldb < 2 ** 31]
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
// A multiply-add reads three registers. The register file of compute capability 9.0 has two banks, the even and the odd registers, and
// each gives one register (of all 32 lanes) a clock to a quarter of the SM. So a multiply-add a clock is possible only where one of
// the three is the same register, in the same place, as in the instruction before, which the hardware then has at hand, and the
// other two lie in different banks. The plain order, along the rows of the thread's tile, reads a sum and both factors anew where a row
// begins. Here the way through the tile is that of a snake (`snake.cuh`): along one line, back along the next. Every multiply-add
// shares a factor with the one before, and the compiler finds registers for the rest.
//
// Nothing in the loop over K asks where the matrices end, or branches. SPREAD, LEAD, B_FIRST and SPLIT change neither what is computed nor
// how much is moved, only when; they are swept because the compiler makes better or worse code of one or the other.
//
// What holds it back: one block for each tile of 128 x 256 leaves SMs idle where there are few tiles, or a few more than SMs. The next
// three rungs are three answers. Within the loop, what is left are the shared loads, whose results are written to the same banks. In NT and TT, B is
// transposed on its way too, an element a copy in place of four (docs/ladder/layouts.md).

#include "snake.cuh"

using Block = BlockTile<BM, BN, BK, TM, TN, 1, STAGES, SPREAD, LEAD, B_FIRST, SPLIT>;
constexpr int BLOCKS_PER_SM = 32768 / (BM * BN);

template <bool WIDE>
__device__ __forceinline__ void whole_tile(int M, int N, int K, T alpha, const T* A, int lda, const T* B, int ldb, T beta, T* C, int ldc) {
  extern __shared__ __align__(128) T ring[];
  const Corner<BM, BN> at(blockIdx.x, M, N);
  Block block;
  block.accumulate<WIDE>(ring, M, N, A, lda, B, ldb, at.row, at.col, 0, alpha == 0 ? 0 : K);
  block.put(ring, &C[size_t(at.row) * ldc + at.col], ldc, M - at.row, N - at.col, alpha, beta, wide(C, ldc, N));
}

extern "C" __global__ void __launch_bounds__(Block::THREADS, BLOCKS_PER_SM)
    gemm(int M, int N, int K, T alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, T beta,
         T* __restrict__ C, int ldc) {
  if ((!TRANS_A || wide(A, lda, M)) && (TRANS_B || wide(B, ldb, N)))
    whole_tile<true>(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
  else
    whole_tile<false>(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
}
