/*---
title: FP8
idea: operands of 8 bits take half of the bytes and half of the instructions for the same K
label: operands of 8 bits
builds_on: 35_half_multicast
parameters: {BM: 128, BN: 256, STAGES: 4, SLOTS: 2, HIGH: 8, TURN: 1, CM: 2, CN: 1}
configurations:
  - {HIGH: [4, 8]}
  - {BM: 64, BN: 128, STAGES: 8}
  - {BN: 128, STAGES: 6}
  - {BN: 192}
  - {BM: 192, BN: 192, SLOTS: 1, CM: 1, CN: 2}
  - {CM: 1}
  - {BM: 64, BN: 128, STAGES: 6, CM: 1}
  - {BN: 128, STAGES: 6, CM: 1}
  - {BN: 192, CM: 1}
  - {BM: 192, BN: 128, STAGES: 5, SLOTS: 1, CM: 1}
element_types: [float8_e4m3, float8_e4m3_float16]
layouts: [nt]
batch: true
precision: fast_accum
where:
  tiles: batch * ceil_div(M, CM * BM) * ceil_div(N, CN * BN)
block: ["2 * BM + (128 if BM > 64 else 32)"]
grid: ["CM * CN * min(tiles, sm_count // (CM * CN))"]
dynamic_shared: STAGES * ((BM + BN) * 128 + 16) + BM // 64 * SLOTS * 8192
tensor_maps:
  - {of: A, box: [128, BM // CN], swizzle: 128}
  - {of: B, box: [128, BN // CM], swizzle: 128}
  - {of: C, box: [64, 64], swizzle: 128}
requires: [BM == 64 or BM == 128 or BM == 192, BM < 192 or BN <= 192, BN == 128 or BN == 192 or BN == 256, STAGES >= 2 and 64 * STAGES >= BN, SLOTS >= 1, HIGH >= 1, CM * CN <= 2]
architecture: sm_90a
global_reads: batch * K * (M * ceil_div(N, CN * BN) + N * ceil_div(M, CM * BM))
global_writes: batch * M * N
---*/
// The tensor cores multiply elements of 8 bits at twice the rate of 16 bits, and a step along K, 128 bytes of a row, has 128 of K. All else is as
// in rungs 34 (CM and CN 1) and 35: ring, tiles, late stores, multicast. Only the matrix instruction is another, and it has no bit for operands
// across K: both lie along it, in the layout nt. C has elements of 16 bits.
//
// What holds it back: the sums. The tensor cores add the products of 8 bits with 14 significant bits and cut off the rest.

struct Traits {
  static constexpr bool SWAPPED = false, PING_PONG = false, LIGHT = false;
};
#include "half_tiles.cuh"

extern "C" __global__ void __cluster_dims__(CM * CN, 1, 1) __launch_bounds__(CONSUMERS + FILLING, BLOCKS_PER_SM)
    gemm(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, Out* __restrict__ C,
         int ldc, BATCH_PARAMETER const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
         const __grid_constant__ TensorMap c_map) {
  extern __shared__ __align__(1024) uint8_t shared[];
  Ring<CM, CN> ring(shared, AT_BARRIERS, a_map, b_map, c_map);
  multiply_tiles<Tiles<CM, CN>>(ring, M, N, K, alpha, beta, C, ldc, BATCH_ARGUMENT, a_map, b_map, c_map);
}
