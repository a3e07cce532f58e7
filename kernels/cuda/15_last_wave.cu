/*---
title: The last wave shared out
idea: the tiles that would leave SMs idle in the last wave are cut along K into equal shares for all SMs, and a second launch adds what was cut
label: Stream-K last wave
builds_on: 13_snake_order
parameters: {BM: 128, BN: 256, BK: 8, TM: 16, TN: 8, STAGES: 6, SPREAD: 20, LEAD: 1, B_FIRST: 1, SPLIT: 3, CHUNK: 0, IDLE: 0}
configurations:
  - {STAGES: 6, SPREAD: 20, LEAD: 1, B_FIRST: 1, SPLIT: 3}
  - {STAGES: 4, SPREAD: 20, LEAD: 3, B_FIRST: 0, SPLIT: 0}
  - {BM: 64, TM: 8, STAGES: 4, SPREAD: 4, LEAD: 0, B_FIRST: 1, SPLIT: 0, CHUNK: 256, IDLE: 4}
  - {BN: 128, TM: 8, STAGES: 5, SPREAD: 20, LEAD: 3, B_FIRST: 1, SPLIT: 3, CHUNK: 256}
where:
  tiles: ceil_div(M, BM) * ceil_div(N, BN)
  wave: max(1, sm_count - IDLE)
  rest: tiles % wave  # tiles that do not fill a wave
  parts: wave + rest - 1 if rest > 0 else 0  # at most as many are they cut into
  share: tiles / wave / ceil_div(tiles, wave)  # of a tile, a block's on average
layouts: [nn, nt, tn, tt]
block: [BM * BN // (TM * TN)]
grid: [wave, "ceil_div(tiles, wave)"]
dynamic_shared: max(STAGES * BK * (BM + BN + 4 * (1 - TRANS_A + TRANS_B)), BM * BN if N % 4 + ldc % 4 + alignment % 16 > 0 else 0) * element_size
then:
  - function: reduce
    when: rest > 0
    grid: [wave, "ceil_div(rest * BM * BN, 1024 * wave)"]
    block: [256]
    accesses: [{global_read: 4 * thread, width: 4, per_k: "parts * BM * BN / (256 * wave * ceil_div(rest * BM * BN, 1024 * wave)) / K"}]
workspace: 2 * wave * BM * BN * element_size
requires: [BM % (4 * TM) == 0, BN % (8 * TN) == 0, BK % 8 == 0, BM * BN % (4 * BK * TM * TN) == 0, BK * TM * TN % BN == 0, BM % (TM * TN) == 0, BK * TM * TN % (4 * BM) == 0, STAGES >= 3, LEAD + SPLIT < BK, CHUNK >= 0, CHUNK % BK == 0, ((TM + TN) // 4 - 1) * SPREAD < TM * TN, STAGES * BK * (BM + BN + 4 * (1 - TRANS_A + TRANS_B)) <= 58000, BM * BN == 256 * TM * TN, BM * BN % 1024 == 0]
needs: [TRANS_A or BM * lda < 2 ** 31, not TRANS_B or BN * ldb < 2 ** 31]
compute_capability: 8.0
global_reads: K * (M * ceil_div(N, BN) + N * ceil_div(M, BM)) + parts * BM * BN
global_writes: M * N + parts * BM * BN
accesses:
  - {global_read: thread % 8 + thread % 32 // 8 * lda, per_k: TM * TN / BN * share}
  - {global_read: thread // (BN // 4) * ldb + thread % (BN // 4) * 4, width: 4, per_k: TM * TN / BM * share}
  - {shared_write: thread % 8 * (BM + 4) + thread % 32 // 8, per_k: TM * TN / BN * share}
  - {shared_write: 4 * thread, width: 4, per_k: TM * TN / BM * share}
  - {shared_read: thread // 2 % 4 * 4, width: 4, per_k: TM * share}
  - {shared_read: (thread % 32 // 8 * 2 + thread % 2) * 4, width: 4, per_k: TN * share}
---*/
// 2048 tiles on 132 SMs are 15 waves, and a sixteenth in which half of the SMs idle. Here a row of the grid is a wave, as wide as the device
// has SMs. The tiles that do not fill one come first: they are cut along K, all of them laid end to end into equal shares, one for each
// block of the first row (Osama et al., "Stream-K", PPoPP 2023). A share may begin or end within a tile: that part of the sums goes to the
// workspace, and a second launch adds the parts, always in the same order. No block waits for another, so any width of the grid is right,
// whatever runs at the same time; that of the device is fast, or a little less (IDLE), where few tiles then have equally many
// shares.
//
// Long sums have large errors. Tiles of few rows are for a deep K, which cuBLAS cuts into more and shorter sums; there a thread has registers
// for two tiles of sums, so that one can hold the sums of chunks of K.
//
// What holds it back: the parts are written and read once, which is little beside a long K, and the second launch takes some microseconds. In NT and
// TT, B is transposed on its way too, an element a copy in place of four (docs/ladder/layouts.md).

#include "snake.cuh"

using Block = BlockTile<BM, BN, BK, TM, TN, 1, STAGES, SPREAD, LEAD, B_FIRST, SPLIT, CHUNK>;
constexpr int PART = BM * BN;

// Who does what. Work is counted in steps of BK, tile of C after tile of C; the first `tiles` of them are shared out.
struct Shares {
  long long tiles, steps, dealt, blocks;  // tiles to share out; steps of a tile; steps to share out; blocks that get some
  __device__ __forceinline__ Shares(int M, int N, int K) {
    tiles = (M + BM - 1) / BM * ((N + BN - 1) / BN) % gridDim.x;
    steps = (K + BK - 1) / BK;
    dealt = tiles * steps;
    blocks = min((long long)gridDim.x, dealt);
  }
  // The first step of a block, which is the end of the block before it.
  __device__ __forceinline__ long long begin(int block) const { return dealt * min((long long)block, blocks) / blocks; }
  // The block that has a step.
  __device__ __forceinline__ int owner(long long step) const { return int(((step + 1) * blocks - 1) / dealt); }
};

// A tile that a block does alone goes to C, a part of a tile to a place of the block's own in the workspace: the first one for a tile
// that it does not begin, the second for one that it begins and does not finish.
template <bool WIDE>
__device__ __forceinline__ void share(int M, int N, int K, T alpha, const T* A, int lda, const T* B, int ldb, T beta, T* C, int ldc,
                                      Acc* workspace) {
  extern __shared__ __align__(128) T ring[];
  const Shares shares(M, N, K);
  long long step, end;
  if (shares.tiles > 0 && blockIdx.y == 0) {
    step = shares.begin(blockIdx.x), end = shares.begin(blockIdx.x + 1);
  } else {  // a whole tile
    step = shares.dealt + ((blockIdx.y - (shares.tiles > 0)) * gridDim.x + blockIdx.x) * shares.steps;
    end = step + shares.steps;
  }
  while (step < end) {
    const int index = int(step / shares.steps), k0 = int(step % shares.steps), k1 = int(min(shares.steps, k0 + end - step));
    const bool whole = k1 - k0 == shares.steps;
    const Corner<BM, BN> at(index, M, N);
    Block block;
    block.accumulate<WIDE>(ring, M, N, A, lda, B, ldb, at.row, at.col, k0 * BK, alpha == 0 ? k0 * BK : min(K, k1 * BK));
    T* to = whole ? &C[size_t(at.row) * ldc + at.col] : &workspace[size_t(2 * blockIdx.x + (k0 == 0)) * PART];
    const int ld = whole ? ldc : BN, rows = whole ? M - at.row : BM, cols = whole ? N - at.col : BN;
    block.put(ring, to, ld, rows, cols, alpha, whole ? beta : T(0), whole ? wide(C, ldc, N) : true);
    step += k1 - k0;
  }
}

extern "C" __global__ void __launch_bounds__(Block::THREADS, 1)
    gemm(int M, int N, int K, T alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, T beta,
         T* __restrict__ C, int ldc, Acc* __restrict__ workspace) {
  if ((!TRANS_A || wide(A, lda, M)) && (TRANS_B || wide(B, ldb, N)))
    share<true>(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc, workspace);
  else
    share<false>(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc, workspace);
}

// C <- the parts of a tile in the order of K, + beta*C, 1024 elements a block. The grid is as wide as the first one.
extern "C" __global__ void __launch_bounds__(256)
    reduce(int M, int N, int K, T alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, T beta,
           T* __restrict__ C, int ldc, const Acc* __restrict__ workspace) {
  const Shares shares(M, N, K);
  const int index = blockIdx.y * gridDim.x + blockIdx.x, tile = index / (PART / 1024);
  if (tile >= shares.tiles) return;
  const int first = shares.owner(tile * shares.steps), last = shares.owner((tile + 1) * shares.steps - 1);
  if (first == last) return;  // one block did the tile alone
  const int i = index % (PART / 1024) * 1024 + threadIdx.x * 4;
  const Acc* part = workspace + size_t(2 * first) * PART + i;
  float total[4] = {};
  Block::add4(total, part + PART);
#pragma unroll 16
  for (int block = 1; block <= last - first; ++block) Block::add4(total, part + size_t(2 * block) * PART);
  const Corner<BM, BN> at(tile, M, N);
  const int row = at.row + i / BN, col = at.col + i % BN;
  store4(&C[size_t(row) * ldc + col], 1, total, beta, row < M ? N - col : 0, wide(C, ldc, N));
}
