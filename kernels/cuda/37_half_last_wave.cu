/*---
title: Half precision, last wave
idea: the tiles that are left over when every cluster has had as many are shared out along K among all
builds_on: 35_half_multicast
made_for: "8192"
parameters: {BM: 128, BN: 256, STAGES: 4, SLOTS: 2, HIGH: 8, TURN: 1}
configurations:
  - {HIGH: [8, 16]}
  - {BN: 128, STAGES: 6}
element_types: [bfloat16, float16]
layouts: [nn, nt, tn, tt]
where:
  tiles: ceil_div(M, 2 * BM) * ceil_div(N, BN)
  clusters: "min(tiles, sm_count // 2)"
  left: tiles % clusters
block: ["2 * BM + (128 if BM > 64 else 32)"]
grid: [2 * clusters]
dynamic_shared: STAGES * ((BM + BN) * 128 + 16) + BM // 64 * SLOTS * 8192
then:
  - function: add
    when: left > 0
    grid: [clusters, "ceil_div(left * BM // 32 * (BN // 16), clusters)"]
    block: [128]
workspace: clusters * 4 * BM * BN * 4
tensor_maps:
  - {of: A, box: [64, 64 if TRANS_A else BM], swizzle: 128}
  - {of: B, box: [64, (BN if TRANS_B else 64) // 2], swizzle: 128}
  - {of: C, box: [64, 64], swizzle: 128}
requires: [BM == 64 or BM == 128, BN == 128 or BN == 256, STAGES >= 2 and 64 * STAGES >= BN, SLOTS >= 1, HIGH >= 1]
needs: ["ceil_div(K, 64) * sm_count < 2 ** 31"]
architecture: sm_90a
global_reads: K * (M * ceil_div(N, BN) + N * ceil_div(M, 2 * BM))
global_writes: M * N
---*/
// At 8192 there are 15.5 tiles of 128 x 256 for an SM: for the last half of one, all SMs run as long as for a whole one, and half of them for
// nothing. Here every cluster has 15 whole tiles. The steps along K of those left over are laid end to end and dealt out evenly (rung 15
// does so first): a cluster has the end of one tile, or the beginning of another, or both. It writes those sums to the workspace as
// they are, and a second launch adds up each tile's, in order. That is worth it where K is long and the last wave far from full.
//
// What holds it back: power. Tensor cores that are at work all the time draw more than the board may, and the clock falls.

struct Traits {
  static constexpr bool SWAPPED = false, PING_PONG = false, LIGHT = false;
};
#include "half_tiles.cuh"

constexpr int CM = 2;  // blocks of a cluster, above each other (rung 35)

// The steps of the tiles left over, dealt out to the clusters: the first few have one more.
struct Shares {
  int each, more;
  __device__ __forceinline__ Shares(int steps, int clusters) : each(steps / clusters), more(steps % clusters) {}
  __device__ __forceinline__ int begin(int cluster) const { return cluster * each + min(cluster, more); }
  __device__ __forceinline__ int owner(int step) const {
    const int longer = more * (each + 1);
    return step < longer ? step / (each + 1) : more + (step - longer) / each;
  }
};

// First a cluster's whole tiles, then its share of those left over, in one part or two.
struct SharedTiles : Tiles<CM> {
  int whole, at, end, part;
  __device__ __forceinline__ SharedTiles(int M, int N, int steps_, int) : Tiles<CM>(M, N, steps_) {
    whole = steps > 0 ? rows * columns / apart * apart : rows * columns;
    const Shares shares((rows * columns - whole) * steps, apart);
    at = shares.begin(tile), end = shares.begin(tile + 1), part = blockIdx.x * 2;
  }
  __device__ __forceinline__ bool next(Work& work) {
    if (tile < whole) {
      place(tile, work);
      work.from = 0, work.steps = steps, work.part = -1;
      tile += apart;
    } else {
      if (at >= end) return false;
      const int t = at / steps;
      place(whole + t, work);
      work.from = at - t * steps, work.steps = min(steps - work.from, end - at), work.part = part++;
      at += work.steps;
    }
    work.last = tile >= whole && at >= end;
    return true;
  }
};

extern "C" __global__ void __cluster_dims__(CM, 1, 1) __launch_bounds__(CONSUMERS + FILLING, BLOCKS_PER_SM)
    gemm(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, T* __restrict__ C,
         int ldc, float4* __restrict__ workspace, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
         const __grid_constant__ TensorMap c_map) {
  extern __shared__ __align__(1024) uint8_t shared[];
  Ring<CM> ring(shared, AT_BARRIERS, a_map, b_map, c_map);
  multiply_tiles<SharedTiles>(ring, M, N, K, alpha, beta, C, ldc, Batch(), a_map, b_map, c_map, workspace);
}

// Adds up the parts of the tiles left over: a block has 64 x 16 elements. The grid is as wide as there are clusters.
extern "C" __global__ void __launch_bounds__(128)
    add(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, T* __restrict__ C,
        int ldc, const float4* __restrict__ workspace, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
        const __grid_constant__ TensorMap c_map) {
  constexpr int ACROSS = BN / 16;
  const int clusters = gridDim.x, index = blockIdx.y * clusters + blockIdx.x, steps = steps_of(K, alpha);
  const int strip = index % ACROSS, group = index / ACROSS % GROUPS, rank = index / (ACROSS * GROUPS) % CM, t = index / (ACROSS * GROUPS * CM);
  const int rows = (M + CM * BM - 1) / (CM * BM), columns = (N + BN - 1) / BN, left = rows * columns % clusters;
  if (t >= left || steps == 0) return;
  const Shares shares(left * steps, clusters);
  const int first = shares.owner(t * steps), last = shares.owner((t + 1) * steps - 1), thread = threadIdx.x;
  float4 sum[2] = {};
#pragma unroll 8
  for (int cluster = first; cluster <= last; ++cluster) {  // its second part, where it began with the tile before
    const int part = (cluster * CM + rank) * 2 + (shares.begin(cluster) < t * steps);
    const float4* from = workspace + size_t(part) * (BM * BN / 4) + strip * 2 * CONSUMERS + group * 128 + thread;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float4 v = from[j * CONSUMERS];
      sum[j].x += v.x, sum[j].y += v.y, sum[j].z += v.z, sum[j].w += v.w;
    }
  }
  Tiles<CM> tiles(M, N, steps);
  Work work;
  tiles.rank = rank;
  tiles.place(rows * columns - left + t, work);
  const int row = work.row + group * 64 + thread / 32 * 16 + thread % 32 / 4;
  const int column = work.column + strip * 16 + thread % 4 * 2;
  const bool pairs = in_pairs(C, ldc);
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    T* to = C + size_t(row) * ldc + column + 8 * j;
    store_pair(to, row < M ? N - column - 8 * j : 0, alpha, sum[j].x, sum[j].y, beta, pairs);
    store_pair(to + size_t(8) * ldc, row + 8 < M ? N - column - 8 * j : 0, alpha, sum[j].z, sum[j].w, beta, pairs);
  }
}
