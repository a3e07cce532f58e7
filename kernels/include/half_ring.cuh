// A ring of stages in shared memory, between the warp that fills them and the warpgroups that multiply. BM, BN and STAGES are the kernel's
// parameters: its block has a BM x BN tile of C, and a warpgroup 64 rows of it. If `SWAPPED` in the kernel's `Traits`, which stand before the
// include, the operands have changed places: a warpgroup has 64 columns of the tile. With `PING_PONG` each of two
// warpgroups has tiles of its own. A `LIGHT` block shares the SM with others.
#pragma once
#include "half_share.cuh"
#include "half_store.cuh"
#include "ring.cuh"

constexpr bool SWAPPED = Traits::SWAPPED;
constexpr int GROUPS = Traits::PING_PONG ? 2 : (SWAPPED ? BN : BM) / 64, CONSUMERS = GROUPS * 128;  // warpgroups that multiply; their threads
constexpr int SPAN = SWAPPED ? BM : BN;                                     // of what a warpgroup multiplies its 64 rows, or columns, by
using OfA = Operand<BM, TRANS_A>;
using OfB = Operand<BN, !TRANS_B>;
constexpr int A_BYTES = OfA::BYTES, STAGE = A_BYTES + OfB::BYTES, RING = STAGES * STAGE;
static_assert((SWAPPED ? BN : BM) % 64 == 0 && STAGES >= 2, "whole warpgroups; one stage is multiplied while another is filled");

// A place in a ring, and whether the turn is an odd one. Who takes turns with others goes BY places.
template <int LENGTH, int BY = 1>
struct Turn {
  int place = 0, parity = 0;
  __device__ __forceinline__ void next() {
    place += BY;
    if (BY == 1 ? place == LENGTH : place >= LENGTH) place -= LENGTH, parity ^= 1;
  }
  __device__ __forceinline__ void skip(int count) { place += count, parity ^= place / LENGTH % 2, place %= LENGTH; }
};

// Whether this warp is one of those behind the threads that multiply; whether this thread is the one that starts copies by tensor maps.
__device__ __forceinline__ bool is_filler() { return warp_index() >= CONSUMERS / 32; }
__device__ __forceinline__ bool is_copier() { return warp_index() == CONSUMERS / 32 && is_elected(); }

// The steps along K.
__device__ __forceinline__ int steps_of(int K, float alpha) { return alpha == 0 ? 0 : (K + DEPTH - 1) / DEPTH; }

// CM, CN and BLOCKS are those of `Sharing`. A stage is full after ARRIVALS: of the one thread that starts copies by tensor maps, or of each
// warp that writes there. It is empty when READERS of each block that gets it have read it: warps.
template <int CM = 1, int CN = 1, int BLOCKS = CM * CN, int ARRIVALS = 1, int READERS = CONSUMERS / 32>
struct Ring {
  uint32_t memory, barriers;
  int group;  // which of the block's warpgroups this is
  Sharing<CM, CN, BLOCKS> sharing;
  Turn<STAGES> turn;
  int before = 0;  // the place of the step before

  // `at` bytes into the shared memory are the barriers, 16 bytes a stage. All threads call it. The maps that are used are on their way
  // meanwhile.
  template <class... Maps>
  __device__ __forceinline__ Ring(const uint8_t* shared, int at, const Maps&... maps)
      : memory(shared_address(shared)), barriers(memory + at), group(warp_index() / 4) {
    if (warp_index() == 0 && is_elected()) (prefetch(maps), ...);
    begin_barriers<STAGES, CONSUMERS>(barriers, ARRIVALS, READERS * sharing.PEERS);
    if (sharing.PEERS > 1) {  // the others may copy to this block from here on
      cluster_arrive();
      cluster_wait();
    } else if (ARRIVALS > 1) {
      __syncthreads();
    } else {
      meet_filler<CONSUMERS>();
    }
  }
  __device__ __forceinline__ uint32_t full(int i) const { return barriers + i * 8; }
  __device__ __forceinline__ uint32_t empty(int i) const { return barriers + (STAGES + i) * 8; }
  __device__ __forceinline__ uint32_t stage(int i) const { return memory + i * STAGE; }

  // The filling thread: waits until the next stage is free, and starts its copies. (row, column) is the first element of the block's tile,
  // and z the number of its matrix.
  __device__ __forceinline__ void fill(const TensorMap& a_map, const TensorMap& b_map, int row, int column, int k, int z = 0) {
    const uint32_t a = stage(turn.place), b = a + A_BYTES, there = full(turn.place);
    barrier_wait(empty(turn.place), turn.parity ^ 1);  // in the first turn, the stages are free
    barrier_expect(there, STAGE);
    sharing.template copy_a<OfA>(a, a_map, row, k, z, there);
    sharing.template copy_b<OfB>(b, b_map, column, k, z, there);
    turn.next();
  }
  // The filling thread, at the end: waits until all stages have been given back. Then nobody arrives at this block's barriers any more, and
  // what it copied to others has come: it may leave before them.
  __device__ __forceinline__ void finish_filling() {
    if constexpr (Sharing<CM, CN, BLOCKS>::PEERS > 1)
      for (int i = 0; i < STAGES; ++i, turn.next()) barrier_wait(empty(turn.place), turn.parity ^ 1);
  }

  // A warpgroup that multiplies: step `s` of a tile. The products of a step are under way while those of the next begin, so a stage is
  // given back one step late.
  __device__ __forceinline__ void multiply_step(float (&d)[SPAN / 2], int s) {
    barrier_wait(full(turn.place), turn.parity);
    const uint32_t here = stage(turn.place);
    const uint64_t a = OfA::at(here + (SWAPPED ? 0 : group * STRIP)), b = OfB::at(here + A_BYTES + (SWAPPED ? group * STRIP : 0));
    if constexpr (SWAPPED)
      multiply_stage<OfB, OfA>(d, b, a, s > 0);
    else
      multiply_stage<OfA, OfB>(d, a, b, s > 0);
    wgmma_wait<1>();
    give_back(s > 0);
    before = turn.place;
    turn.next();
  }
  // After the last of `steps`: the sums are complete.
  __device__ __forceinline__ void finish(float (&d)[SPAN / 2], int steps) {
    wgmma_wait<0>();
    wgmma_done(d);
    give_back(steps > 0);
    if (steps == 0)
#pragma unroll
      for (int i = 0; i < SPAN / 2; ++i) d[i] = 0;
  }
  __device__ __forceinline__ void give_back(bool wanted) const { sharing.give_back(empty(before), wanted); }
};

// The 65,536 registers of an SM. A warpgroup that multiplies needs SPAN / 2 a thread for its sums alone. Where a block has one such warpgroup,
// two blocks are on an SM, and with one warp to fill the ring an even share is enough: 168 a thread. Where it has more, who fills is a whole
// warpgroup, too, and gives them most of its own, unless the block is light: then it has few sums.
constexpr bool EVEN = GROUPS == 1 || Traits::LIGHT;
constexpr int FILLING = EVEN ? 32 : 128, BLOCKS_PER_SM = EVEN ? 2 : 1;  // threads that fill; blocks
__device__ __forceinline__ void registers_of_producer() {
  if constexpr (!EVEN) give_registers_back<GROUPS == 2 ? 40 : 32>();
}
__device__ __forceinline__ void registers_of_consumer() {
  if constexpr (!EVEN) take_registers<GROUPS == 2 ? 232 : 160>();
}
