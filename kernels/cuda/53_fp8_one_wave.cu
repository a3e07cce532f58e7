/*---
title: FP8, one wave
idea: a tile of just the height with which all tiles of C run at once, and sums promoted to FP32 while the next step is multiplied
label: one wave
builds_on: 51_fp8_promoted
parameters: {BM: 48, BN: 128, SLICES: 1, CM: 1, CN: 1}
configurations:
  [{BN: 64, BM: [16, 32, 64, 96]}, {BN: 64, BM: 16, SLICES: 2}, {BN: 64, BM: 32, SLICES: 4}, {BN: 64, BM: [48, 96], SLICES: 6},
   {BN: 64, BM: 16, SLICES: 7}, {BN: 64, BM: [16, 32, 64], SLICES: 8}, {BN: 64, BM: [32, 64], CN: 2}, {BN: 64, BM: [16, 128], SLICES: 3, CN: 2},
   {BN: 64, BM: [32, 64, 96], SLICES: 4, CN: 2}, {BN: 64, BM: [32, 64, 128], CN: 4}, {BN: 64, BM: [64, 128], SLICES: 2, CN: 4},
   {BN: 64, BM: [16, 32, 48], SLICES: 4, CM: 2}, {BN: 64, BM: [32, 48], CM: 4}, {BN: 64, BM: [48, 64], SLICES: 2, CM: 4},
   {BM: 48}, {BM: 16, SLICES: 4}, {BM: 96, CN: 4}, {BM: [48, 128], CM: 4}, {BM: [32, 48], SLICES: 2, CM: 4},
   {BN: 192, BM: [48, 96], CM: 2}, {BN: 192, BM: 64, SLICES: 4, CM: 2}, {BN: 192, BM: 64, CM: 4}]
element_types: [float8_e4m3, float8_e4m3_float16]
layouts: [nt]
batch: true
where:
  stages: "min(8, 232440 // ((BM + BN) * 128 + 16))"  # as many as fit
  sums: 2 * (SLICES - 1) * ceil_div(BM // 8, SLICES) * BN * 32  # bytes that are sent, and that come
block: ["2 * BN + (128 if BN > 64 else 32)"]
grid: ["CM * CN * SLICES * ceil_div(M, CM * BM)", "ceil_div(N, CN * BN)", batch]
dynamic_shared: max(stages * (BM + BN) * 128, sums) + stages * 16 + 8
tensor_maps:
  - {of: A, box: [128, BM // CN], swizzle: 128}
  - {of: B, box: [128, BN // CM], swizzle: 128}
requires:
  - BM % 16 == 0 and BM >= 16 and BM <= 128
  - BN == 64 or BN == 128 or BN == 192
  - BN == 128 or BM != 112
  - CM == 1 or CM == 2 or CM == 4
  - CN == 1 or CN == 2 or CN == 4
  - BM // CN % 8 == 0
  - SLICES >= 1 and CM * CN * SLICES <= 8
architecture: sm_90a
global_reads: batch * K * (M * ceil_div(N, CN * BN) + N * ceil_div(M, CM * BM))
global_writes: batch * M * N
---*/
// Rung 51's tiles have 64 rows or more and 64 columns or more, so a C of few rows has few of them, and a long K is multiplied by few SMs. Here the
// operands change places, as in rung 42: a tile's height is any multiple of 16, all tiles run at once, and the blocks of a cluster share operands,
// or K, or both.
//
// A step is still 128 of K, and its sums are promoted as in rung 51: they have two places in turn. The blocks of a cluster add up their sums in
// FP32. So the error is that of rung 51.
//
// What holds it back: registers. Sums and two places for those of a step limit the height to 128, and a high tile has pieces of half of its rows.

#include "half_operand.cuh"

constexpr int STAGE_BYTES = (BM + BN) * 128;
constexpr int STAGES = 232440 / (STAGE_BYTES + 16) < 8 ? 232440 / (STAGE_BYTES + 16) : 8;
constexpr int PIECE = BN != 128 && BM > 80 ? BM / 2 : BM;  // rows that are multiplied together

struct Traits {
  static constexpr bool SWAPPED = true, PING_PONG = false, LIGHT = false;
};
#include "half_leave.cuh"
#include "half_promoted.cuh"
#include "half_slices.cuh"

static_assert(STAGES * 64 >= BM, "all sums have room in the ring");

extern "C" __global__ void __cluster_dims__(CM * CN * SLICES, 1, 1) __launch_bounds__(CONSUMERS + FILLING, BLOCKS_PER_SM)
    gemm(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, Out* __restrict__ C,
         int ldc, BATCH_PARAMETER const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map) {
  extern __shared__ __align__(1024) uint8_t shared[];
  C += (BATCH ? blockIdx.z : 0) * (BATCH_ARGUMENT).stride_c;
  const auto store = [&](float (&sum)[BM / 2], int group, int row, int column) {
    leave_by_columns(sum, shared + A_BYTES + group * STRIP, STAGE, C, ldc, row, column + group * 64, M, N, alpha, beta);
  };
  multiply_slices<CM, CN>(shared, M, N, K, alpha, beta, C, ldc, a_map, b_map, store, [](auto& ring, float (&sum)[BM / 2], int steps) {
    Unscaled scales;
    if (steps > 0) {
      multiply_promoted(ring, sum, steps, 0, scales, [] {});
    } else {
#pragma unroll
      for (int i = 0; i < BM / 2; ++i) sum[i] = 0;
    }
  });
}
