/*---
title: Half precision, ring
idea: a warp of its own keeps a ring of stages filled, and the tensor cores go from one to the next without a pause
parameters: {BM: 128, BN: 128, STAGES: 6}
configurations:
  - {BM: 64, BN: 64, STAGES: 8}
  - {BM: 128, BN: 64, STAGES: 8}
  - {BM: 128, BN: 128, STAGES: 6}
element_types: [bfloat16, float16]
layouts: [nn, nt, tn, tt]
block: [2 * BM + 32]
grid: ["ceil_div(M, BM)", "ceil_div(N, BN)"]
dynamic_shared: STAGES * ((BM + BN) * 128 + 16)
tensor_maps:
  - {of: A, box: [64, 64 if TRANS_A else BM], swizzle: 128}
  - {of: B, box: [64, BN if TRANS_B else 64], swizzle: 128}
requires: [BM == 64 or BM == 128, BN == 64 or BN == 128, STAGES >= 2]
architecture: sm_90a
global_reads: K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: M * N
---*/
// Rung 20's ring, with boxes in place of bulk copies: one thread of a warp of its own starts the copies of a step as soon as its stage is
// free, several steps ahead. The multiplying warpgroups wait for a stage to be full, and give it back. Two barriers a stage say which.
// That thread is one that the warp elects, and the number of a warp comes from a shuffle: so the compiler knows what all lanes share (half.cuh).
//
// A warpgroup starts the products of a step before those of the step before are done. So the tensor cores always have the next ones
// at hand, and a stage is given back one step late (half_ring.cuh).
//
// What holds it back: the way from the L2. A step of a 128 x 128 tile brings 32 KiB for 512 clocks of multiplying.

struct Traits {
  static constexpr bool SWAPPED = false, PING_PONG = false, LIGHT = false;
};
#include "half_ring.cuh"

extern "C" __global__ void __launch_bounds__(CONSUMERS + 32, 1)
    gemm(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, T* __restrict__ C,
         int ldc, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map) {
  extern __shared__ __align__(1024) uint8_t shared[];
  Ring<> ring(shared, RING, a_map, b_map);
  const int row = blockIdx.x * BM, column = blockIdx.y * BN, steps = steps_of(K, alpha);
  if (is_filler()) {
    if (is_copier())
      for (int step = 0; step < steps; ++step) ring.fill(a_map, b_map, row, column, step * DEPTH);
  } else {
    float sum[BN / 2];
    for (int step = 0; step < steps; ++step) ring.multiply_step(sum, step);
    ring.finish(sum, steps);
    store_sums<BN>(sum, C, ldc, row + ring.group * 64, column, M, N, alpha, beta, in_pairs(C, ldc), fresh(threadIdx.x % 128));
  }
}
