/*---
title: Asynchronous copies
idea: tiles go from global to shared memory without passing through registers, several of them on the way at once, into a ring of stages
label: cp.async pipeline
builds_on: 10_block_tile_128
parameters: {BM: 128, BN: 128, BK: 8, TM: 8, TN: 8, STAGES: 4}
configurations: [{STAGES: 3}, {STAGES: 4}, {BN: 256, TM: 16}, {BM: 64}]
layouts: [nn, nt, tn, tt]
block: [BM * BN // (TM * TN)]
grid: ["ceil_div(N, BN)", "ceil_div(M, BM)"]
dynamic_shared: STAGES * BK * (BM + BN + 4 * (1 - TRANS_A + TRANS_B)) * element_size
requires: [STAGES >= 2, BM % (4 * TM) == 0, BN % (8 * TN) == 0, BK % 2 == 0, BM * BN % (BK * TM * TN) == 0, BK * TM * TN % BN == 0, BM * 4 % (TM * TN) == 0, BK * TM * TN % (4 * BM) == 0, not TRANS_A or BK * TM * TN % (4 * BN) == 0, BM * BN <= 32768]
compute_capability: 8.0
global_reads: K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: M * N
accesses:
  - {global_read: thread // BK * lda + thread % BK, per_k: TM * TN / BN}
  - {global_read: thread // (BN // 4) * ldb + thread % (BN // 4) * 4, width: 4, per_k: TM * TN / BM}
  - {shared_write: thread % BK * (BM + 4) + thread // BK, per_k: TM * TN / BN}
  - {shared_write: 4 * thread, width: 4, per_k: TM * TN / BM}
  - {shared_read: (thread % 32 // 16 * 2 + thread % 2) * 4, width: 4, per_k: TM}
  - {shared_read: thread // 2 % 8 * 4, width: 4, per_k: TN}
---*/
// In rung 10 a tile waits in registers between its load and its store to shared memory, and only one is on its way at a time. From compute
// capability 8.0 on, a copy from global to shared memory passes by the registers, and the thread that starts it goes on at once. So
// shared memory is a ring of STAGES tiles: while one is computed on, the others arrive. The registers that held a tile, and the
// instructions that stored it, are gone.
//
// A is still transposed on the way: each copy moves one element of it to its place. B comes in copies of four. A copy that is told to
// read nothing writes zeros, so the edges of the matrices need no code of their own.
//
// What holds it back: a multiply-add reads three registers, more than the register file gives in a clock unless one of them was read just
// before. Rung 13 puts the multiply-adds in an order in which that is so. In NT and TT, B is transposed on its way too, an element a copy in place
// of four (docs/ladder/layouts.md).

#include "async.cuh"
#include "vector.cuh"

constexpr int THREADS = BM * BN / (TM * TN);
constexpr int WM = 4 * TM, WN = 8 * TN;  // the tile of a warp
constexpr int WIDTH_A = TRANS_A ? BM : BM + 4, WIDTH_B = TRANS_B ? BN + 4 : BN;  // what is transposed on the way is padded as in rung 08
constexpr int STAGE = 4 * BK * (WIDTH_A + WIDTH_B);                              // bytes
constexpr int BLOCKS_PER_SM = 32768 / (BM * BN);

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    gemm(int M, int N, int K, T alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, T beta,
         T* __restrict__ C, int ldc) {
  extern __shared__ __align__(16) T ring[];
  const bool vector = vectorizable(M, N, K, A, lda, B, ldb, C, ldc);
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int row = warp / (BN / WN) * WM + (lane / 16 * 2 + lane % 2) * 4;
  const int col = warp % (BN / WN) * WN + lane / 2 % 8 * 4;

  // What the thread copies of each tile: K-major, every ROWS-th element of a column, MN-major, of every ROWS-th row four elements.
  constexpr int ROWS_A = THREADS / (TRANS_A ? BM / 4 : BK), ROWS_B = THREADS / (TRANS_B ? BK : BN / 4);
  const int ka = TRANS_A ? thread / (BM / 4) : thread % BK, ra = row0 + (TRANS_A ? thread % (BM / 4) * 4 : thread / BK);
  const int kb = TRANS_B ? thread % BK : thread / (BN / 4), cb = col0 + (TRANS_B ? thread / BK : thread % (BN / 4) * 4);
  const unsigned to_a = shared_address(&ring[TRANS_A ? 4 * thread : ka * WIDTH_A + thread / BK]);
  const unsigned to_b = shared_address(&ring[BK * WIDTH_A + (TRANS_B ? kb * WIDTH_B + thread / BK : 4 * thread)]);
  const T* from_a = TRANS_A ? A + size_t(ka) * lda + ra : A + size_t(ra) * lda + ka;
  const T* from_b = TRANS_B ? B + size_t(cb) * ldb + kb : B + size_t(kb) * ldb + cb;
  // Four elements of a row that goes on for `left`.
  const auto copy4 = [&](unsigned to, const T* from, int left) {
    if (vector)
      copy_or_zero<4>(to, from, left > 0);
    else
      for (int j = 0; j < 4; ++j) copy_or_zero<1>(to + j * 4, from + j, left > j);
  };
  // Begins the copies of the next tiles into the stage at byte `stage` of the ring, zeros where the matrices end: after `left` k.
  const auto copy = [&](unsigned stage, int left) {
#pragma unroll
    for (int i = 0; i < (TRANS_A ? BK : BM); i += ROWS_A)
      if (TRANS_A)
        copy4(to_a + stage + i * BM * 4, from_a + size_t(i) * lda, ka + i < left ? M - ra : 0);
      else
        copy_or_zero<1>(to_a + stage + i * 4, from_a + size_t(i) * lda, ra + i < M && ka < left);
#pragma unroll
    for (int i = 0; i < (TRANS_B ? BN : BK); i += ROWS_B)
      if (TRANS_B)
        copy_or_zero<1>(to_b + stage + i * 4, from_b + size_t(i) * ldb, cb + i < N && kb < left);
      else
        copy4(to_b + stage + i * BN * 4, from_b + size_t(i) * ldb, kb + i < left ? N - cb : 0);
    from_a += TRANS_A ? size_t(BK) * lda : BK, from_b += TRANS_B ? BK : size_t(BK) * ldb;
    commit();
  };

  for (int stage = 0; stage < STAGES - 1; ++stage) copy(stage * STAGE, K - stage * BK);
  wait<STAGES - 2>();
  __syncthreads();

  float sum[TM][TN] = {}, a[2][TM], b[2][TN];
  read4<TM, 16>(a[0], &ring[row]);
  read4<TN, 32>(b[0], &ring[BK * WIDTH_A + col]);
  unsigned now = 0, free = (STAGES - 1) * STAGE;  // the stage that is computed on, and the one that the next copies go to
  for (int k0 = 0; k0 < K && alpha != 0; k0 += BK) {
    copy(free, K - k0 - (STAGES - 1) * BK);
    free = now;
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      if (k == BK - 1) {  // every fragment of this tile has been read: on to the next, whose first are loaded below
        now = now == (STAGES - 1) * STAGE ? 0 : now + STAGE;
        wait<STAGES - 2>();  // the thread's own copies of it are there,
        __syncthreads();     // and now everyone's; and everyone has left the stage that is filled next
      }
      read4<TM, 16>(a[(k + 1) % 2], ring + now / 4 + (k + 1) % BK * WIDTH_A + row);
      read4<TN, 32>(b[(k + 1) % 2], ring + now / 4 + BK * WIDTH_A + (k + 1) % BK * WIDTH_B + col);
#pragma unroll
      for (int m = 0; m < TM; ++m)
#pragma unroll
        for (int n = 0; n < TN; ++n) sum[m][n] += a[k % 2][m] * b[k % 2][n];
    }
  }

#pragma unroll
  for (int m = 0; m < TM; ++m) {
    const int r = row0 + row + m / 4 * 16 + m % 4;
#pragma unroll
    for (int n = 0; n < TN; n += 4) {
      const int c = col0 + col + n / 4 * 32;
      store4(&C[size_t(r) * ldc + c], alpha, &sum[m][n], beta, r < M ? N - c : 0, vector);
    }
  }
}
