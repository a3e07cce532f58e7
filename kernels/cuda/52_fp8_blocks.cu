/*---
title: FP8, scales of blocks
idea: each step along K has scales of its own for rows of A and blocks of B, by which the threads multiply its sums as they add them
label: scales of blocks
parameters: {BM: 128, BN: 128, STAGES: 6, SLOTS: 2, HIGH: 8, TURN: 1, PIECE: 128, CM: 2, CN: 1}
configurations:
  - {HIGH: [4, 8]}
  - {BM: 64, STAGES: 8, PIECE: 64}
  - {BN: 192, STAGES: 4, PIECE: 32}
  - {BN: 256, STAGES: 4, PIECE: 64}
  - {BM: 192, BN: 128, STAGES: 5, SLOTS: 1, PIECE: 64}
  - {CM: 1}
  - {BM: 64, STAGES: 6, PIECE: 64, CM: 1}
  - {BM: 64, BN: 64, STAGES: 8, PIECE: 64, CM: 1}
  - {BN: 256, STAGES: 4, PIECE: 64, CM: 1}
element_types: [float8_e4m3_blocks]
layouts: [nt]
where:
  tiles: ceil_div(M, CM * BM) * ceil_div(N, CN * BN)
block: ["2 * BM + (128 if BM > 64 else 32)"]
grid: ["CM * CN * min(tiles, sm_count * (2 if BM == 64 else 1) // (CM * CN))"]
dynamic_shared: STAGES * ((BM + BN) * 128 + 16) + BM // 64 * SLOTS * 8192
tensor_maps:
  - {of: A, box: [128, BM // CN], swizzle: 128}
  - {of: B, box: [128, BN // CM], swizzle: 128}
  - {of: C, box: [64, 64], swizzle: 128}
requires: [BM == 64 or BM == 128 or BM == 192, BM < 192 or BN <= 128, BN == 64 or BN == 128 or BN == 192 or BN == 256, STAGES >= 2 and 64 * STAGES >= BN, SLOTS >= 1, HIGH >= 1, CM * CN <= 2, BN % PIECE == 0, 128 % PIECE == 0, BN // PIECE == 1 or BN // PIECE % 2 == 0]
architecture: sm_90a
global_reads: K * (M * ceil_div(N, CN * BN) + N * ceil_div(M, CM * BM))
global_writes: M * N
---*/
// Elements of 8 bits have few exponents, so matrices are scaled. With one scale for a matrix, its largest element makes the others small. Here a row
// of A has a scale for each 128 of K, and B for each 128 columns and 128 of K, numbers in float32.
//
// 128 of K are a step of rung 51, whose sums the threads add anyway. Here they multiply and add, which is one instruction, too. A thread loads the
// scales of its two rows, and that of a piece's columns, when the piece is started, and needs them one piece later.
//
// What holds it back: as in rung 51, registers. A piece lies in one block of columns, so its width divides 128.

struct Traits {
  static constexpr bool SWAPPED = false, PING_PONG = false, LIGHT = false;
};
#include "half_promoted_tiles.cuh"

extern "C" __global__ void __cluster_dims__(CM * CN, 1, 1) __launch_bounds__(CONSUMERS + FILLING, BLOCKS_PER_SM)
    gemm(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, Out* __restrict__ C,
         int ldc, const float* __restrict__ scales_a, const float* __restrict__ scales_b, const __grid_constant__ TensorMap a_map,
         const __grid_constant__ TensorMap b_map, const __grid_constant__ TensorMap c_map) {
  extern __shared__ __align__(1024) uint8_t shared[];
  Ring<CM, CN> ring(shared, AT_BARRIERS, a_map, b_map, c_map);
  const BlockScales scales{scales_a, scales_b, M, N, (K + 511) / 512 * 4};
  multiply_tiles_promoted<Tiles<CM, CN>>(ring, M, N, K, alpha, beta, C, ldc, BATCH_ARGUMENT, a_map, b_map, c_map, scales);
}
