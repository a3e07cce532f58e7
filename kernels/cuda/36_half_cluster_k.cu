/*---
title: Half precision, K shared in a cluster
idea: where C has few tiles, the blocks of a cluster share out K of one tile, and each adds up a part of all their sums
builds_on: 32_half_wide_tile
made_for: "256x256x16384"
parameters: {BM: 128, BN: 128, STAGES: 5, SLICES: 4, CM: 1, CN: 1}
configurations:
  - {BM: 64, BN: 64, STAGES: 8, SLICES: [2, 4, 6]}
  - {BM: 64, BN: 64, STAGES: 6, SLICES: 8}
  - {BM: 64, BN: 64, STAGES: 8, SLICES: 2, CM: 2, CN: 2}
  - {BM: 64, BN: 64, STAGES: 8, SLICES: 2, CM: 4}
  - {BM: 64, BN: 128, STAGES: 8, SLICES: 4}
  - {BM: 64, BN: 128, STAGES: 7, SLICES: 8}
  - {BM: 64, BN: 192, STAGES: 6, SLICES: 3}
  - {BN: 64, STAGES: 7, SLICES: 8}
  - {BN: 64, STAGES: 8, SLICES: 1, CN: 2}
  - {BN: 64, STAGES: 8, SLICES: 1, CM: 4}
  - {SLICES: [3, 4]}
  - {BN: 192, SLICES: 2, CN: 2}
  - {BN: 256, STAGES: 4, SLICES: 1, CM: 2}
  - {BN: 256, STAGES: 4, SLICES: 1, CN: 2}
element_types: [bfloat16, float16]
layouts: [nn, nt, tn, tt]
batch: true
block: ["2 * BM + (128 if BM > 64 else 32)"]
grid: ["CM * CN * SLICES * ceil_div(M, CM * BM)", "ceil_div(N, CN * BN)", batch]
dynamic_shared: max(STAGES * (BM + BN) * 128, 2 * (SLICES - 1) * ceil_div(BN // 8, SLICES) * BM * 32) + STAGES * 16 + 8
tensor_maps:
  - {of: A, box: [64, (64 if TRANS_A else BM) // CN], swizzle: 128}
  - {of: B, box: [64, (BN if TRANS_B else 64) // CM], swizzle: 128}
requires: [BM == 64 or BM == 128, BN == 64 or BN == 128 or BN == 192 or BN == 256, STAGES >= 2, SLICES >= 1, CM == 1 or CM == 2 or CM == 4, CN == 1 or CN == 2, CM * CN * SLICES <= 8]
architecture: sm_90a
global_reads: batch * K * (M * ceil_div(N, CN * BN) + N * ceil_div(M, CM * BM))
global_writes: batch * M * N
---*/
// Where C has few tiles and K is long, most SMs would idle. Here the blocks of a cluster have the same tile, and each takes every SLICES-th
// step along K. At the end a block writes its sums to where the ring was. It sends every other block the part that this one is to
// add up, with bulk copies from its shared memory to theirs, which report at a barrier there (half_slices.cuh). So each sum is added up
// by one block, always in the same order. What comes takes the place of the ring, too, once all blocks of the cluster are done with theirs.
//
// A cluster may also have CM tiles above each other, whose slices share the columns of B (rung 35), and CN beside each other, which share the rows
// of A. So less comes from the L2, which pays most where rows do not begin at multiples of 128 bytes: there a row of a box lies in two lines of
// the L2. With one slice a cluster does only that, for a C whose tiles all run at once.
//
// What holds it back: a cluster must find all its SMs within one group of SMs, and the sums travel once.

struct Traits {
  static constexpr bool SWAPPED = false, PING_PONG = false, LIGHT = false;
};
#include "half_leave.cuh"
#include "half_slices.cuh"

extern "C" __global__ void __cluster_dims__(CM * CN * SLICES, 1, 1) __launch_bounds__(CONSUMERS + FILLING, BLOCKS_PER_SM)
    gemm(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, T* __restrict__ C,
         int ldc, BATCH_PARAMETER const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map) {
  extern __shared__ __align__(1024) uint8_t shared[];
  C += (BATCH ? blockIdx.z : 0) * (BATCH_ARGUMENT).stride_c;
  multiply_slices<CM, CN>(shared, M, N, K, alpha, beta, C, ldc, a_map, b_map, [&](float (&sum)[BN / 2], int group, int row, int column) {
    leave_by_rows(sum, shared + group * STRIP, STAGE, C, ldc, row + group * 64, column, M, N, alpha, beta);
  });
}
