/*---
title: Half precision, K shared in a cluster
idea: where C has few tiles, the blocks of a cluster share out K of one tile, and each adds up a part of all their sums
parameters: {BM: 128, BN: 128, STAGES: 5, SLICES: 4, CM: 1}
configurations:
  - {BM: 64, BN: 64, STAGES: 8, SLICES: 2}
  - {BM: 64, BN: 64, STAGES: 8, SLICES: 8}
  - {BM: 64, BN: 128, STAGES: 8, SLICES: 2}
  - {BM: 64, BN: 128, STAGES: 8, SLICES: 2, CM: 2}
  - {BM: 64, BN: 128, STAGES: 8, SLICES: 4}
  - {BM: 64, BN: 128, STAGES: 7, SLICES: 8}
  - {BM: 128, BN: 64, STAGES: 7, SLICES: 8}
  - {SLICES: 2}
  - {SLICES: 2, CM: 2}
  - {SLICES: 4}
  - {BN: 256, STAGES: 4, SLICES: 4}
  - {SLICES: 4, CM: 2}
element_types: [bfloat16, float16]
block: [2 * BM + 128]
grid: ["CM * SLICES * ceil_div(M, CM * BM)", "ceil_div(N, BN)"]
dynamic_shared: max(STAGES * (BM + BN) * 128, 2 * (SLICES - 1) * BM * BN * 4 // SLICES) + STAGES * 16 + 8
tensor_maps:
  - {of: A, box: [64, BM], swizzle: 128}
  - {of: B, box: [64, 64], swizzle: 128}
requires: [BM == 64 or BM == 128, BN == 64 or BN == 128 or BN == 256, STAGES >= 2, SLICES == 2 or SLICES == 4 or SLICES == 8, CM == 1 or CM == 2 and BN >= 128, CM * SLICES <= 8]
architecture: sm_90a
global_reads: K * (M * ceil_div(N, BN) + N * ceil_div(M, CM * BM))
global_writes: M * N
---*/
// Where C has few tiles and K is long, most SMs would idle. Here the blocks of a cluster have the same tile, and each takes every SLICES-th
// step along K. At the end a block writes its sums to where the ring was. It sends every other block the part that this one is to
// add up, with bulk copies from its shared memory to theirs, which report at a barrier there (half_slices.cuh). So each sum is added up
// by one block, always in the same order. What comes takes the place of the ring, too, once all blocks of the cluster are done with theirs.
//
// With CM = 2, a cluster has two tiles above each other, and each slice of one shares the columns of B with that of the other (rung 35). Where
// rows do not begin at multiples of 128 bytes, a row of a box lies in two lines of the L2.
//
// What holds it back: a cluster must find all its SMs within one group of SMs, and the sums travel once.

#include "half_slices.cuh"

constexpr int AT_BARRIERS = RING_OR_SUMS, AT_COME = AT_BARRIERS + STAGES * 16;

extern "C" __global__ void __cluster_dims__(CM * SLICES, 1, 1) __launch_bounds__(CONSUMERS + 128, 1)
    gemm(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, T* __restrict__ C,
         int ldc, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map) {
  extern __shared__ __align__(1024) uint8_t shared[];
  const uint32_t come = shared_address(shared) + AT_COME;
  if (threadIdx.x == CONSUMERS) barrier_init(come, 1);
  Ring<CM, 1, CM * SLICES> ring(shared, AT_BARRIERS, a_map, b_map);
  const int slice = blockIdx.x / CM % SLICES, row = (blockIdx.x / (CM * SLICES) * CM + blockIdx.x % CM) * BM, column = blockIdx.y * BN;
  const int steps = steps_of_slice(K, alpha, slice);

  if (threadIdx.x >= CONSUMERS) {
    registers_of_producer();
    if (threadIdx.x == CONSUMERS)
      for (int step = 0; step < steps; ++step) ring.fill(a_map, b_map, row, column, (step * SLICES + slice) * DEPTH);
    __syncwarp();
    cluster_arrive();
    cluster_wait();
  } else {
    registers_of_consumer();
    float sum[BN / 2];
    for (int step = 0; step < steps; ++step) ring.multiply_step(sum, step);
    ring.finish(sum, steps);
    add_slices<CM>(sum, shared, come, slice, C, ldc, row, column, M, N, alpha, beta);
  }
  leave_cluster();
}
