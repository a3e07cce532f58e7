// Sums that the threads of a warpgroup add up in FP32 step by step, because the tensor cores add with fewer digits: rungs 51 and 52. Their parameter
// PIECE is how many columns of a tile are multiplied together.
#pragma once
#include "half_tiles.cuh"

// No scales: sums of steps count as they are.
struct Unscaled {
  static constexpr bool SCALED = false;
};

// Scales in blocks: each row of A, and each 128 columns of B, have one for 128 of K, a step. Rows and columns beyond the matrices have those of the
// last ones.
struct BlockScales {
  static constexpr bool SCALED = true;
  const float *a, *b;
  int M, N, pitch;  // of rows of both
  int apart, turn;  // from a thread's row of A to its other one; from a step to the next
  const float *of_a, *of_b;         // those of the next step
  float of_row[2][2], of_piece[2];  // of the piece at each place

  __device__ __forceinline__ int block(int column) const { return min(column, N - 1) / 128 * pitch; }
  __device__ __forceinline__ void begin(const Work& work, int group) {
    const int row = work.row + group * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4, step = work.k(0) / DEPTH;
    apart = min(row + 8, M - 1) - min(row, M - 1), turn = work.back ? -1 : 1;
    of_a = a + size_t(step) * M + min(row, M - 1), of_b = b + block(work.column) + step;
  }
  // Starts to load those of piece u of a step, which begins at a column of the tile.
  __device__ __forceinline__ void load(int u, int column, int offset) {
    of_row[u % 2][0] = of_a[0], of_row[u % 2][1] = of_a[apart];
    of_piece[u % 2] = of_b[128 % BN == 0 ? 0 : block(column + offset) - block(column)];
  }
  __device__ __forceinline__ void next() { of_a += turn * M, of_b += turn; }
};

// All `steps` of a tile, at least one. The tensor cores' sums are those of one step, a piece of PIECE columns at a time. There is room for two
// pieces: one is multiplied while the threads add the other to `d`. What `d` held before may leave in `meanwhile`, while the first piece is
// multiplied.
template <class Ring, class Meanwhile, class Scales>
__device__ __forceinline__ void multiply_promoted(Ring& ring, float (&d)[BN / 2], const Work& work, Scales& scales, const Meanwhile& meanwhile) {
  constexpr int PARTS = BN / PIECE, LOOP = PARTS == 1 ? 2 : PARTS;  // pieces of a step, and of a round of the loop
  static_assert(BN % PIECE == 0 && LOOP % 2 == 0, "pieces have two places in turn");
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
      scales.load(u, work.column, u % PARTS * PIECE);
      if (u % PARTS == PARTS - 1) scales.next();
    }
    const uint32_t a = ring.stage(here) + ring.group * STRIP, b = ring.stage(here) + A_BYTES + u % PARTS * PIECE * 128;
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
  for (int i = 0; i < BN / 2; ++i) d[i] = 0;
  int left = work.steps * PARTS - 1;  // pieces
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
template <class Tiles, class Ring, class Scales = Unscaled>
__device__ __forceinline__ void multiply_tiles_promoted(Ring& ring, int M, int N, int K, float alpha, float beta, Out* C, int ldc, const Batch& batch,
                                                        const TensorMap& a_map, const TensorMap& b_map, const TensorMap& c_map, Scales scales = {}) {
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
  for (; tiles.next(work); done = work, pending = true) {
    if constexpr (Scales::SCALED) scales.begin(work, group);
    multiply_promoted(ring, sum, work, scales, [&] {
      if (!pending) return;
      take();
      leaving.template put_all<SLOTS>(done.z);
    });
  }
  if (pending) {  // the ring has done its work
    leaving.end();
    leaving.slots = ring.stage(0) + group * STRIP, leaving.apart = STAGE, leaving.slot = 0;
    some_sync<128>(1 + group);
    take();
    leaving.template put_all<PIECES>(done.z);
  }
  leaving.end();
}
