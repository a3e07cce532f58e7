/*---
title: Half precision, late stores
idea: a tile's sums are rounded to half as many registers at once, and leave for C while the tensor cores are at the next tile
parameters: {BM: 128, BN: 256, STAGES: 4, SLOTS: 2, HIGH: 4, TURN: 1}
configurations:
  - {BN: 128, STAGES: 6}
  - {BN: 192, STAGES: 4}
  - {HIGH: [4, 8, 16]}
element_types: [bfloat16, float16]
layouts: [nn, nt, tn, tt]
batch: true
where:
  tiles: batch * ceil_div(M, BM) * ceil_div(N, BN)
block: ["2 * BM + (128 if BM > 64 else 32)"]
grid: ["min(tiles, sm_count)"]
dynamic_shared: STAGES * ((BM + BN) * 128 + 16) + BM // 64 * SLOTS * 8192
tensor_maps:
  - {of: A, box: [64, 64 if TRANS_A else BM], swizzle: 128}
  - {of: B, box: [64, BN if TRANS_B else 64], swizzle: 128}
  - {of: C, box: [64, 64], swizzle: 128}
requires: [BM == 64 or BM == 128 or BM == 192, BN == 128 or BN == 192 or BN == 256, BM < 192 or BN <= 128, STAGES >= 2 and 64 * STAGES >= BN, SLOTS >= 1, HIGH >= 1]
architecture: sm_90a
global_reads: batch * K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: batch * M * N
---*/
// The next tile needs the registers of the sums. But rounded to pairs they take half as many, and for those there is room: 128 for the sums of
// this tile, 64 for the results of the one before. So a warpgroup rounds them at once, and goes on multiplying. At each of the next tile's
// first steps, while its products are under way, one piece of the tile before leaves for a slot (multiply_tiles in
// half_tiles.cuh). The last tile of a block leaves by the ring, which nobody needs any more, all pieces at once.
//
// What holds it back: the way from the L2 again. Each block brings its own 48 KiB a step.

struct Traits {
  static constexpr bool SWAPPED = false, PING_PONG = false, LIGHT = false;
};
#include "half_tiles.cuh"

extern "C" __global__ void __launch_bounds__(CONSUMERS + FILLING, BLOCKS_PER_SM)
    gemm(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, T* __restrict__ C,
         int ldc, BATCH_PARAMETER const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
         const __grid_constant__ TensorMap c_map) {
  extern __shared__ __align__(1024) uint8_t shared[];
  Ring<> ring(shared, AT_BARRIERS, a_map, b_map, c_map);
  multiply_tiles<Tiles<>>(ring, M, N, K, alpha, beta, C, ldc, BATCH_ARGUMENT, a_map, b_map, c_map);
}
