/*---
title: Half precision, one wave
idea: a tile of just the height or width with which all tiles of C run at once, and the blocks of a cluster share operands, or K, or both
builds_on: 40_half_fitted_tile
made_for: "512"
parameters: {BM: 48, BN: 128, SLICES: 1, CM: 1, CN: 1, EXCHANGED: 1}
configurations:
  [{BN: 64, BM: [32, 48, 64, 80, 96, 128]}, {BN: 64, BM: [16, 32], SLICES: 2}, {BN: 64, BM: [32, 96, 208], SLICES: 4},
   {BN: 64, BM: [48, 96], SLICES: 6}, {BN: 64, BM: [32, 64, 112, 128], SLICES: 8}, {BN: 64, BM: [32, 64], CN: 2},
   {BN: 64, BM: 64, SLICES: 4, CN: 2}, {BN: 64, BM: 128, CN: 2}, {BN: 64, BM: 32, CN: 4}, {BN: 64, BM: [64, 208], CM: 2},
   {BN: 64, BM: 64, SLICES: 2, CM: 2}, {BN: 64, BM: [64, 80, 96, 112], SLICES: 4, CM: 2}, {BN: 64, BM: [32, 48, 96, 112, 128], CM: 4},
   {BN: 64, BM: 96, SLICES: 2, CM: 4}, {BM: 48}, {BM: [48, 96], SLICES: 3}, {BM: 16, SLICES: 4}, {BM: 32, SLICES: 6}, {BM: [16, 32], CN: 2},
   {BM: [48, 64, 128], SLICES: 2, CN: 2}, {BM: [112, 128], SLICES: 4, CN: 2}, {BM: [96, 144], SLICES: 2, CM: 2},
   {BM: [48, 64], SLICES: 4, CM: 2}, {BM: [80, 96], CM: 4}, {BM: [48, 64, 80], SLICES: 2, CM: 4},
   {BN: 192, BM: 16, SLICES: 2}, {BN: 192, BM: 96, SLICES: 4}, {BN: 192, BM: 48, CM: 2}, {BN: 192, BM: [64, 96], SLICES: 4, CM: 2},
   {BN: 192, BM: 64, CM: 4},
   {EXCHANGED: 0, BM: 64, BN: 80, SLICES: 4, CM: 2}, {EXCHANGED: 0, BM: 64, BN: [48, 96, 224]}, {EXCHANGED: 0, BM: 64, BN: [96, 128], CM: 2},
   {EXCHANGED: 0, BM: 64, BN: 16, SLICES: 6}, {EXCHANGED: 0, BM: 64, BN: 80, SLICES: 5}, {EXCHANGED: 0, BM: 64, BN: [32, 96], SLICES: 8},
   {EXCHANGED: 0, BM: 128, BN: 48, SLICES: 6}, {EXCHANGED: 0, BM: 128, BN: [80, 112], SLICES: 8}]
element_types: [bfloat16, float16]
layouts: [nn, nt, tn, tt]
batch: true
where:
  high: ceil_div(BM, 64) * 64 if TRANS_A else BM  # of op(A) in a stage: whole strips of 64 if its rows run across K
  wide: BN if TRANS_B else ceil_div(BN, 64) * 64  # of op(B), likewise
  side: BN if EXCHANGED else BM  # 64 of it for each warpgroup
  span: BM if EXCHANGED else BN  # the other one
  steps: ceil_div(ceil_div(K, 64), SLICES)
  stages: "min(8, 231424 // ((high + wide) * 128), max(steps, ceil_div(span, 64)))"  # as many as fit, but no more than K fills or sums need
  sums: 2 * (SLICES - 1) * ceil_div(span // 8, SLICES) * side * 32  # bytes that are sent, and that come
block: ["2 * BN + (128 if BN > 64 else 32) if EXCHANGED else 2 * BM + (128 if BM > 64 else 32)"]
grid: ["CM * CN * SLICES * ceil_div(M, CM * BM)", "ceil_div(N, CN * BN)", batch]
dynamic_shared: 1024 + max(stages * (high + wide) * 128, sums)
tensor_maps:
  - {of: A, box: [64, (64 if TRANS_A else BM) // CN], swizzle: 128}
  - {of: B, box: [64, (BN if TRANS_B else 64) // CM], swizzle: 128}
requires:
  - EXCHANGED == 0 or EXCHANGED == 1
  - BM % (16 if EXCHANGED else 64) == 0 and BM >= 16 and BM <= (256 if EXCHANGED else 192)
  - BN % (64 if EXCHANGED else 16) == 0 and BN >= 16 and BN <= (192 if EXCHANGED else 256)
  - (BN if EXCHANGED else BM) < 192 or (BM if EXCHANGED else BN) <= 192
  - CM == 1 or CM == 2 or CM == 4
  - CN == 1 or CN == 2 or CN == 4
  - SLICES >= 1 and CM * CN * SLICES <= 8
  - (SLICES - 1) * ceil_div((BM if EXCHANGED else BN) // 8, SLICES) * (BN if EXCHANGED else BM) * 64 <= 231424
  - EXCHANGED or TRANS_B == 0 or BN // CM % 8 == 0  # the swizzle repeats every eight rows
architecture: sm_90a
global_reads: batch * K * (M * ceil_div(N, CN * BN) + N * ceil_div(M, CM * BM))
global_writes: batch * M * N
---*/
// A block of rung 40 does one tile after another, and finds out at run time how high they are. Where C is so small that all tiles run at once,
// both only take time. Here the height is a parameter as the other sizes are: any multiple of 16, with the operands exchanged as in rung 39. So
// 1000 x 1000 is 128 tiles of 64 columns and 128 rows, for 132 SMs. For a tall and thin C it is the width that should fit: with EXCHANGED = 0 the
// operands stay in place, rows come by 64, and columns by 16. Then 72 columns are one tile of 80.
//
// Where even low tiles are too few, the blocks of a cluster share out K of one tile, as in rung 36. Two or four of them may share operands, as in
// rung 35, so that less comes from the L2: most where rows begin at no multiple of 128 bytes. The sums pass through the ring on their way to C,
// and are transposed there if the operands are exchanged, so that whole lines leave. Stages that a short K never fills get no shared memory: then
// several blocks with one warpgroup are on an SM, and one begins while another ends.
//
// What holds it back: if K is long, nobody else is at work on the SM while a block begins, and while it ends. In TN and TT, A comes in strips of
// 64 rows (docs/ladder/layouts.md), and in NN and TN B in strips of 64 columns: a smaller tile copies more than it needs.

#include "half_operand.cuh"

constexpr int STAGE_BYTES = Operand<BM, TRANS_A>::BYTES + Operand<BN, !TRANS_B>::BYTES;
constexpr int BEFORE = 1024;  // bytes before the ring, for barriers
constexpr int STAGES = (232448 - BEFORE) / STAGE_BYTES < 8 ? (232448 - BEFORE) / STAGE_BYTES : 8;

struct Traits {
  static constexpr bool SWAPPED = EXCHANGED, PING_PONG = false, LIGHT = false;
};
#include "half_leave.cuh"
#include "half_slices.cuh"

static_assert(STAGES * 64 >= SPAN, "all sums have room in the ring");

template <class Sums>
__device__ __forceinline__ void leave(Sums& sum, uint8_t* ring, int group, T* C, int ldc, int row, int column, int M, int N, float alpha, float beta) {
  if constexpr (EXCHANGED)
    leave_by_columns(sum, ring + A_BYTES + group * STRIP, STAGE, C, ldc, row, column + group * 64, M, N, alpha, beta);
  else
    leave_by_rows(sum, ring + group * STRIP, STAGE, C, ldc, row + group * 64, column, M, N, alpha, beta);
}

extern "C" __global__ void __cluster_dims__(CM * CN * SLICES, 1, 1) __launch_bounds__(CONSUMERS + FILLING, BLOCKS_PER_SM)
    gemm(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, T* __restrict__ C,
         int ldc, BATCH_PARAMETER const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map) {
  extern __shared__ __align__(1024) uint8_t shared[];
  C += (BATCH ? blockIdx.z : 0) * (BATCH_ARGUMENT).stride_c;
  uint8_t* const ring = shared + BEFORE;
  multiply_slices<CM, CN, -BEFORE>(ring, M, N, K, alpha, beta, C, ldc, a_map, b_map, [&](float (&sum)[SPAN / 2], int group, int row, int column) {
    leave(sum, ring, group, C, ldc, row, column, M, N, alpha, beta);
  });
}
