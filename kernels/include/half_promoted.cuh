// Sums that the threads of a warpgroup add up in FP32 step by step, because the tensor cores add with fewer digits: rungs 51 to 53. Their constant
// PIECE is how much of a tile is multiplied together.
#pragma once
#include "half_ring.cuh"

// No scales: sums of steps count as they are.
struct Unscaled {
  static constexpr bool SCALED = false;
};

// All `steps` of a tile that begins at `column`, at least one. The tensor cores' sums are those of one step, a piece of PIECE columns, or with
// SWAPPED rows, at a time. There is room for two pieces: one is multiplied while the threads add the other to `d`. What `d` held before may leave
// in `meanwhile`, while the first piece is multiplied.
template <class Ring, class Meanwhile, class Scales>
__device__ __forceinline__ void multiply_promoted(Ring& ring, float (&d)[SPAN / 2], int steps, int column, Scales& scales, const Meanwhile& meanwhile) {
  constexpr int PARTS = SPAN / PIECE, LOOP = PARTS == 1 ? 2 : PARTS;  // pieces of a step, and of a round of the loop
  static_assert(SPAN % PIECE == 0 && LOOP % 2 == 0, "pieces have two places in turn");
  static_assert(!Scales::SCALED || 128 % PIECE == 0, "the columns of a piece have one scale");
  float part[2][PIECE / 2];
  int here = 0;  // the place of the step in the ring
  const auto start = [&](int u) {
    if (u % PARTS == 0) {
      barrier_wait(ring.full(ring.turn.place), ring.turn.parity);
      ring.before = here, here = ring.turn.place;
      ring.turn.next();
    }
    if constexpr (Scales::SCALED) {
      scales.load(u, column, u % PARTS * PIECE);
      if (u % PARTS == PARTS - 1) scales.next();
    }
    const int own = ring.group * STRIP, piece = u % PARTS * PIECE * 128;
    const uint32_t a = ring.stage(here) + (SWAPPED ? piece : own), b = ring.stage(here) + A_BYTES + (SWAPPED ? own : piece);
    if constexpr (SWAPPED)
      multiply_stage<OfB, OfA>(part[u % 2], OfB::at(b), OfA::at(a), false);
    else
      multiply_stage<OfA, OfB>(part[u % 2], OfA::at(a), OfB::at(b), false);
  };
  const auto add = [&](int u) {
    wgmma_done(part[u % 2]);
    float factor[2];
    if constexpr (Scales::SCALED)
#pragma unroll
      for (int h = 0; h < 2; ++h) factor[h] = scales.of_row[u % 2][h] * scales.of_piece[u % 2];
#pragma unroll
    for (int i = 0; i < PIECE / 2; ++i) {
      float& sum = d[u % PARTS * (PIECE / 2) + i];
      if constexpr (Scales::SCALED)
        sum = fmaf(part[u % 2][i], factor[i / 2 % 2], sum);
      else
        sum += part[u % 2][i];
    }
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
  for (int i = 0; i < SPAN / 2; ++i) d[i] = 0;
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
