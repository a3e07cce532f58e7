/*---
title: Half precision, ping-pong
idea: the two warpgroups of a block do a tile each, so that the sums of one leave while the other multiplies
label: warpgroups in turn
builds_on: 34_half_late_stores
parameters: {BM: 128, BN: 128, STAGES: 6, SLOTS: 2, HIGH: 8, TURN: 0}
configurations:
  - {BM: 128, BN: 128, STAGES: 6}
  - {BM: 128, BN: 64, STAGES: 8}
  - {BM: 64, BN: 256, STAGES: 4}
  - {BM: 64, BN: 128, STAGES: 8}
  - {BM: 64, BN: 64, STAGES: 12}
element_types: [bfloat16, float16]
layouts: [nn, nt, tn, tt]
batch: true
where:
  tiles: batch * ceil_div(M, BM) * ceil_div(N, BN)
block: [384]
grid: ["min(tiles, sm_count)"]
dynamic_shared: STAGES * ((BM + BN) * 128 + 16) + 2 * SLOTS * 8192
tensor_maps:
  - {of: A, box: [64, 64 if TRANS_A else BM], swizzle: 128}
  - {of: B, box: [64, BN if TRANS_B else 64], swizzle: 128}
  - {of: C, box: [64, 64], swizzle: 128}
requires: [BM == 64 or BM == 128, BN == 64 or BN == 128 or BN == 192 or BN == 256, BM * BN <= 16384, STAGES >= 2, SLOTS >= 1, HIGH >= 1]
architecture: sm_90a
global_reads: batch * K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: batch * M * N
---*/
// If K is short, a tile leaves for as long as it is multiplied, or longer. In rung 34 it leaves while the same warpgroups multiply the next tile,
// which takes several steps. Here each of the two warpgroups has tiles of its own. While its sums leave, the tensor cores have the products of the
// other. The filling thread brings the steps of one tile, then those of the next, and each warpgroup skips the stages of the other's tile.
//
// Who waits at a barrier knows of its phase only whether it is odd. So a warpgroup that skips more stages than the ring has could take an old turn
// for its own. It begins when the other has seen all of its own stages full.
//
// What holds it back: a warpgroup's tile has half as many elements as the registers of both would hold, and so needs more bytes a product.

struct Traits {
  static constexpr bool SWAPPED = false, PING_PONG = true, LIGHT = false;
};
#include "half_tiles.cuh"

constexpr int HALVES = BM / 64;  // of a warpgroup's tile, 64 rows each

extern "C" __global__ void __launch_bounds__(CONSUMERS + FILLING, BLOCKS_PER_SM)
    gemm(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, T* __restrict__ C,
         int ldc, BATCH_PARAMETER const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
         const __grid_constant__ TensorMap c_map) {
  extern __shared__ __align__(1024) uint8_t shared[];
  Ring<1, 1, 1, 1, 4> ring(shared, AT_BARRIERS, a_map, b_map, c_map);
  const Batch all = BATCH_ARGUMENT;
  if (is_filler()) return fill_tiles<Tiles<>>(ring, M, N, K, alpha, all, a_map, b_map);
  registers_of_consumer();
  const int group = ring.group, steps = steps_of(K, alpha);
  Tiles<> tiles(M, N, steps, all.count);
  Work work;
  float sum[HALVES][BN / 2];
  Leaving leaving(c_map, C, ldc, N, beta, ring.memory + AT_SLOTS + group * SLOTS * STRIP, STRIP);
  for (int turn = 0; tiles.next(work); ++turn) {
    if (turn % 2 != group) {
      ring.turn.skip(steps);
      continue;
    }
    if (turn > 0) some_sync<256>(4 + turn % 2);  // until the other has seen its last stage full
    for (int s = 0; s < steps; ++s) {
      barrier_wait(ring.full(ring.turn.place), ring.turn.parity);
      const uint32_t a = ring.stage(ring.turn.place), b = a + A_BYTES;
      wgmma_begin();
#pragma unroll
      for (int i = 0; i < DEPTH / 16; ++i)
#pragma unroll
        for (int h = 0; h < HALVES; ++h)
          multiply<BN, OfA::MN_MAJOR, OfB::MN_MAJOR>(sum[h], OfA::at(a + h * STRIP) + i * OfA::NEXT, OfB::at(b) + i * OfB::NEXT, s > 0 || i > 0);
      wgmma_commit();
      wgmma_wait<1>();
      ring.give_back(s > 0);
      ring.before = ring.turn.place;
      ring.turn.next();
    }
    if (!work.last) some_arrive<256>(5 - turn % 2);
    wgmma_wait<0>();
    ring.give_back(steps > 0);
#pragma unroll
    for (int h = 0; h < HALVES; ++h) {
      wgmma_done(sum[h]);
      if (steps == 0)
#pragma unroll
        for (int i = 0; i < BN / 2; ++i) sum[h][i] = 0;
      leaving.take(sum[h], C + work.z * all.stride_c, ldc, work.row + h * 64, work.column, M, N, alpha, beta);
      leaving.put_all<SLOTS>(work.z);
    }
  }
  leaving.end();
}
