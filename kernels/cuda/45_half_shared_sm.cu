/*---
title: Half precision, several blocks an SM
idea: blocks with few stages and few registers share an SM, so that some begin or end while others multiply
label: several blocks an SM
builds_on: 42_half_one_wave
parameters: {BM: 64, BN: 64, STAGES: 2}
configurations:
  - {BM: [32, 48, 64, 80, 96, 112, 128], STAGES: [2, 4]}
  - {BN: 128, BM: [48, 64, 80, 96, 112, 128], STAGES: [2, 4]}
element_types: [bfloat16, float16]
layouts: [nn, nt, tn, tt]
batch: true
where:
  high: ceil_div(BM, 64) * 64 if TRANS_A else BM  # of op(A) in a stage: whole strips of 64 if its rows run across K
block: ["2 * BN + 32"]
grid: ["ceil_div(M, BM)", "ceil_div(N, BN)", batch]
dynamic_shared: STAGES * ((high + BN) * 128 + 16)
tensor_maps:
  - {of: A, box: [64, 64 if TRANS_A else BM], swizzle: 128}
  - {of: B, box: [64, BN if TRANS_B else 64], swizzle: 128}
requires: [BM % 16 == 0 and BM >= 16 and BM <= 128, BN == 64 or BN == 128, STAGES >= 2 and STAGES <= 4]
architecture: sm_90a
global_reads: batch * K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: batch * M * N
---*/
// A batch of small products has many tiles with few steps along K. A block of rung 42 has up to eight stages, where two warpgroups multiply has
// an SM to itself, and most of the time is at its beginning or its end. Here a block has few stages, and one warp fills the ring in place of a
// warpgroup that hands over its registers. So several blocks are on an SM, and while one waits for its first box or its sums leave, the others
// multiply.
//
// What holds it back: every block begins anew, with barriers to set up and maps to fetch, where a block of rung 34 goes on to its next tile. With long
// K, so few stages do not hide the way from the L2.

#include "half_operand.cuh"

struct Traits {
  static constexpr bool SWAPPED = true, PING_PONG = false, LIGHT = true;
};
#include "half_leave.cuh"

static_assert(STAGES * 64 >= BM, "all sums have room in the ring");

extern "C" __global__ void __launch_bounds__(CONSUMERS + FILLING, BLOCKS_PER_SM)
    gemm(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, T* __restrict__ C,
         int ldc, BATCH_PARAMETER const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map) {
  extern __shared__ __align__(1024) uint8_t shared[];
  Ring<> ring(shared, RING, a_map, b_map);
  const int z = BATCH ? blockIdx.z : 0, row = blockIdx.x * BM, column = blockIdx.y * BN, steps = steps_of(K, alpha);
  if (is_filler()) {
    if (is_copier())
      for (int step = 0; step < steps; ++step) ring.fill(a_map, b_map, row, column, step * DEPTH, z);
    return;
  }
  float sum[BM / 2];
  for (int step = 0; step < steps; ++step) ring.multiply_step(sum, step);
  ring.finish(sum, steps);
  leave_by_columns(sum, shared + A_BYTES + ring.group * STRIP, STAGE, C + z * (BATCH_ARGUMENT).stride_c, ldc, row, column + ring.group * 64, M, N,
                   alpha, beta);
}
