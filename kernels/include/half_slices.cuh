// K of one tile of C, shared out among SLICES blocks of a cluster: each takes every SLICES-th step, and in the end adds up a part of all
// their sums. They are every TILES-th block of the cluster: so many tiles have one cluster.
#pragma once
#include "half_ring.cuh"

constexpr int EIGHTS = SPAN / 8, PART = (EIGHTS + SLICES - 1) / SLICES;  // of a tile's columns, or with SWAPPED of its rows; the most
                                                                         // of them that a block adds up
constexpr int EIGHT = CONSUMERS * 16, PART_BYTES = PART * EIGHT;  // bytes of the sums of eight, and of a part
constexpr int SENT = (SLICES - 1) * PART_BYTES;                   // bytes that a block sends, and as many that come
constexpr int RING_OR_SUMS = RING > 2 * SENT ? RING : 2 * SENT;   // what is sent, and behind it what comes, take the place of the ring

// How many a slice adds up: the last ones may have fewer.
__device__ __forceinline__ int part_of(int slice) { return max(0, min(PART, EIGHTS - slice * PART)); }

// The steps of a slice: none if K is too short.
__device__ __forceinline__ int steps_of_slice(int K, float alpha, int slice) { return (steps_of(K, alpha) - slice + SLICES - 1) / SLICES; }

// The blocks of a cluster leave together: others may still be reading what this one sends.
__device__ __forceinline__ void leave_cluster() {
  __syncwarp();
  cluster_arrive();
  cluster_wait();
}

// The threads that multiply call it with their sums, when the block's last stage has been multiplied. What the others send is announced at
// barrier `come`. The other threads call cluster_arrive() when they are done with the ring, and cluster_wait().
template <int TILES = 1>
__device__ __forceinline__ void add_slices(const float (&sum)[SPAN / 2], uint8_t* shared, uint32_t come, int slice, Out* C, int ldc, int row,
                                           int column, int M, int N, float alpha, float beta) {
  const uint32_t memory = shared_address(shared);
  const int thread = threadIdx.x;
  const int mine = part_of(slice);
  if (thread == 0) barrier_expect(come, (SLICES - 1) * mine * EIGHT);
  some_sync<CONSUMERS>(1);  // all have read the last stages
  cluster_arrive();         // it orders no writes, and need not: what was read from the ring is in registers
  float4 own[PART];  // of each part, only this block's stays in registers: its number is not known when the kernel is compiled
  float4* const sums = reinterpret_cast<float4*>(shared) + thread;
#pragma unroll
  for (int j = 0; j < EIGHTS; ++j) {
    const float4 v = make_float4(sum[4 * j], sum[4 * j + 1], sum[4 * j + 2], sum[4 * j + 3]);
    if (j / PART == slice)
      own[j % PART] = v;
    else
      sums[(j / PART < slice ? j : j - PART) * CONSUMERS] = v;
  }
  async_may_follow();
  some_sync<CONSUMERS>(1);
  cluster_wait();  // the other blocks are done with their rings
  if (thread < SLICES && thread != slice && part_of(thread) > 0)
    send_bulk(memory + SENT + (slice < thread ? slice : slice - 1) * PART_BYTES, memory + (thread < slice ? thread : thread - 1) * PART_BYTES,
              part_of(thread) * EIGHT, come, blockIdx.x % TILES + thread * TILES);
  __syncwarp();
  barrier_wait(come, 0);
  const bool pairs = in_pairs(C, ldc);
  const int at = thread / 32 * 16, first = slice * PART * 8;
#pragma unroll
  for (int p = 0; p < PART; ++p) {
    if (p >= mine) break;
    float4 total = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int s = 0; s < SLICES; ++s) {
      const float4 v = s == slice ? own[p] : sums[SENT / 16 + ((s < slice ? s : s - 1) * PART + p) * CONSUMERS];
      total.x += v.x, total.y += v.y, total.z += v.z, total.w += v.w;
    }
    if constexpr (SWAPPED)
      store_across(total, C, ldc, row + first + p * 8, column + at, M, N, alpha, beta, pairs);
    else
      store_along(total, C, ldc, row + at, column + first + p * 8, M, N, alpha, beta, pairs);
  }
}

// All steps of a block, with sums that stay in the tensor cores.
struct Multiply {
  template <class Ring>
  __device__ __forceinline__ void operator()(Ring& ring, float (&sum)[SPAN / 2], int steps) const {
    for (int step = 0; step < steps; ++step) ring.multiply_step(sum, step);
    ring.finish(sum, steps);
  }
};

// All of a block's work in a cluster that has CM x CN tiles, each with SLICES slices: the ring is filled by tensor maps. Without slices, `store`
// takes a warpgroup's sums, its number, and the first row and column of the tile. The barriers are AT_BARRIERS bytes from the ring's beginning.
template <int CM, int CN, int AT_BARRIERS = RING_OR_SUMS, class Store, class Steps = Multiply>
__device__ __forceinline__ void multiply_slices(uint8_t* shared, int M, int N, int K, float alpha, float beta, Out* C, int ldc,
                                                const TensorMap& a_map, const TensorMap& b_map, const Store& store,
                                                const Steps& multiply_steps = {}) {
  constexpr int TILES = CM * CN, AT_COME = AT_BARRIERS + STAGES * 16;
  const uint32_t come = shared_address(shared + AT_COME);
  if (SLICES > 1 && threadIdx.x == CONSUMERS) barrier_init(come, 1);
  Ring<CM, CN, TILES * SLICES> ring(shared, AT_BARRIERS, a_map, b_map);
  const int slice = blockIdx.x / TILES % SLICES, row = (blockIdx.x / (TILES * SLICES) * CM + ring.sharing.cm) * BM;
  const int column = (blockIdx.y * CN + ring.sharing.cn) * BN, steps = steps_of_slice(K, alpha, slice);

  if (is_filler()) {
    registers_of_producer();
    if (is_copier()) {
      for (int step = 0; step < steps; ++step) ring.fill(a_map, b_map, row, column, (step * SLICES + slice) * DEPTH, BATCH ? blockIdx.z : 0);
      ring.finish_filling();
    }
    __syncwarp();
    if (SLICES > 1) {
      cluster_arrive();
      cluster_wait();
    }
  } else {
    registers_of_consumer();
    float sum[SPAN / 2];
    multiply_steps(ring, sum, steps);
    if constexpr (SLICES > 1)
      add_slices<TILES>(sum, shared, come, slice, C, ldc, row, column, M, N, alpha, beta);
    else
      store(sum, ring.group, row, column);
  }
  if (SLICES > 1) leave_cluster();
}
