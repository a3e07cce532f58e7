/*---
title: Half precision, K shared in a cluster
idea: where C has few tiles, the blocks of a cluster share out K of one tile, and each adds up a part of all their sums
parameters: {BM: 128, BN: 128, STAGES: 5, SLICES: 4}
configurations:
  - {BM: 64, BN: 64, STAGES: 8, SLICES: 2}
  - {BM: 64, BN: 128, STAGES: 8, SLICES: 2}
  - {BM: 64, BN: 128, STAGES: 8, SLICES: 4}
  - {BM: 64, BN: 128, STAGES: 7, SLICES: 8}
  - {BM: 128, BN: 64, STAGES: 7, SLICES: 8}
  - {SLICES: 2}
  - {SLICES: 4}
  - {STAGES: 5, SLICES: 5}
element_types: [bfloat16, float16]
block: [2 * BM + 128]
grid: ["SLICES * ceil_div(M, BM)", "ceil_div(N, BN)"]
dynamic_shared: STAGES * ((BM + BN) * 128 + 16) + (SLICES - 1) * ceil_div(BN // 8, SLICES) * BM * 32 + 8
tensor_maps:
  - {of: A, box: [64, BM], swizzle: 128}
  - {of: B, box: [64, 64], swizzle: 128}
requires: [BM == 64 or BM == 128, BN == 64 or BN == 128, STAGES >= 2, SLICES >= 2 and SLICES <= 8, BM * BN * 4 <= STAGES * (BM + BN) * 128]
architecture: sm_90a
global_reads: K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: M * N
---*/
// Where C has few tiles and K is long, most SMs would idle. Here the blocks of a cluster have the same tile, and each takes every SLICES-th
// step along K. At the end a block writes its sums to where the ring was. It sends every other block the part that this one is to
// add up, with bulk copies from its shared memory to theirs, which report at a barrier there. So each sum is added up by one block,
// always in the same order.
//
// What holds it back: a cluster must find all its SMs within one group of SMs, and the sums travel once.

#include "half_ring.cuh"

constexpr int EIGHTS = BN / 8, PART = (EIGHTS + SLICES - 1) / SLICES;  // of a tile's columns; of those, a block's to add up
constexpr int EIGHT = CONSUMERS * 16;                                   // bytes of eight columns' sums
constexpr int AT_PARTS = RING, AT_BARRIERS = AT_PARTS + (SLICES - 1) * PART * EIGHT, AT_COME = AT_BARRIERS + STAGES * 16;
static_assert(EIGHTS * EIGHT <= RING, "a block's own sums take the place of the ring");

extern "C" __global__ void __cluster_dims__(SLICES, 1, 1) __launch_bounds__(CONSUMERS + 128, 1)
    gemm(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, T* __restrict__ C,
         int ldc, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map) {
  extern __shared__ __align__(1024) uint8_t shared[];
  const uint32_t memory = shared_address(shared), come = memory + AT_COME;
  if (threadIdx.x == CONSUMERS) barrier_init(come, 1);
  Ring<> ring(shared, AT_BARRIERS, a_map, b_map);
  cluster_arrive();
  const int slice = blockIdx.x % SLICES, row = blockIdx.x / SLICES * BM, column = blockIdx.y * BN;
  const int steps = (steps_of(K, alpha) - slice + SLICES - 1) / SLICES, thread = threadIdx.x;
  const auto count = [](int s) { return max(0, min(PART, EIGHTS - s * PART)); };  // eights that slice s adds up

  if (thread >= CONSUMERS) {
    registers_of_producer();
    if (thread == CONSUMERS)
      for (int step = 0; step < steps; ++step) ring.fill(a_map, b_map, row, column, (step * SLICES + slice) * DEPTH);
    __syncwarp();
    cluster_wait();
  } else {
    registers_of_consumer();
    float sum[BN / 2];
    for (int step = 0; step < steps; ++step) ring.multiply_step(sum, step);
    ring.finish(sum, steps);
    some_sync<CONSUMERS>(1);  // all have read the last stages
    float4* own = reinterpret_cast<float4*>(shared) + thread;
#pragma unroll
    for (int j = 0; j < EIGHTS; ++j) own[j * CONSUMERS] = make_float4(sum[4 * j], sum[4 * j + 1], sum[4 * j + 2], sum[4 * j + 3]);
    async_may_follow();
    some_sync<CONSUMERS>(1);
    cluster_wait();  // the other blocks have begun, and their barriers are ready
    if (thread == 0 && count(slice) > 0) barrier_expect(come, (SLICES - 1) * count(slice) * EIGHT);
    if (thread < SLICES && thread != slice && count(thread) > 0)
      send_bulk(memory + AT_PARTS + (slice < thread ? slice : slice - 1) * PART * EIGHT, memory + thread * PART * EIGHT, count(thread) * EIGHT, come,
                thread);
    __syncwarp();
    if (count(slice) > 0) barrier_wait(come, 0);
    const bool pairs = in_pairs(C, ldc);
    const int r = row + thread / 32 * 16 + thread % 32 / 4, c = column + thread % 4 * 2;
#pragma unroll 4
    for (int p = 0; p < count(slice); ++p) {
      const int j = slice * PART + p, left = N - c - j * 8;
      float4 total = make_float4(0, 0, 0, 0);
#pragma unroll
      for (int s = 0; s < SLICES; ++s) {
        const float4 v = s == slice ? own[j * CONSUMERS] : own[AT_PARTS / 16 + ((s < slice ? s : s - 1) * PART + p) * CONSUMERS];
        total.x += v.x, total.y += v.y, total.z += v.z, total.w += v.w;
      }
      T* to = C + size_t(r) * ldc + c + j * 8;
      store_pair(to, r < M ? left : 0, alpha, total.x, total.y, beta, pairs);
      store_pair(to + size_t(8) * ldc, r + 8 < M ? left : 0, alpha, total.z, total.w, beta, pairs);
    }
  }
  leave_cluster();
}
