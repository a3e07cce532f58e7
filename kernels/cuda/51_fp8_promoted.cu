/*---
title: FP8, promoted sums
idea: the tensor cores add up the products of one step only, and the threads add the sums of steps in FP32, two pieces in turn
label: sums in FP32
parameters: {BM: 128, BN: 128, STAGES: 6, SLOTS: 2, HIGH: 8, TURN: 1, PIECE: 128, CM: 2, CN: 1}
configurations:
  - {HIGH: [4, 8]}
  - {BM: 64, STAGES: 8, PIECE: 64}
  - {BN: 192, STAGES: 4, PIECE: 96}
  - {BN: 256, STAGES: 4, PIECE: 64}
  - {BM: 192, BN: 128, STAGES: 5, SLOTS: 1, PIECE: 64}
  - {CM: 1}
  - {BM: 64, STAGES: 6, PIECE: 64, CM: 1}
  - {BM: 64, BN: 64, STAGES: 8, PIECE: 64, CM: 1}
  - {BN: 192, STAGES: 4, PIECE: 96, CM: 1}
  - {BN: 256, STAGES: 4, PIECE: 64, CM: 1}
element_types: [float8_e4m3, float8_e4m3_float16]
layouts: [nt]
batch: true
where:
  tiles: batch * ceil_div(M, CM * BM) * ceil_div(N, CN * BN)
block: ["2 * BM + (128 if BM > 64 else 32)"]
grid: ["CM * CN * min(tiles, sm_count * (2 if BM == 64 else 1) // (CM * CN))"]
dynamic_shared: STAGES * ((BM + BN) * 128 + 16) + BM // 64 * SLOTS * 8192
tensor_maps:
  - {of: A, box: [128, BM // CN], swizzle: 128}
  - {of: B, box: [128, BN // CM], swizzle: 128}
  - {of: C, box: [64, 64], swizzle: 128}
requires: [BM == 64 or BM == 128 or BM == 192, BM < 192 or BN <= 128, BN == 64 or BN == 128 or BN == 192 or BN == 256, STAGES >= 2 and 64 * STAGES >= BN, SLOTS >= 1, HIGH >= 1, CM * CN <= 2, BN % PIECE == 0, BN // PIECE == 1 or BN // PIECE % 2 == 0]
architecture: sm_90a
global_reads: batch * K * (M * ceil_div(N, CN * BN) + N * ceil_div(M, CM * BM))
global_writes: batch * M * N
---*/
// The tensor cores add products of 8 bits with 14 significant bits and cut off the rest. If the products have one sign, all sums become too small,
// the more so the longer K is. Here the tensor cores add up the products of one step, 128 of K, and start at zero again. The threads add
// each step's sums to sums in FP32 (half_promoted.cuh).
//
// They can only read sums that are complete, and meanwhile the tensor cores must have other work. So a warpgroup has two places for the sums of a
// step, and starts the next piece before it waits for the one before. It needs the FP32 sums only when the first piece of the next tile is
// complete. So they leave for C while that piece is multiplied, and rounding them needs no further registers.
//
// What holds it back: registers. FP32 sums and two pieces leave no room for a tile of 128 x 256 with pieces of more than 64 columns.

struct Traits {
  static constexpr bool SWAPPED = false, PING_PONG = false, LIGHT = false;
};
#include "half_promoted_tiles.cuh"

extern "C" __global__ void __cluster_dims__(CM * CN, 1, 1) __launch_bounds__(CONSUMERS + FILLING, BLOCKS_PER_SM)
    gemm(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, Out* __restrict__ C,
         int ldc, BATCH_PARAMETER const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
         const __grid_constant__ TensorMap c_map) {
  extern __shared__ __align__(1024) uint8_t shared[];
  Ring<CM, CN> ring(shared, AT_BARRIERS, a_map, b_map, c_map);
  multiply_tiles_promoted<Tiles<CM, CN>>(ring, M, N, K, alpha, beta, C, ldc, BATCH_ARGUMENT, a_map, b_map, c_map);
}
