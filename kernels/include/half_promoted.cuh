// Sums that the threads of a warpgroup add up in FP32 step by step, because the tensor cores add with fewer digits: rung 51. Its parameter PIECE is
// how many columns of a tile are multiplied together.
#pragma once
#include "half_tiles.cuh"

// All `steps` of a tile, at least one. The tensor cores' sums are those of one step, a piece of PIECE columns at a time. There is room for two
// pieces: one is multiplied while the threads add the other to `d`. What `d` held before may leave in `meanwhile`, while the first piece is
// multiplied.
template <class Ring, class Meanwhile>
__device__ __forceinline__ void multiply_promoted(Ring& ring, float (&d)[BN / 2], int steps, const Meanwhile& meanwhile) {
  constexpr int PARTS = BN / PIECE, LOOP = PARTS == 1 ? 2 : PARTS;  // pieces of a step, and of a round of the loop
  static_assert(BN % PIECE == 0 && LOOP % 2 == 0, "pieces have two places in turn");
  float part[2][PIECE / 2];
  int here = 0;  // the place of the step in the ring
  const auto start = [&](int u) {
    if (u % PARTS == 0) {
      barrier_wait(ring.full(ring.turn.place), ring.turn.parity);
      ring.before = here, here = ring.turn.place;
      ring.turn.next();
    }
    const uint32_t a = ring.stage(here) + ring.group * STRIP, b = ring.stage(here) + A_BYTES + u % PARTS * PIECE * 128;
    multiply_stage<OfA, OfB>(part[u % 2], OfA::at(a), OfB::at(b), false);
  };
  const auto add = [&](int u) {
    wgmma_done(part[u % 2]);
#pragma unroll
    for (int i = 0; i < PIECE / 2; ++i) d[u % PARTS * (PIECE / 2) + i] += part[u % 2][i];
  };
  const auto start_and_add = [&](int u) {  // piece u of a round, and the one before it
    start(u);
    wgmma_wait<1>();
    add(u - 1);
    if (u % PARTS == 0) ring.give_back(true);
  };
  start(0);
  meanwhile();
#pragma unroll
  for (int i = 0; i < BN / 2; ++i) d[i] = 0;
  int left = steps * PARTS - 1;  // pieces
  for (; left >= LOOP; left -= LOOP) {
#pragma unroll
    for (int u = 1; u <= LOOP; ++u) start_and_add(u);
  }
  if (left > 0) {  // always, if a step has several pieces. But without the question the compiler serializes the products (ptxas C7514).
#pragma unroll
    for (int u = 1; u < LOOP; ++u) start_and_add(u);
    wgmma_wait<0>();
    add(LOOP - 1);
  } else {
    wgmma_wait<0>();
    add(0);
  }
  ring.before = here;
  ring.give_back(true);
}

// All of a block's work. A and B are multiplied even if alpha is 0, and do not count then.
template <class Tiles, class Ring>
__device__ __forceinline__ void multiply_tiles_promoted(Ring& ring, int M, int N, int K, float alpha, float beta, Out* C, int ldc, const Batch& batch,
                                                        const TensorMap& a_map, const TensorMap& b_map, const TensorMap& c_map) {
  if (is_filler()) return fill_tiles<Tiles>(ring, M, N, K, 1, batch, a_map, b_map);
  registers_of_consumer();
  Tiles tiles(M, N, steps_of(K, 1), batch.count);
  const int group = ring.group;
  float sum[BN / 2];
  Leaving leaving(c_map, C, ldc, N, beta, ring.memory + AT_SLOTS + group * SLOTS * STRIP, STRIP);
  Work work, done;
  bool pending = false;  // the tile before has not left yet
  const auto take = [&] {
    if (alpha == 0)
#pragma unroll
      for (int i = 0; i < BN / 2; ++i) sum[i] = 0;
    leaving.take(sum, C + done.z * batch.stride_c, ldc, done.row + group * 64, done.column, M, N, alpha, beta);
  };
  for (; tiles.next(work); done = work, pending = true)
    multiply_promoted(ring, sum, work.steps, [&] {
      if (!pending) return;
      take();
      leaving.template put_all<SLOTS>(done.z);
    });
  if (pending) {  // the ring has done its work
    leaving.end();
    leaving.slots = ring.stage(0) + group * STRIP, leaving.apart = STAGE, leaving.slot = 0;
    some_sync<128>(1 + group);
    take();
    leaving.template put_all<PIECES>(done.z);
  }
  leaving.end();
}
