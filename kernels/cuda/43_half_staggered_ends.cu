/*---
title: Half precision, staggered ends
idea: the warpgroups of a block do their last steps one after another, so that the sums of one leave while the next multiplies
builds_on: 40_half_fitted_tile
made_for: "2048"
parameters: {BM: 144, BN: 128, CM: 1, CN: 1, LAST: 3}
configurations:
  [{BM: 96}, {BM: [112, 144, 160, 208], CM: 2}, {BM: [128, 144, 160, 240, 256], CN: 2}, {BM: [112, 144, 160], CM: 2, CN: 2},
   {BN: 192, BM: [96, 128, 144]}, {BN: 192, BM: [96, 112, 128, 144, 176, 192], CM: 2}, {BN: 192, BM: [160, 192], CN: 2}]
element_types: [bfloat16, float16]
layouts: [nn, nt, tn, tt]
batch: true
where:
  high: ceil_div(BM, 64) * 64 if TRANS_A else BM  # of op(A) in a stage: whole strips of 64 if its rows run across K
  stages: "min(8, 232440 // ((high + BN) * 128 + 16))"  # as many as fit
block: ["2 * BN + 128"]
grid: ["CM * CN * ceil_div(M, CM * BM)", "ceil_div(N, CN * BN)", batch]
dynamic_shared: stages * ((high + BN) * 128 + 16)
tensor_maps:
  - {of: A, box: [64, (64 if TRANS_A else BM) // CN], swizzle: 128}
  - {of: B, box: [64, (BN if TRANS_B else 64) // CM], swizzle: 128}
requires:
  - BM % 16 == 0 and BM >= 32 and BM <= 256
  - BN == 128 or BN == 192
  - BN < 192 or BM <= 192
  - CM == 1 or CM == 2 or CM == 4
  - CN == 1 or CN == 2 or CN == 4
  - CM * CN <= 8
  - LAST >= 0 and LAST < min(8, 232440 // (((ceil_div(BM, 64) * 64 if TRANS_A else BM) + BN) * 128 + 16))
architecture: sm_90a
global_reads: batch * K * (M * ceil_div(N, CN * BN) + N * ceil_div(M, CM * BM))
global_writes: batch * M * N
---*/
// At the end of rung 42's tile nothing is multiplied while the sums leave: all SMs write their parts of C at the same time. The warpgroups of a
// block take turns with the tensor cores until then, and come to the end together. Here each waits before its LAST steps, until the one before
// has begun with all of its own. The tensor cores have as much to do as before. But the first warpgroup is done early, and its columns of C are
// on their way while the next multiplies.
//
// What holds it back: the last warpgroup's columns, and the first box, for which the tensor cores wait at the beginning. In TN and TT, A comes in
// strips of 64 rows (docs/ladder/layouts.md): a lower tile copies more than it needs.

#include "half_operand.cuh"

constexpr int STAGE_BYTES = Operand<BM, TRANS_A>::BYTES + Operand<BN, !TRANS_B>::BYTES;
constexpr int STAGES = 232440 / (STAGE_BYTES + 16) < 8 ? 232440 / (STAGE_BYTES + 16) : 8;

struct Traits {
  static constexpr bool SWAPPED = true, PING_PONG = false, LIGHT = false;
};
#include "half_leave.cuh"

static_assert(STAGES * 64 >= BM, "all sums have room in the ring");

extern "C" __global__ void __cluster_dims__(CM * CN, 1, 1) __launch_bounds__(CONSUMERS + FILLING, BLOCKS_PER_SM)
    gemm(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, T* __restrict__ C,
         int ldc, BATCH_PARAMETER const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map) {
  extern __shared__ __align__(1024) uint8_t shared[];
  Ring<CM, CN> ring(shared, RING, a_map, b_map);
  const int row = (blockIdx.x / (CM * CN) * CM + ring.sharing.cm) * BM, column = (blockIdx.y * CN + ring.sharing.cn) * BN;
  const int steps = steps_of(K, alpha);
  C += (BATCH ? blockIdx.z : 0) * (BATCH_ARGUMENT).stride_c;
  if (is_filler()) {
    registers_of_producer();
    if (is_copier()) {
      for (int step = 0; step < steps; ++step) ring.fill(a_map, b_map, row, column, step * DEPTH, BATCH ? blockIdx.z : 0);
      ring.finish_filling();
    }
    return;
  }
  registers_of_consumer();
  float sum[BM / 2];
  const int group = ring.group, together = max(0, steps - LAST);
  for (int s = 0; s < together; ++s) ring.multiply_step(sum, s);
  if (group > 0) some_sync<256>(4 + group);  // until the one before has begun with all of its own
  for (int s = together; s < steps; ++s) ring.multiply_step(sum, s);
  if (group < GROUPS - 1) some_arrive<256>(5 + group);
  ring.finish(sum, steps);
  leave_by_columns(sum, shared + A_BYTES + group * STRIP, STAGE, C, ldc, row, column + group * 64, M, N, alpha, beta);
}
