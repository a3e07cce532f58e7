/*---
title: Half precision, few rows
idea: where C has few rows, B is most of the work; it passes once through all SMs, as the operand of 64 rows that the matrix instruction never has fewer of
builds_on: 36_half_cluster_k
made_for: "64x4096x4096"
parameters: {ROWS: 16, STAGES: 11, SLICES: 2}
configurations:
  - {ROWS: 8, STAGES: 8, SLICES: 1}
  - {ROWS: 8, STAGES: 12, SLICES: [1, 2, 3, 4]}
  - {ROWS: 16, STAGES: 7, SLICES: 2}
  - {ROWS: 16, STAGES: 11, SLICES: [1, 2, 6, 8]}
  - {ROWS: 32, STAGES: 9, SLICES: [1, 2, 4]}
element_types: [bfloat16, float16]
layouts: [nn, nt, tn, tt]
block: [160]
grid: ["SLICES * ceil_div(N, 64)", "ceil_div(M, ROWS)"]
dynamic_shared: STAGES * (8192 + (64 if TRANS_A else ROWS) * 128 + 16)
tensor_maps:
  - {of: A, box: [64, 64 if TRANS_A else ROWS], swizzle: 128}
  - {of: B, box: [64, 64], swizzle: 128}
requires: [ROWS == 8 or ROWS == 16 or ROWS == 32 or ROWS == 64, STAGES >= 3, SLICES >= 1 and SLICES <= 8]
architecture: sm_90a
global_reads: K * (M * ceil_div(N, 64) + N * ceil_div(M, ROWS))
global_writes: M * N
---*/
// A language model that writes one word at a time multiplies a few rows by a large B: 16 x 4096 x 4096 is 0.5 GFLOP, and 34 MB to read. The
// matrix instruction always takes 64 rows, and with 16 rows of A three quarters of it are for nothing. Of the other operand it takes as few as
// 8 columns. So the operands change places: C^T = B^T * A^T. The instruction reads both as they lie, B across K and A along it.
//
// The rest is to keep as much of B as possible on its way. Two blocks fit on an SM, and each has a hundred kilobytes of stages: all
// SMs together then wait for 27 MB at a time. The blocks of a cluster share out K of 64 columns, as in rung 36. Few sums result, so
// each block reads the others' from their shared memory (rung 14), and stores its part of the rows.
//
// What holds it back: the memory that B comes from. In TN and TT, A comes in strips of 64 rows (docs/ladder/layouts.md): few rows copy as much as
// 64.

#include "cluster.cuh"
#include "half_operand.cuh"
#include "half_store.cuh"
#include "ring.cuh"

using OfA = Operand<ROWS, TRANS_A>;
using OfB = Operand<64, !TRANS_B>;
constexpr int STAGE = OfB::BYTES + OfA::BYTES, PITCH = 68;  // bytes; floats of a row of sums: lanes with neighboring rows have different banks
constexpr int CONSUMERS = 128;
static_assert(ROWS * PITCH * 4 <= STAGES * STAGE, "sums take the place of the stages");

extern "C" __global__ void __cluster_dims__(SLICES, 1, 1) __launch_bounds__(CONSUMERS + 32)
    gemm(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, T* __restrict__ C,
         int ldc, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map) {
  extern __shared__ __align__(1024) uint8_t shared[];
  const uint32_t memory = shared_address(shared), full = memory + STAGES * STAGE, empty = full + STAGES * 8;
  const int slice = blockIdx.x % SLICES, column = blockIdx.x / SLICES * 64, row = blockIdx.y * ROWS, thread = threadIdx.x;
  const bool filler = warp_index() >= CONSUMERS / 32;
  const int steps = alpha == 0 ? 0 : ((K + DEPTH - 1) / DEPTH - slice + SLICES - 1) / SLICES;
  if (warp_index() == 0 && is_elected()) prefetch(a_map), prefetch(b_map);
  begin_barriers<STAGES, CONSUMERS>(full, 1, CONSUMERS / 32);
  meet_filler<CONSUMERS>();

  float* own = reinterpret_cast<float*>(shared);
  if (filler) {
    if (is_elected())
      for (int step = 0; step < steps; ++step) {
        const int stage = step % STAGES, k = (step * SLICES + slice) * DEPTH;
        barrier_wait(empty + stage * 8, step / STAGES % 2 ^ 1);
        barrier_expect(full + stage * 8, STAGE);
        OfB::copy(memory + stage * STAGE, b_map, column, k, 0, full + stage * 8);
        OfA::copy(memory + stage * STAGE + STRIP, a_map, row, k, 0, full + stage * 8);
      }
  } else {
    float sum[ROWS / 2] = {};  // sum[4*j + 2*h + q]: row 8*j + 2*(thread%4) + q, column 16*(thread/32) + 8*h + thread%32/4
    for (int step = 0; step < steps; ++step) {
      const int stage = step % STAGES;
      barrier_wait(full + stage * 8, step / STAGES % 2);
      multiply_stage<OfB, OfA>(sum, OfB::at(memory + stage * STAGE), OfA::at(memory + stage * STAGE + STRIP), true);
      wgmma_wait<1>();  // the products of the step before: its stage is free
      barrier_arrive_if(empty + (step + STAGES - 1) % STAGES * 8, step > 0 && thread % 32 == 0);
    }
    wgmma_wait<0>();
    wgmma_done(sum);
    some_sync<CONSUMERS>(1);  // all have read the last stage
    float* to = own + thread % 4 * 2 * PITCH + thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
    for (int i = 0; i < ROWS / 2; ++i) to[(i / 4 * 8 + i % 2) * PITCH + i / 2 % 2 * 8] = sum[i];
  }
  __syncwarp();
  if (SLICES > 1)
    cluster_sync();
  else if (!filler)
    some_sync<CONSUMERS>(1);

  const bool pairs = in_pairs(C, ldc), fours = beta == 0 && (ldc % 4 | int(reinterpret_cast<size_t>(C) % 8)) == 0;
  if (!filler)
    for (int i = slice * CONSUMERS + thread; i < ROWS * 16; i += SLICES * CONSUMERS) {  // four neighbors each
      const int r = i / 16, c = i % 16 * 4, left = row + r < M ? N - column - c : 0;
      float4 total = make_float4(0, 0, 0, 0);
#pragma unroll
      for (int s = 0; s < SLICES; ++s) {
        const float4 v = *reinterpret_cast<const float4*>((SLICES > 1 ? shared_of(own, s) : own) + r * PITCH + c);
        total.x += v.x, total.y += v.y, total.z += v.z, total.w += v.w;
      }
      T* to = C + size_t(row + r) * ldc + column + c;
      if (fours && left >= 4) {
        *reinterpret_cast<uint2*>(to) = make_uint2(pack(alpha * total.x, alpha * total.y), pack(alpha * total.z, alpha * total.w));
      } else {
        store_pair(to, left, alpha, total.x, total.y, beta, pairs);
        store_pair(to + 2, left - 2, alpha, total.z, total.w, beta, pairs);
      }
    }
  if (SLICES > 1) {  // no block leaves while others read its shared memory
    __syncwarp();
    cluster_sync();
  }
}
