// Blocks that do one tile after another: the order of tiles, and the loop of rungs 34 to 37. Beside BM, BN and STAGES, the kernel's
// parameters are SLOTS, HIGH and TURN.
#pragma once
#include "half_leave.cuh"

constexpr int AT_SLOTS = RING, AT_BARRIERS = AT_SLOTS + GROUPS * SLOTS * STRIP;  // in shared memory

// What a block does next: `steps` along K of the tile at (row, column), from step `from` on.
struct Work {
  int row, column, from, steps;
  int z = 0;        // which matrix of a batch
  bool back, last;  // from the end of K to its beginning; nothing comes after
  int part = -1;    // which of the cluster's parts of tiles it is; -1 for a whole tile
  __device__ __forceinline__ int k(int step) const { return (from + (back ? steps - 1 - step : step)) * DEPTH; }
};

// The tiles of a cluster of CM x CN blocks, which count as one: every gridDim.x-th of all. They go down HIGH tiles before they go right,
// and in the next band left.
template <int CM = 1, int CN = 1>
struct Tiles {
  int rows, columns, steps, matrices, tile, apart, rank;
  bool back = true;
  __device__ __forceinline__ Tiles(int M, int N, int steps_, int matrices_ = 1)
      : rows((M + CM * BM - 1) / (CM * BM)), columns((N + CN * BN - 1) / (CN * BN)), steps(steps_), matrices(matrices_) {
    tile = blockIdx.x / (CM * CN), apart = gridDim.x / (CM * CN), rank = blockIdx.x % (CM * CN);
  }
  __device__ __forceinline__ int count() const { return BATCH ? rows * columns * matrices : rows * columns; }
  __device__ __forceinline__ bool next(Work& work) {
    if (tile >= count()) return false;
    if (BATCH) work.z = tile / (rows * columns);
    place(tile - work.z * (rows * columns), work);
    work.from = 0, work.steps = steps, work.last = tile + apart >= count();
    tile += apart;
    return true;
  }
  __device__ __forceinline__ void place(int t, Work& work) {
    const int band = t / (HIGH * columns), high = min(HIGH, rows - band * HIGH), rest = t - band * HIGH * columns;
    const int row = band * HIGH + rest % high, column = band % 2 ? columns - 1 - rest / high : rest / high;
    work.row = (row * CM + rank % CM) * BM, work.column = (column * CN + rank / CM) * BN;
    back = !back;
    work.back = TURN && back;
  }
};

// The filling warpgroup's part of it.
template <class Tiles, class Ring>
__device__ __forceinline__ void fill_tiles(Ring& ring, int M, int N, int K, float alpha, const Batch& batch, const TensorMap& a_map,
                                           const TensorMap& b_map) {
  Work work;
  registers_of_producer();
  Tiles tiles(M, N, steps_of(K, alpha), batch.count);
  if (is_copier()) {
    while (tiles.next(work))
      for (int step = 0; step < work.steps; ++step) ring.fill(a_map, b_map, work.row, work.column, work.k(step), work.z);
    ring.finish_filling();
  }
}

// All of a block's work. `parts` is where the sums of parts of tiles go (rung 37).
template <class Tiles, class Ring>
__device__ __forceinline__ void multiply_tiles(Ring& ring, int M, int N, int K, float alpha, float beta, Out* C, int ldc, const Batch& batch,
                                               const TensorMap& a_map, const TensorMap& b_map, const TensorMap& c_map,
                                               float4* parts = nullptr) {
  if (is_filler()) return fill_tiles<Tiles>(ring, M, N, K, alpha, batch, a_map, b_map);
  Work work;
  registers_of_consumer();
  Tiles tiles(M, N, steps_of(K, alpha), batch.count);
  const int group = ring.group;
  float sum[BN / 2];
  Leaving leaving(c_map, C, ldc, N, beta, ring.memory + AT_SLOTS + group * SLOTS * STRIP, STRIP);
  bool pending = false;  // the tile before has not left yet
  int z = 0;             // its matrix
  for (bool more = tiles.next(work); more;) {
    int step = 0;
    if (work.steps >= PIECES) {
#pragma unroll
      for (int i = 0; i < PIECES; ++i) {
        ring.multiply_step(sum, i);
        if (pending) leaving.template put<SLOTS>(i, z);
      }
      step = PIECES;
    } else if (pending) {
      leaving.template put_all<SLOTS>(z);
    }
    pending = false;
    for (; step < work.steps; ++step) ring.multiply_step(sum, step);
    const Work done = work;
    more = tiles.next(work);  // found out while the last products are under way
    ring.finish(sum, done.steps);
    if (done.part >= 0) {
      float4* to = parts + size_t(done.part) * (BM * BN / 4) + threadIdx.x;
#pragma unroll
      for (int j = 0; j < BN / 8; ++j) to[j * CONSUMERS] = make_float4(sum[4 * j], sum[4 * j + 1], sum[4 * j + 2], sum[4 * j + 3]);
      continue;
    }
    leaving.take(sum, C + done.z * batch.stride_c, ldc, done.row + group * 64, done.column, M, N, alpha, beta);
    z = done.z;
    pending = leaving.boxes && !done.last;
    if (done.last) {  // the ring has done its work
      leaving.end();
      leaving.slots = ring.stage(0) + group * STRIP, leaving.apart = STAGE, leaving.slot = 0;
      some_sync<128>(1 + group);
      leaving.template put_all<PIECES>(z);
    }
  }
  leaving.end();
}
