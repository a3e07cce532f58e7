/*---
title: Half precision, multicast
idea: two blocks that need the same part of an operand each copy half of it, for both
parameters: {BM: 128, BN: 256, STAGES: 4, SLOTS: 2, HIGH: 8, TURN: 1, CM: 2, CN: 1}
configurations:
  - {HIGH: [4, 8]}
  - {BM: 64, BN: 128, STAGES: 8}
  - {BN: 128, STAGES: 6}
  - {BN: 128, STAGES: 6, HIGH: 16, CM: 1, CN: 2}
  - {BN: 192}
  - {BM: 192, BN: 128, STAGES: 5, SLOTS: 1}
  - {BM: 192, BN: 192, SLOTS: 1}
  - {BM: 192, BN: 192, SLOTS: 1, CM: 1, CN: 2}
element_types: [bfloat16, float16]
layouts: [nn, nt, tn, tt]
batch: true
where:
  tiles: batch * ceil_div(M, CM * BM) * ceil_div(N, CN * BN)
block: ["2 * BM + (128 if BM > 64 else 32)"]
grid: ["CM * CN * min(tiles, sm_count // (CM * CN))"]
dynamic_shared: STAGES * ((BM + BN) * 128 + 16) + BM // 64 * SLOTS * 8192
tensor_maps:
  - {of: A, box: [64, (64 if TRANS_A else BM) // CN], swizzle: 128}
  - {of: B, box: [64, (BN if TRANS_B else 64) // CM], swizzle: 128}
  - {of: C, box: [64, 64], swizzle: 128}
requires: [BM == 64 or BM == 128 or BM == 192, BM < 192 or BN <= 192, BN == 128 or BN == 192 or BN == 256, STAGES >= 2 and 64 * STAGES >= BN, SLOTS >= 1, HIGH >= 1, CM * CN == 2]
architecture: sm_90a
global_reads: batch * K * (M * ceil_div(N, CN * BN) + N * ceil_div(M, CM * BM))
global_writes: batch * M * N
---*/
// Two blocks of a cluster that are above each other in C (CM) read the same columns of B; beside each other (CN), the same rows of A. Each
// copies half of that, and the copy engine writes it to the shared memory of both: half of the rows of A, or of B half of a step's rows, which lie
// across K. A third less comes from the L2.
//
// A stage is free when both blocks have read it. So a warp that is done with one says so to both (give_back in half_ring.cuh). That
// arrival is no release at the scope of the cluster, nor are the cluster's barriers: the compiler makes a fence of such a release, which waits for
// all of the thread's accesses to memory.
//
// What holds it back: the 132 SMs, and a number of tiles that they do not divide.

struct Traits {
  static constexpr bool SWAPPED = false, PING_PONG = false, LIGHT = false;
};
#include "half_tiles.cuh"

extern "C" __global__ void __cluster_dims__(CM * CN, 1, 1) __launch_bounds__(CONSUMERS + FILLING, BLOCKS_PER_SM)
    gemm(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, T* __restrict__ C,
         int ldc, BATCH_PARAMETER const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
         const __grid_constant__ TensorMap c_map) {
  extern __shared__ __align__(1024) uint8_t shared[];
  Ring<CM, CN> ring(shared, AT_BARRIERS, a_map, b_map, c_map);
  multiply_tiles<Tiles<CM, CN>>(ring, M, N, K, alpha, beta, C, ldc, BATCH_ARGUMENT, a_map, b_map, c_map);
}
