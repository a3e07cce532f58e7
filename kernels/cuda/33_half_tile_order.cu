/*---
title: Half precision, order of tiles
idea: a block does one tile after another, in an order in which blocks share what the L2 holds, and brings the next while C leaves
parameters: {BM: 128, BN: 256, STAGES: 4, SLOTS: 2, HIGH: 8, TURN: 1}
configurations:
  - {BN: 128, STAGES: 6}
  - {BN: 192, STAGES: 4}
  - {HIGH: [4, 8, 16]}
element_types: [bfloat16, float16]
layouts: [nn, nt, tn, tt]
where:
  tiles: ceil_div(M, BM) * ceil_div(N, BN)
block: ["2 * BM + (128 if BM > 64 else 32)"]
grid: ["min(tiles, sm_count)"]
dynamic_shared: STAGES * ((BM + BN) * 128 + 16) + BM // 64 * SLOTS * 8192
tensor_maps:
  - {of: A, box: [64, 64 if TRANS_A else BM], swizzle: 128}
  - {of: B, box: [64, BN if TRANS_B else 64], swizzle: 128}
  - {of: C, box: [64, 64], swizzle: 128}
requires: [BM == 64 or BM == 128 or BM == 192, BN == 128 or BN == 192 or BN == 256, BM < 192 or BN <= 192, STAGES >= 2 and 64 * STAGES >= BN, SLOTS >= 1, HIGH >= 1]
architecture: sm_90a
global_reads: K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: M * N
---*/
// There are as many blocks as SMs, and each does one tile after another. So a block begins once: the filling thread runs ahead into the
// next tile while the last products of this one are under way, and while C leaves: now by boxes of a map, from slots of its own in shared
// memory, of which one thread does no more than start the stores. If C's rows are not whole pieces of 16 bytes, a
// thread stores its own sums.
//
// The tiles are in an order, too. Those that are done at the same time shall share rows of A and columns of B, so that the L2 serves
// most copies. They go down HIGH tiles before they go right, and back left in the next band. With TURN, a block goes along K
// forward in one tile and backward in the next: it begins with what all have just used (half_tiles.cuh).
//
// What holds it back: while a tile's sums are rounded and written to the slots, the tensor cores have nothing to do.

struct Traits {
  static constexpr bool SWAPPED = false, PING_PONG = false, LIGHT = false;
};
#include "half_tiles.cuh"

extern "C" __global__ void __launch_bounds__(CONSUMERS + FILLING, BLOCKS_PER_SM)
    gemm(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, T* __restrict__ C,
         int ldc, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
         const __grid_constant__ TensorMap c_map) {
  extern __shared__ __align__(1024) uint8_t shared[];
  Ring<> ring(shared, AT_BARRIERS, a_map, b_map, c_map);
  Work work;
  if (is_filler()) {
    registers_of_producer();
    Tiles<> tiles(M, N, steps_of(K, alpha));
    if (is_copier())
      while (tiles.next(work))
        for (int step = 0; step < work.steps; ++step) ring.fill(a_map, b_map, work.row, work.column, work.k(step));
  } else {
    registers_of_consumer();
    Tiles<> tiles(M, N, steps_of(K, alpha));
    const int group = ring.group;
    float sum[BN / 2];
    Leaving leaving(c_map, C, ldc, N, beta, ring.memory + AT_SLOTS + group * SLOTS * STRIP, STRIP);
    while (tiles.next(work)) {
      for (int step = 0; step < work.steps; ++step) ring.multiply_step(sum, step);
      ring.finish(sum, work.steps);
      leaving.take(sum, C, ldc, work.row + group * 64, work.column, M, N, alpha, beta);
      leaving.put_all<SLOTS>();
    }
    leaving.end();
  }
}
