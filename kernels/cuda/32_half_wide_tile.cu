/*---
title: Half precision, wide tile
idea: a tile of 128 x 256 needs fewer bytes a product; its sums take most of the registers, and leave for C by whole lines
parameters: {BM: 128, BN: 256, STAGES: 4}
configurations:
  - {BM: 64, BN: 64, STAGES: [3, 4, 8]}
  - {BM: 64, BN: 128, STAGES: [2, 8]}
  - {BM: 64, BN: 192, STAGES: 3}
  - {BM: 64, BN: 256, STAGES: 5}
  - {BM: 128, BN: 64, STAGES: 8}
  - {BM: 128, BN: 128, STAGES: 6}
  - {BM: 128, BN: 256, STAGES: 4}
element_types: [bfloat16, float16]
layouts: [nn, nt, tn, tt]
block: ["2 * BM + (128 if BM > 64 else 32)"]
grid: ["ceil_div(M, BM)", "ceil_div(N, BN)"]
dynamic_shared: STAGES * ((BM + BN) * 128 + 16)
tensor_maps:
  - {of: A, box: [64, 64 if TRANS_A else BM], swizzle: 128}
  - {of: B, box: [64, BN if TRANS_B else 64], swizzle: 128}
requires: [BM == 64 or BM == 128 or BM == 192, BN == 64 or BN == 128 or BN == 192 or BN == 256, BM < 192 or BN <= 192, STAGES >= 2 and 64 * STAGES >= BN]
architecture: sm_90a
global_reads: K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: M * N
---*/
// The larger a tile, the fewer bytes a product: 128 x 256 has 48 KiB for 1024 clocks of multiplying, 128 x 128 has 64 for as many. The sums of
// two warpgroups, 128 registers a thread, need more than an even share of the SM's registers. So the warpgroup that fills the ring gives
// most of its own back, and those that multiply take them.
//
// The sums leave by whole lines. A thread has pairs of neighbors, far apart. So a warpgroup rounds its sums, and writes them to the ring, which
// has done its work, in the order in which a box of C would lie there. From there each warp stores its 16 rows, 128 bytes of each
// at a time (half_leave.cuh).
//
// What holds it back: at the beginning and at the end of a tile the tensor cores wait, for the first box and for C to leave.

struct Traits {
  static constexpr bool SWAPPED = false, PING_PONG = false, LIGHT = false;
};
#include "half_leave.cuh"

extern "C" __global__ void __launch_bounds__(CONSUMERS + FILLING, BLOCKS_PER_SM)
    gemm(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, T* __restrict__ C,
         int ldc, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map) {
  extern __shared__ __align__(1024) uint8_t shared[];
  Ring<> ring(shared, RING, a_map, b_map);
  const int row = blockIdx.x * BM, column = blockIdx.y * BN, steps = steps_of(K, alpha);
  if (is_filler()) {
    registers_of_producer();
    if (is_copier())
      for (int step = 0; step < steps; ++step) ring.fill(a_map, b_map, row, column, step * DEPTH);
  } else {
    registers_of_consumer();
    float sum[BN / 2];
    for (int step = 0; step < steps; ++step) ring.multiply_step(sum, step);
    ring.finish(sum, steps);
    // Piece i takes the place of the warpgroup's rows of A in stage i.
    leave_by_rows(sum, shared + ring.group * STRIP, STAGE, C, ldc, row + ring.group * 64, column, M, N, alpha, beta);
  }
}
