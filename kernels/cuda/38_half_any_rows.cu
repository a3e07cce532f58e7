/*---
title: Half precision, any rows
idea: where rows do not begin at multiples of 16 bytes there is no tensor map; the operands are first copied to rows that do
builds_on: 32_half_wide_tile
made_for: "2049x2047x2051"
parameters: {BM: 128, BN: 256, STAGES: 4, SLICES: 1}
configurations:
  - {BM: 64, BN: 64, STAGES: 8, SLICES: [1, 2]}
  - {BM: 64, BN: 64, STAGES: 6, SLICES: [4, 8]}
  - {BM: 64, BN: 64, STAGES: 3}
  - {BM: 64, BN: 128, STAGES: 2}
  - {BM: 64, BN: 128, STAGES: 7, SLICES: [1, 6]}
  - {BM: 192, BN: 192, STAGES: 4}
  - {BM: 128, BN: 256, STAGES: 4}
  - {BM: 128, BN: 128, STAGES: 6, SLICES: [1, 2, 4, 6]}
element_types: [bfloat16, float16]
layouts: [nn, nt, tn, tt]
where:
  rows_a: K if TRANS_A else M  # as they lie in memory
  rows_b: N if TRANS_B else K
  wide_a: ceil_div(M if TRANS_A else K, 64) * 8  # pieces of 16 bytes of a row of the copy
  wide_b: ceil_div(K if TRANS_B else N, 64) * 8
block: [256]
grid: ["ceil_div(rows_a * wide_a, 512) + ceil_div(rows_b * wide_b, 512)"]
then:
  - function: product
    block: ["2 * BM + (128 if BM > 64 else 32)"]
    grid: ["SLICES * ceil_div(M, BM)", "ceil_div(N, BN)"]
    dynamic_shared: max(STAGES * (BM + BN) * 128, 2 * (SLICES - 1) * ceil_div(BN // 8, SLICES) * BM * 32) + STAGES * 16 + 8
workspace: (rows_a * wide_a + rows_b * wide_b) * 16
tensor_maps:
  - {of: workspace, at: 0, width: M if TRANS_A else K, height: rows_a, pitch: wide_a * 16, box: [64, 64 if TRANS_A else BM], swizzle: 128}
  - {of: workspace, at: rows_a * wide_a * 16, width: K if TRANS_B else N, height: rows_b, pitch: wide_b * 16, box: [64, BN if TRANS_B else 64], swizzle: 128}
requires:
  - BM == 64 or BM == 128 or BM == 192
  - BN == 64 or BN == 128 or BN == 192 or BN == 256
  - BM < 192 or BN <= 192
  - STAGES >= 2 and 64 * STAGES >= BN
  - SLICES >= 1 and SLICES <= 8
needs: ["max(rows_a * wide_a, rows_b * wide_b) < 2 ** 32"]
architecture: sm_90a
global_reads: M * K + K * N + K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: M * K + K * N + M * N
---*/
// A tensor map describes rows that begin at multiples of 16 bytes. Where they do not, `gemm` copies both operands to a workspace, and `product`
// multiplies with maps of the workspace. Where C has few tiles, the blocks of a cluster share out K, as in rung 36. Of 16 bytes at an odd
// address the first element and four aligned words are read, and shifted. C is stored as in rung 32, an element a lane.
//
// Rows of the copy begin at multiples of 128 bytes: no two boxes of the maps have a line of the cache in common.
//
// What holds it back: two launches, and the copies' way through memory.

struct Traits {
  static constexpr bool SWAPPED = false, PING_PONG = false, LIGHT = false;
};
#include "half_leave.cuh"
#include "half_slices.cuh"

// Eight neighbors of a row that begins anywhere, where it goes on for `left` elements; zeros beyond its end.
__device__ __forceinline__ uint4 eight(const T* from, int left) {
  const uint16_t* elements = reinterpret_cast<const uint16_t*>(from);
  const bool odd = reinterpret_cast<size_t>(from) % 4 != 0;
  if (left >= 8 && !odd) {
    const uint32_t* w = reinterpret_cast<const uint32_t*>(from);
    return make_uint4(w[0], w[1], w[2], w[3]);
  }
  if (left >= 9 && odd) {
    const uint32_t* w = reinterpret_cast<const uint32_t*>(from + 1);
    const uint32_t a = w[0], b = w[1], c = w[2], d = w[3];
    return make_uint4(elements[0] | a << 16, __funnelshift_l(a, b, 16), __funnelshift_l(b, c, 16), __funnelshift_l(c, d, 16));
  }
  uint32_t v[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) v[i] = (left > 2 * i ? elements[2 * i] : 0) | (left > 2 * i + 1 ? uint32_t(elements[2 * i + 1]) << 16 : 0);
  return make_uint4(v[0], v[1], v[2], v[3]);
}

extern "C" __global__ void __launch_bounds__(256)
    gemm(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, T* __restrict__ C,
         int ldc, uint4* __restrict__ workspace, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map) {
  const int width_a = TRANS_A ? M : K, width_b = TRANS_B ? K : N;  // as the operands lie in memory
  const unsigned wide_a = (width_a + 63) / 64 * 8, wide_b = (width_b + 63) / 64 * 8;
  const unsigned count_a = (TRANS_A ? K : M) * wide_a, blocks_a = (count_a + 511) / 512;
  const bool of_a = blockIdx.x < blocks_a;
  const unsigned wide = of_a ? wide_a : wide_b, count = of_a ? count_a : (TRANS_B ? N : K) * wide_b;
  const unsigned first = (of_a ? blockIdx.x : blockIdx.x - blocks_a) * 512 + threadIdx.x;
  const int width = of_a ? width_a : width_b, ld = of_a ? lda : ldb;
  const T* from = of_a ? A : B;
  uint4* to = of_a ? workspace : workspace + count_a;
  uint4 v[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const unsigned at = first + i * 256, row = at / wide, x = (at - row * wide) * 8;
    if (at < count) v[i] = eight(from + size_t(row) * ld + x, width - int(x));
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
    if (first + i * 256 < count) to[first + i * 256] = v[i];
}

extern "C" __global__ void __cluster_dims__(SLICES, 1, 1) __launch_bounds__(CONSUMERS + FILLING, BLOCKS_PER_SM)
    product(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, T* __restrict__ C,
            int ldc, uint4* __restrict__ workspace, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map) {
  extern __shared__ __align__(1024) uint8_t shared[];
  multiply_slices<1, 1>(shared, M, N, K, alpha, beta, C, ldc, a_map, b_map, [&](float (&sum)[BN / 2], int group, int row, int column) {
    leave_by_rows(sum, shared + group * STRIP, STAGE, C, ldc, row + group * 64, column, M, N, alpha, beta);
  });
}
