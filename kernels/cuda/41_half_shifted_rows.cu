/*---
title: Half precision, shifted rows
idea: aligned pieces of rows that begin anywhere are copied to shared memory and shifted there; one launch, and K shared in a cluster
builds_on: 38_half_any_rows
made_for: "2049x2047x2051"
parameters: {BM: 64, BN: 128, STAGES: 7, SLICES: 4, FILLERS: 16, PARTS: 1}
configurations:
  - {BM: 64, BN: 128, STAGES: 7, SLICES: [2, 4, 8], FILLERS: 16}
  - {BM: 64, BN: 64, STAGES: 10, SLICES: [1, 4, 8], FILLERS: 16}
  - {BM: 64, BN: 64, STAGES: 6, SLICES: [1, 4], FILLERS: 16}
  - {BM: 64, BN: 128, STAGES: 7, SLICES: 1, FILLERS: 16, PARTS: 64}
  - {BM: 128, BN: 64, STAGES: 8, SLICES: 1, FILLERS: 16, PARTS: 64}
  - {BM: 128, BN: 128, STAGES: 4, SLICES: 1, FILLERS: 8, PARTS: 64}
element_types: [bfloat16, float16]
layouts: [nn, nt, tn, tt]
where:
  tiles: ceil_div(M, BM) * ceil_div(N, BN)
  room: sm_count // tiles  # so many blocks for each tile run at once
  parts: "max(1, min(PARTS, room, ceil_div(K, 64) // 4))"
block: [2 * BM + 32 * FILLERS]
grid: ["SLICES * ceil_div(M, BM)", "ceil_div(N, BN)", parts]
dynamic_shared: max(STAGES * (BM + BN) * 128, 2 * (SLICES - 1) * BM * BN * 4 // SLICES) + STAGES * ((BM + BN) * 16 + 16) + 8
then:
  - function: add
    when: parts > 1
    block: [2 * BM]
    grid: ["ceil_div(M, BM)", "ceil_div(N, BN)", parts]
workspace: tiles * parts * BM * BN * 4 if parts > 1 else 0
requires:
  - BM == 64 or BM == 128
  - BN == 64 or BN == 128
  - FILLERS == 8 or FILLERS == 16 and BM * BN < 16384
  - SLICES == 1 or SLICES == 2 or SLICES == 4 or SLICES == 8
  - STAGES >= 4
  - PARTS == 1 or PARTS > 1 and SLICES == 1
architecture: sm_90a
global_reads: K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: M * N
---*/
// Rung 38 copies rows that begin anywhere to a workspace, because a tensor map takes only rows that begin at multiples of 16 bytes. Where C is
// small, the second launch and the way through memory cost more than the product. Here FILLERS warps fill the ring without tensor maps. A row
// of a stage has 64 elements, 128 bytes. A warp copies the nine aligned pieces of 16 bytes that contain them, and shifts them in place once they
// have come (half_shifted.cuh). The copies are asynchronous, so those for STAGES - 2 stages are under way at a time and take no registers.
//
// A warp shifts only what it has copied itself, so it need not wait for other warps' copies. Operands whose rows begin at multiples of 16 bytes
// are not shifted. The blocks of a cluster share out K as in rung 36. With PARTS above 1, all SMs do: a block writes the sums of its part of K to
// the workspace, and a second launch adds them up. That pays where C has so few tiles that clusters leave most SMs idle, and K is long.
//
// What holds it back: every piece passes through shared memory twice before it is multiplied, and shifting takes instructions.

struct Traits {
  static constexpr bool SWAPPED = false, PING_PONG = false, LIGHT = false;
};
#include "half_leave.cuh"
#include "half_shifted.cuh"
#include "half_slices.cuh"

// Rows as they lie in memory.
using ShiftedA = Shifted<TRANS_A ? DEPTH : BM, TRANS_A ? BM / 64 : 1>;
using ShiftedB = Shifted<TRANS_B ? BN : DEPTH, TRANS_B ? 1 : BN / 64>;
constexpr int NINTHS = ShiftedA::BYTES + ShiftedB::BYTES, AT_NINTHS = RING_OR_SUMS, AT_BARRIERS = AT_NINTHS + STAGES * NINTHS;
constexpr int AT_COME = AT_BARRIERS + STAGES * 16;
constexpr int THREADS = CONSUMERS + FILLERS * 32;

// Where the sums of a part of the block's tile are in the workspace: for every eight columns, four of each thread.
__device__ __forceinline__ size_t part_at(int part) {
  return (size_t(blockIdx.y * gridDim.x + blockIdx.x) * gridDim.z + part) * (EIGHTS * CONSUMERS);
}

extern "C" __global__ void __cluster_dims__(SLICES, 1, 1) __launch_bounds__(THREADS)
    gemm(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, T* __restrict__ C,
         int ldc, float4* __restrict__ workspace) {
  extern __shared__ __align__(1024) uint8_t shared[];
  const uint32_t memory = shared_address(shared), come = memory + AT_COME;
  if (threadIdx.x == CONSUMERS) barrier_init(come, 1);
  Ring<1, 1, 1, TEAM> ring(shared, AT_BARRIERS);
  const int slice = blockIdx.x % SLICES, row = blockIdx.x / SLICES * BM, column = blockIdx.y * BN;
  const int shares = SLICES * gridDim.z, share = blockIdx.z * SLICES + slice, steps = (steps_of(K, alpha) - share + shares - 1) / shares;

  if (is_filler()) {
    const int team = (threadIdx.x - CONSUMERS) / 32 / TEAM, first = (team * shares + share) * DEPTH;
    ShiftedA a(TRANS_A ? A + size_t(first) * lda + row : A + size_t(row) * lda + first, lda,
               TRANS_A ? size_t(TEAMS * shares) * DEPTH * lda : TEAMS * shares * DEPTH,
               TRANS_A ? A + size_t(K - 1) * lda + M : A + size_t(M - 1) * lda + K);
    ShiftedB b(TRANS_B ? B + size_t(column) * ldb + first : B + size_t(first) * ldb + column, ldb,
               TRANS_B ? TEAMS * shares * DEPTH : size_t(TEAMS * shares) * DEPTH * ldb,
               TRANS_B ? B + size_t(N - 1) * ldb + K : B + size_t(K - 1) * ldb + N);
    Turn<STAGES, TEAMS> copying{team}, shifting{team};
    for (int step = team; step < steps + AHEAD * TEAMS; step += TEAMS) {
      if (step < steps) {
        const int left = K - (step * shares + share) * DEPTH, place = copying.place;
        const uint32_t to = ring.stage(place), ninths = memory + AT_NINTHS + place * NINTHS;
        barrier_wait(ring.empty(place), copying.parity ^ 1);  // in the first turn, the stages are free
        a.load(to, ninths, TRANS_A ? left : M - row, TRANS_A ? M - row : left);
        b.load(to + A_BYTES, ninths + ShiftedA::BYTES, TRANS_B ? N - column : left, TRANS_B ? left : N - column);
        copying.next();
      }
      commit();  // an empty group at the end: the wait below counts groups
      if (step < AHEAD * TEAMS) continue;
      wait<AHEAD>();
      __syncwarp();  // what the other lanes have copied has come, too
      uint8_t *stage = shared + shifting.place * STAGE, *ninths = shared + AT_NINTHS + shifting.place * NINTHS;
      a.shift(stage, ninths, TRANS_A ? DEPTH : M - row);
      b.shift(stage + A_BYTES, ninths + ShiftedA::BYTES, TRANS_B ? N - column : DEPTH);
      async_may_follow();
      __syncwarp();
      barrier_arrive_if(ring.full(shifting.place), threadIdx.x % 32 == 0);
      shifting.next();
    }
    __syncwarp();
    if (SLICES > 1) {
      cluster_arrive();
      cluster_wait();
    }
  } else {
    const int group = ring.group;
    float sum[BN / 2];
    for (int step = 0; step < steps; ++step) ring.multiply_step(sum, step);
    ring.finish(sum, steps);
    if (PARTS > 1 && gridDim.z > 1) {
      float4* to = workspace + part_at(blockIdx.z) + threadIdx.x;
#pragma unroll
      for (int j = 0; j < EIGHTS; ++j) to[j * CONSUMERS] = make_float4(sum[4 * j], sum[4 * j + 1], sum[4 * j + 2], sum[4 * j + 3]);
    } else if (SLICES > 1) {
      add_slices(sum, shared, come, slice, C, ldc, row, column, M, N, alpha, beta);
    } else {
      leave_by_rows(sum, shared + group * STRIP, STAGE, C, ldc, row + group * 64, column, M, N, alpha, beta);
    }
  }
  if (SLICES > 1) leave_cluster();
}

// Adds up the parts. The grid is as that of `gemm`: the blocks of a tile share out its columns by eights.
extern "C" __global__ void __launch_bounds__(CONSUMERS)
    add(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, T* __restrict__ C,
        int ldc, const float4* __restrict__ workspace) {
  const int thread = threadIdx.x, row = blockIdx.x * BM + thread / 32 * 16 + thread % 32 / 4;
  const bool pairs = in_pairs(C, ldc);
  for (int j = blockIdx.z; j < EIGHTS; j += gridDim.z) {
    float4 total = make_float4(0, 0, 0, 0);
#pragma unroll 8
    for (int part = 0; part < gridDim.z; ++part) {
      const float4 v = workspace[part_at(part) + j * CONSUMERS + thread];
      total.x += v.x, total.y += v.y, total.z += v.z, total.w += v.w;
    }
    const int column = blockIdx.y * BN + j * 8 + thread % 4 * 2;
    T* to = C + size_t(row) * ldc + column;
    store_pair(to, row < M ? N - column : 0, alpha, total.x, total.y, beta, pairs);
    store_pair(to + size_t(8) * ldc, row + 8 < M ? N - column : 0, alpha, total.z, total.w, beta, pairs);
  }
}
