// K of one tile of C, shared out among the SLICES blocks of a cluster as in rung 36: each takes every SLICES-th step, and in the end adds up a
// part of all their sums. That rung has these lines of its own, so that its machine code stays the measured one.
#pragma once
#include "half_ring.cuh"

constexpr int EIGHTS = BN / 8, PART = (EIGHTS + SLICES - 1) / SLICES;  // of a tile's columns; of those, a block's to add up
constexpr int EIGHT = CONSUMERS * 16;                                   // bytes of eight columns' sums
constexpr int PARTS = (SLICES - 1) * PART * EIGHT;                      // bytes of what the other blocks send
static_assert(EIGHTS * EIGHT <= RING, "a block's own sums take the place of the ring");

// The steps of a slice: none if K is too short.
__device__ __forceinline__ int steps_of_slice(int K, float alpha, int slice) { return (steps_of(K, alpha) - slice + SLICES - 1) / SLICES; }
// Eights that a slice adds up: none if there are too few.
__device__ __forceinline__ int eights_of(int slice) { return max(0, min(PART, EIGHTS - slice * PART)); }

// The threads that multiply call it with their sums. What other blocks send comes to AT_PARTS in shared memory, and is announced at barrier
// `come`. All threads of the cluster have called cluster_arrive() once that barrier was initialized. Those that do not multiply call
// cluster_wait().
template <int AT_PARTS>
__device__ __forceinline__ void add_slices(const float (&sum)[BN / 2], uint8_t* shared, uint32_t come, int slice, T* C, int ldc, int row,
                                           int column, int M, int N, float alpha, float beta) {
  const uint32_t memory = shared_address(shared);
  const int thread = threadIdx.x, mine = eights_of(slice);
  some_sync<CONSUMERS>(1);  // all have read the last stages
  float4* own = reinterpret_cast<float4*>(shared) + thread;
#pragma unroll
  for (int j = 0; j < EIGHTS; ++j) own[j * CONSUMERS] = make_float4(sum[4 * j], sum[4 * j + 1], sum[4 * j + 2], sum[4 * j + 3]);
  async_may_follow();
  some_sync<CONSUMERS>(1);
  cluster_wait();  // the other blocks have begun, and their barriers are ready
  if (thread == 0 && mine > 0) barrier_expect(come, (SLICES - 1) * mine * EIGHT);
  if (thread < SLICES && thread != slice && eights_of(thread) > 0)
    send_bulk(memory + AT_PARTS + (slice < thread ? slice : slice - 1) * PART * EIGHT, memory + thread * PART * EIGHT,
              eights_of(thread) * EIGHT, come, thread);
  __syncwarp();
  if (mine > 0) barrier_wait(come, 0);
  const bool pairs = in_pairs(C, ldc);
  const int r = row + thread / 32 * 16 + thread % 32 / 4, c = column + thread % 4 * 2;
#pragma unroll 4
  for (int p = 0; p < mine; ++p) {
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
