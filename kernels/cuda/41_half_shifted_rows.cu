/*---
title: Half precision, shifted rows
idea: aligned pieces of rows that begin anywhere are copied to shared memory and shifted there; one launch, and K shared in a cluster
parameters: {BM: 64, BN: 64, STAGES: 5, SLICES: 2, FILLERS: 4}
configurations:
  - {BM: 64, BN: 64, STAGES: 5, SLICES: 1, FILLERS: 4}
  - {BM: 64, BN: 64, STAGES: 5, SLICES: 2, FILLERS: 4}
  - {BM: 64, BN: 64, STAGES: 8, SLICES: 4, FILLERS: 8}
  - {BM: 64, BN: 64, STAGES: 10, SLICES: 8, FILLERS: 8}
  - {BM: 64, BN: 128, STAGES: 7, SLICES: 4, FILLERS: 8}
  - {BM: 128, BN: 64, STAGES: 7, SLICES: 8, FILLERS: 8}
  - {BM: 128, BN: 128, STAGES: 6, SLICES: 1, FILLERS: 8}
  - {BM: 128, BN: 128, STAGES: 5, SLICES: 2, FILLERS: 8}
  - {BM: 128, BN: 128, STAGES: 4, SLICES: 4, FILLERS: 8}
element_types: [bfloat16, float16]
block: [2 * BM + 32 * FILLERS]
grid: ["SLICES * ceil_div(M, BM)", "ceil_div(N, BN)"]
dynamic_shared: max(STAGES * (BM + BN) * 128, 2 * (SLICES - 1) * BM * BN * 4 // SLICES) + STAGES * ((BM + BN) * 16 + 16) + 8
requires:
  - BM == 64 or BM == 128
  - BN == 64 or BN == 128
  - FILLERS == 4 or FILLERS == 8
  - SLICES == 1 or SLICES == 2 or SLICES == 4 or SLICES == 8
  - STAGES >= 3
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
// are not shifted. The blocks of a cluster share out K as in rung 36.
//
// What holds it back: every piece passes through shared memory twice before it is multiplied, and shifting takes instructions.

#include "half_leave.cuh"
#include "half_shifted.cuh"
#include "half_slices.cuh"

using OfA = Shifted<BM, 1>;
using OfB = Shifted<DEPTH, BN / 64>;
constexpr int NINTHS = OfA::BYTES + OfB::BYTES, AT_NINTHS = RING_OR_SUMS, AT_BARRIERS = AT_NINTHS + STAGES * NINTHS;
constexpr int AT_COME = AT_BARRIERS + STAGES * 16;
constexpr int THREADS = CONSUMERS + FILLERS * 32;

extern "C" __global__ void __cluster_dims__(SLICES, 1, 1) __launch_bounds__(THREADS, THREADS > 256 ? 1 : 2)
    gemm(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, T* __restrict__ C,
         int ldc) {
  extern __shared__ __align__(1024) uint8_t shared[];
  const uint32_t memory = shared_address(shared), come = memory + AT_COME;
  if (threadIdx.x == CONSUMERS) barrier_init(come, 1);
  Ring<1, 1, 1, FILLERS> ring(shared, AT_BARRIERS);
  const int slice = blockIdx.x % SLICES, row = blockIdx.x / SLICES * BM, column = blockIdx.y * BN;
  const int steps = steps_of_slice(K, alpha, slice);

  if (threadIdx.x >= CONSUMERS) {
    OfA a(A + size_t(row) * lda + slice * DEPTH, lda, SLICES * DEPTH);
    OfB b(B + size_t(slice) * DEPTH * ldb + column, ldb, size_t(SLICES) * DEPTH * ldb);
    Turn<STAGES> shifting;
    for (int step = 0; step < steps + AHEAD; ++step) {
      if (step < steps) {
        const int left = K - (step * SLICES + slice) * DEPTH, place = ring.turn.place;
        const uint32_t to = ring.stage(place), ninths = memory + AT_NINTHS + place * NINTHS;
        barrier_wait(ring.empty(place), ring.turn.parity ^ 1);  // in the first turn, the stages are free
        a.load(to, ninths, M - row, left);
        b.load(to + A_BYTES, ninths + OfA::BYTES, left, N - column);
        ring.turn.next();
      }
      commit();  // an empty group at the end: the wait below counts groups
      if (step < AHEAD) continue;
      wait<AHEAD>();
      __syncwarp();  // what the other lanes have copied has come, too
      uint8_t *stage = shared + shifting.place * STAGE, *ninths = shared + AT_NINTHS + shifting.place * NINTHS;
      a.shift(stage, ninths);
      b.shift(stage + A_BYTES, ninths + OfA::BYTES);
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
    const int group = threadIdx.x / 128;
    float sum[BN / 2];
    for (int step = 0; step < steps; ++step) ring.multiply_step(sum, step);
    ring.finish(sum, steps);
    if (SLICES > 1) {
      add_slices(sum, shared, come, slice, C, ldc, row, column, M, N, alpha, beta);
    } else if (beta == 0) {
      some_sync<128>(1 + group);  // all four warps have read the ring
      store_rows(sum, shared + group * STRIP, STAGE, C, ldc, row + group * 64, column, M, N, alpha);
    } else {
      store_sums<BN>(sum, C, ldc, row + group * 64, column, M, min(N, column + BN), alpha, beta, threadIdx.x % 128);
    }
  }
  if (SLICES > 1) leave_cluster();
}
