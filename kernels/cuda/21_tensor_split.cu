/*---
title: Tensor cores, FP32 accuracy
idea: each float is split into two halves whose three products the tensor cores sum up, at 3/16 of their FP16 rate but four times the FFMA rate; what two halves cannot hold is multiplied in float32
label: FP16 × 3 on tensor cores
builds_on: 15_last_wave
parameters: {BM: 128, BN: 128, STAGES: 6, SLICES: 1, DIRECT: 0}
configurations:
  - {BM: 128, BN: 128, STAGES: 6}
  - {BM: 64, BN: 256, STAGES: 5}
  - {BM: 128, BN: 64, STAGES: 6}
  - {BM: 128, BN: 128, STAGES: 5, SLICES: 2}
  - {BM: 128, BN: 64, STAGES: 6, SLICES: 8}
  - {BM: 128, BN: 32, STAGES: 6, SLICES: 2}
  - {BM: 128, BN: 32, STAGES: 4, SLICES: 4}
  - {BM: 64, BN: 64, STAGES: 8, SLICES: 2, DIRECT: 3}
layouts: [nn, nt, tn, tt]
block: [128]
grid: ["ceil_div(M, BM) * (BM // 8) * ceil_div(K, 256) + (0 if DIRECT else ceil_div(ceil_div(N, BN) * BN, 32) * ceil_div(K, 64))"]
then:
  - function: product
    block: ["256 + 128 * max(1, DIRECT)"]
    grid: ["ceil_div(M, BM) * ceil_div(N, BN) * SLICES if SLICES > 1 else min(ceil_div(M, BM) * ceil_div(N, BN), sm_count)"]
    dynamic_shared: STAGES * (BM + BN) * 128 + ((STAGES + 1) // 2 + 1) * ((BM + BN) * 6 + 32) + 16384 + STAGES * 8
workspace: ceil_div(K, 64) * (ceil_div(M, BM) * (BM // 8) + ceil_div(N, BN) * (BN // 8)) * 2096
requires:
  - BM == 64 or BM == 128
  - BN == 32 or BN == 64 or BN == 128 or BN == 256
  - 4096 <= BM * BN <= 16384
  - STAGES >= 3
  - 1 <= SLICES <= 8 and BM * BN // 512 % SLICES == 0 and 4 * BM * BN <= STAGES * (BM + BN) * 128
  - DIRECT == 0 or DIRECT <= 3 and 2 * DIRECT <= STAGES + 1 and BM * BN == 4096
architecture: sm_90a
global_reads: M * K + K * N + K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: M * K + K * N + M * N
---*/
// The tensor cores multiply FP16 numbers exactly and add them up in FP32. A float of 24 bits is the sum of two FP16 numbers of 11 bits
// each, high and low, but for one part in 2^22, and so a*b = high*high + high*low + low*high but for as much: three products of a
// unit fifteen times as fast as the FFMA lanes. `gemm` splits A and B into a workspace, `product` multiplies.
//
// FP16 has a short range, so 64 neighbours along K (a chunk) of a row of A, or of a column of B, are scaled by the power of two that brings
// the largest of them to 2^14. A chunk's sum is scaled back when it is added, in FP32, to the sum of all chunks. That
// addition has a second purpose: the tensor cores do not round their sums but cut them off, an error that grows with the length of
// a sum. Within a chunk the small products come first, while the sum is small and little is cut off. If both the row of A and the column of
// B have low halves, the sum is made larger by what is cut off on average. Integers of up to 11 bits have none, and their sums stay exact.
//
// Some data do not fit: infinities and NaN, products near the ends of the floats' range, sums of so few products that the last bits
// of each count, and numbers so far below the largest of their chunk (2^-17 of it) that they lose digits: few, in most data, and
// harmless beside the large ones, unless those meet zeros. `gemm` counts them, and how many large ones stand beside them, and `product`
// multiplies a chunk on the tensor cores only where the counts prove that what is lost is below 2^-20 of the sum of |a|*|b|. Elsewhere it
// does so in float32, for this chunk of the block's tile alone. So infinities and NaN come out as in any float32 kernel, and on no input
// do the halves lose more than that.
//
// Where B is large and M small, splitting costs more than multiplying: with DIRECT the producers of `product` split B on the way.
//
// What holds it back: power. At its full rate a tensor core draws more than the board may, and the clock falls. In NT and TT, 32 lanes read B from
// 32 rows (docs/ladder/layouts.md).

#include "cluster.cuh"
#include "layout.h"
#include "split_float.cuh"

constexpr int PRODUCERS = DIRECT ? DIRECT : 1;  // warpgroups that fill the stages
constexpr int TEAM = DIRECT ? 128 : 32;  // threads that fill them with a chunk; such teams take turns
constexpr int TEAMS = DIRECT ? DIRECT : STAGES < 7 ? (STAGES + 1) / 2 : 4;
static_assert(2 * TEAMS <= STAGES + 1, "no more teams than chunks in the ring");
constexpr int CONSUMERS = 256;               // threads: two warpgroups, side by side along M, or where a tile has but 64 rows, along N
constexpr int WN = BM == 128 ? BN : BN / 2;  // columns of a warpgroup's part of the tile; it has 64 rows
constexpr int A_BYTES = BM / 8 * UNIT, B_BYTES = BN / 8 * UNIT, STAGE = A_BYTES + B_BYTES;  // a stage holds half a chunk
constexpr int A_GROUPS = BM / 8 * sizeof(Group), B_GROUPS = BN / 8 * sizeof(Group), GROUPS = A_GROUPS + B_GROUPS;
// What goes with a chunk has a place in a ring of its own, one longer, for it is read after the chunk's stages have been given back: the
// groups, and behind them the verdict (in 8 bytes) and three barriers.
constexpr int RING = (STAGES + 1) / 2 + 1, COME = 8, READY = 16, READ = 24;
constexpr int AT_GROUPS = STAGES * STAGE, AT_CHUNKS = AT_GROUPS + RING * GROUPS, AT_SPARE = AT_CHUNKS + RING * 32;
constexpr int SPARE = 2048, AT_EMPTY = AT_SPARE + CONSUMERS / 32 * SPARE;  // bytes for each warp of the consumers

// An operand after splitting: its units, two of 32 of K for each chunk, and the records of its groups of 8 rows or columns.
struct Operand {
  Units units;
  Group* groups;

  __device__ uint8_t* unit(int chunk, int half, int group) const { return units.at(chunk * 2 + half, group); }
  __device__ Group* group(int chunk, int group) const { return groups + size_t(chunk) * units.count + group; }
};

__device__ __forceinline__ void partition(int M, int N, int K, uint8_t* workspace, Operand& a, Operand& b) {
  const int steps = 2 * chunks_of(K);
  a.units = {workspace, (M + BM - 1) / BM * (BM / 8)};
  b.units = {a.units.at(steps, 0), (N + BN - 1) / BN * (BN / 8)};
  a.groups = reinterpret_cast<Group*>(b.units.at(steps, 0)), b.groups = a.group(chunks_of(K), 0);
}

// A block splits 32 columns of a chunk of op(B), or of A where the rows of op(A) lie so: A has blocks beyond its last chunk then.
template <bool MN_MAJOR, bool OF_A>
__device__ __forceinline__ void split_block(const T* matrix, int ld, int count, int K, const Operand& to, int block) {
  const int strips = (to.units.count + 3) / 4, group = block % strips * 4, chunk = block / strips;
  if (OF_A && chunk >= chunks_of(K)) return;
  Columns<32> columns;
  columns.load<MN_MAJOR>(matrix, ld, count, K, group * 8, chunk, threadIdx.x);
  split_columns<1, 1>(columns, count, K, group * 8, to.unit(chunk, 0, group), to.unit(chunk, 1, group), to.group(chunk, group),
                      to.units.count - group, threadIdx.x, 0, OF_A ? max(0, (chunk + 1) * CHUNK - K) : 0);
}

extern "C" __global__ void __launch_bounds__(128, 9)
    gemm(int M, int N, int K, T alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, T beta, T* __restrict__ C,
         int ldc, uint8_t* __restrict__ workspace) {
  Operand a, b;
  partition(M, N, K, workspace, a, b);
  const int chunks = chunks_of(K), blocks_a = a.units.count * ((chunks + 3) / 4);
  if (TRANS_A && int(blockIdx.x) < blocks_a) {
    split_block<true, true>(A, lda, M, K, a, blockIdx.x);
  } else if (int(blockIdx.x) < blocks_a) {  // the block's warps take neighbouring chunks
    const int group = blockIdx.x % a.units.count, chunk = blockIdx.x / a.units.count * 4 + threadIdx.x / 32;
    if (chunk < chunks)
      split_rows(A, lda, M, K, group * 8, chunk, a.unit(chunk, 0, group), a.unit(chunk, 1, group), a.group(chunk, group), threadIdx.x % 32);
  } else {
    split_block<!TRANS_B, false>(B, ldb, N, K, b, blockIdx.x - blocks_a);
  }
}

// What is to be done with a chunk of the tile.
enum Verdict : uint32_t {
  TENSOR = 1,   // the tensor cores may multiply it
  STEEP = 2,    // but a few products may stand out so far that what is cut off beside them would be seen
  ALIKE = 4,    // neighbouring columns share scales
  SAME = 8      // all columns share one
};

// Element k of row i loses at most 2^-25 where it is counted as losing digits (half the last place of FP16 below 2^-14), and what it meets in
// column j is below 2^15; so C(i,j) loses up to (lost_a + lost_b) * 2^-10. Where p elements of row i are at least s and q of column j at least
// t, there are p + q - 64 places k where both are, and the sum of |a|*|b| is at least (p + q - 64) * s * t. And as every product is below
// 2^30 times the scales of both, no sum of K of them overflows where these multiply to 2^98 / K at most.
// Every lane of a warp finds out the same.
__device__ __forceinline__ uint32_t judge(const Group* a, const Group* b, int K, int lane) {
  const bool has_a = lane < BM / 8, has_b = lane < BN / 8;
  const bool easy = (!has_a || a[lane].easy) && (!has_b || b[lane].easy);
  const float common = has_b ? b[lane].common : b->common;
  const bool alike = __all_sync(~0u, common != 0), same = alike && __all_sync(~0u, common == b->common);
  const uint32_t scales = (alike ? ALIKE : 0) | (same ? SAME : 0);
  if (__all_sync(~0u, easy)) return TENSOR | scales;
  uint32_t fit_a = ~0u, fit_b = ~0u, span_a = ~0u, span_b = ~0u;
  if (has_a) fit_a = a[lane].fit, span_a = a[lane].span;
  if (has_b) fit_b = b[lane].fit, span_b = b[lane].span;
  for (int d = 1; d < 32; d *= 2) {
    fit_a = __vminu4(fit_a, __shfl_xor_sync(~0u, fit_a, d)), fit_b = __vminu4(fit_b, __shfl_xor_sync(~0u, fit_b, d));
    span_a = __vminu4(span_a, __shfl_xor_sync(~0u, span_a, d)), span_b = __vminu4(span_b, __shfl_xor_sync(~0u, span_b, d));
  }
  const int large_a = byte(fit_a, 0), medium_a = byte(fit_a, 1), large_b = byte(fit_b, 0), medium_b = byte(fit_b, 1);
  const int lost = 2 * CHUNK - int(byte(fit_a, 2)) - int(byte(fit_b, 2)), products = byte(span_a, 0) * byte(span_b, 0);
  const int least = byte(span_a, 1) + byte(span_b, 1), greatest = 510 - int(byte(span_a, 2)) - int(byte(span_b, 2));
  // `products` are 1024 times as many as a chunk is likely to have; exponent fields are 127 more than exponents
  const bool tensor = byte(fit_a, 3) && byte(fit_b, 3) && products * min(chunks_of(K), 4096) >= FEW * 1024 &&
                      least >= 254 - 149 && greatest <= 254 + 98 - (32 - __clz(K)) &&
                      // lost * 2^-10 <= 2^-20 * sum, where each of the two thresholds is LARGE or MEDIUM
                      (lost == 0 || lost <= 256 * (large_a + large_b - CHUNK) ||
                       lost <= 4 * (max(large_a + medium_b, medium_a + large_b) - CHUNK) || 16 * lost <= medium_a + medium_b - CHUNK);
  return (tensor ? TENSOR : 0) | (byte(span_a, 3) * byte(span_b, 3) < FLAT ? STEEP : 0) | scales;
}

// A chunk that the consumers multiply in float32 takes the place of its halves: as many bytes. A warp of them multiplies 16 rows and PASS
// columns at a time, a thread TM x 4 neighbours.
constexpr int TM = WN == 32 ? 4 : 8, PASS = WN == 32 ? 32 : 64;
__device__ __forceinline__ void fetch_plain(uint8_t* const (&stages)[2], const T* A, int lda, const T* B, int ldb, int rows, int columns,
                                            int depth, bool vector, int thread) {
  constexpr int WIDE = BN == 32 ? 8 : 16;  // threads along a row of B
  // From an element of op(A) or op(B) to the next one to the right, and to the one below.
  const int a_right = TRANS_A ? lda : 1, a_down = TRANS_A ? 1 : lda, b_right = TRANS_B ? ldb : 1, b_down = TRANS_B ? 1 : ldb;
  // Four of a row that goes on for `left`, and zeros beyond its end.
  const auto copy4 = [&](const float* to, const float* from, int right, int left, bool vector) {
    const uint32_t there = shared_address(to);
    if (vector) {
      copy_or_zero<4>(there, from, left > 0);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) copy_or_zero<1>(there + i * 4, from + size_t(i) * right, i < left);
    }
  };
#pragma unroll 1
  for (int half = 0; half < 2; ++half, A += size_t(DEPTH) * a_right, B += size_t(DEPTH) * b_down, depth -= DEPTH) {
    const float* stage = reinterpret_cast<const float*>(half == 0 ? stages[0] : stages[1]);
    const int k = thread % 8 * 4, c = thread % WIDE * 4;
    const float* from = A + size_t(thread / 8) * a_down + size_t(k) * a_right;
#pragma unroll 1
    for (int r = thread / 8; r < BM; r += TEAM / 8, from += TEAM / 8 * a_down)  // the fours of row r change places, for the banks' sake
      copy4(stage + r * DEPTH + (k ^ r / TM % 8 * 4), from, a_right, r < rows ? depth - k : 0, vector && !TRANS_A);
    from = B + size_t(thread / WIDE) * b_down + size_t(c) * b_right;
#pragma unroll 1
    for (int r = thread / WIDE; r < DEPTH; r += TEAM / WIDE, from += TEAM / WIDE * b_down)
#pragma unroll
      for (int d = 0; d < BN; d += WIDE * 4)
        copy4(stage + BM * DEPTH + r * BN + c + d, from + size_t(d) * b_right, b_right, r < depth ? columns - c - d : 0, vector && !TRANS_B);
  }
  commit();
  wait<0>();
  async_may_follow();
}

// Adds such a chunk, multiplied in float32, to `sum`, the warp's from (row, column) of the tile on. Sixteens of K are summed up first, and
// then their sums, where there are registers for both.
__device__ __forceinline__ void multiply_plain(float (&sum)[WN / 2], const float* const (&stages)[2], float* spare, int row, int column,
                                               int lane) {
  constexpr int DOWN = 16 / TM, NEXT = DIRECT ? 2 : 4;  // threads one below the other; elements of a row of A that a thread reads at once
  struct __align__(4 * NEXT) Neighbours {
    float v[NEXT];
  };
  const int down = lane % DOWN * TM, across = lane / DOWN * 4;
#pragma unroll
  for (int pass = 0; pass < WN; pass += PASS) {
    float total[TM][4] = {};
#pragma unroll 1
    for (int k0 = 0; k0 < CHUNK; k0 += 16) {
      const float* stage = k0 < DEPTH ? stages[0] : stages[1];
      const float* a = stage + (row + down) * DEPTH;
      const float* b = stage + BM * DEPTH + k0 % DEPTH * BN + column + pass + across;
      float product[TM][4] = {};
      auto& into = WN == 128 ? total : product;
#pragma unroll
      for (int k = 0; k < 16; k += NEXT) {
        Neighbours x[TM];
#pragma unroll
        for (int m = 0; m < TM; ++m)
          x[m] = *reinterpret_cast<const Neighbours*>(a + m * DEPTH + (k0 % DEPTH + k ^ (row + down) / TM % 8 * 4));
#pragma unroll
        for (int i = 0; i < NEXT; ++i) {
          float y[4];
          read4<4, 4>(y, b + (k + i) * BN);
#pragma unroll
          for (int m = 0; m < TM; ++m)
#pragma unroll
            for (int n = 0; n < 4; ++n) into[m][n] = fmaf(x[m].v[i], y[n], into[m][n]);
        }
      }
      if (WN != 128)
#pragma unroll
        for (int m = 0; m < TM; ++m)
#pragma unroll
          for (int n = 0; n < 4; ++n) total[m][n] += product[m][n];
    }
    // to the threads whose sums they belong to, through the warp's spare memory, 32 columns at a time
#pragma unroll
    for (int strip = 0; strip < PASS; strip += 32) {
      __syncwarp();
      if (across / 32 * 32 == strip)
#pragma unroll
        for (int m = 0; m < TM; ++m)  // eights of columns change places, for the banks' sake
          *reinterpret_cast<float4*>(spare + (down + m) * 32 + (across % 32 ^ m % 4 * 8)) =
              make_float4(total[m][0], total[m][1], total[m][2], total[m][3]);
      __syncwarp();
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const float* from = spare + (lane / 4 + 8 * h) * 32 + (8 * j ^ lane / 4 % 4 * 8) + lane % 4 * 2;
          const float2 v = *reinterpret_cast<const float2*>(from);
          const int i = (pass + strip + 8 * j) / 2 + 2 * h;
          sum[i] += v.x, sum[i + 1] += v.y;
        }
    }
  }
  async_may_follow();
}

// Adds a sum of the tensor cores, scaled back. Row row0 and column part_column of the tile are the warp's first. The columns' scales bring
// the gain; rows that have none take it off, and so do steep chunks, of which less is cut off.
__device__ __forceinline__ void promote(float (&sum)[WN / 2], const float (&acc)[WN / 2], const Group* a, const Group* b, uint32_t verdict,
                                        int row0, int part_column, int lane) {
  const float a0 = a[row0 / 8].scale[lane / 4], a1 = a[row0 / 8 + 1].scale[lane / 4];
  const auto keep = [&](float row) { return verdict & STEEP ? ~GAINS : __float_as_uint(row) | ~GAINS; };
  const uint32_t keep0 = keep(a0), keep1 = keep(a1);
  b += part_column / 8;
  if (verdict & SAME) {
    const float f0 = factor(a0, b->common, keep0), f1 = factor(a1, b->common, keep1);
#pragma unroll
    for (int i = 0; i < WN / 2; ++i) sum[i] = fmaf(acc[i], i % 4 < 2 ? f0 : f1, sum[i]);
  } else if (verdict & ALIKE) {
#pragma unroll
    for (int i = 0; i < WN / 16; ++i) {
      const float common = b[2 * i].common, f0 = factor(a0, common, keep0), f1 = factor(a1, common, keep1);
#pragma unroll
      for (int j = 8 * i; j < 8 * i + 8; ++j) sum[j] = fmaf(acc[j], j % 4 < 2 ? f0 : f1, sum[j]);
    }
  } else {
#pragma unroll
    for (int j = 0; j < WN / 8; ++j) {
      const float2 s = *reinterpret_cast<const float2*>(&b[j].scale[lane % 4 * 2]);
      sum[j * 4] = fmaf(acc[j * 4], factor(a0, s.x, keep0), sum[j * 4]);
      sum[j * 4 + 1] = fmaf(acc[j * 4 + 1], factor(a0, s.y, keep0), sum[j * 4 + 1]);
      sum[j * 4 + 2] = fmaf(acc[j * 4 + 2], factor(a1, s.x, keep1), sum[j * 4 + 2]);
      sum[j * 4 + 3] = fmaf(acc[j * 4 + 3], factor(a1, s.y, keep1), sum[j * 4 + 3]);
    }
  }
}

// One warpgroup, or with DIRECT several, brings tiles to shared memory and judges them; two warpgroups multiply them. Who waits at a barrier knows
// of its phase only whether it is odd. So there are no more teams than chunks in the ring: when one comes to a stage, what it waited for at
// its last chunk was given back after that stage was the time before last. The barriers:
//   come of a chunk: one arrival, that of the thread that announces the bytes of its groups and of both stages, and these bytes;
//   ready of a chunk: all threads of the team, when it has judged the chunk, and has brought what is multiplied in float32;
//   empty of a stage, read of a chunk's groups: all consumers, after their last read; where a stage held floats, a fence puts the bulk copies
//   after that.
extern "C" __global__ void __cluster_dims__(SLICES, 1, 1) __launch_bounds__(128 * PRODUCERS + CONSUMERS, 1)
    product(int M, int N, int K, T alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, T beta, T* __restrict__ C,
            int ldc, uint8_t* __restrict__ workspace) {
  extern __shared__ __align__(1024) uint8_t shared[];
  const uint32_t memory = shared_address(shared), chunks = memory + AT_CHUNKS, empty = memory + AT_EMPTY;
  const int rows = (M + BM - 1) / BM, columns = (N + BN - 1) / BN;
  const int slice = blockIdx.x % SLICES, first = blockIdx.x / SLICES, step = gridDim.x / SLICES;  // the blocks of a cluster share a tile
  // The last chunks come first: the split wrote them last, and so they may still be in the L2. Slices take turns. With alpha == 0 there are
  // none: as in BLAS, A and B do not count then.
  const int last_chunk = alpha == 0 ? -1 : chunks_of(K) - 1 - slice;
  Operand a, b;
  partition(M, N, K, workspace, a, b);

  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) barrier_init(empty + i * 8, CONSUMERS);
    for (uint32_t at = chunks; at < chunks + RING * 32; at += 32)
      barrier_init(at + COME, 1), barrier_init(at + READY, TEAM), barrier_init(at + READ, CONSUMERS);
    barriers_ready();
  }
  __syncthreads();

  if (threadIdx.x < 128 * PRODUCERS) {
    give_registers_back<DIRECT ? 88 : 40>();
    const int team = threadIdx.x / TEAM, thread = threadIdx.x % TEAM;
    int stage = 0, stage_parity = 1, place = 0, parity = 0, turn = 0;
    for (int t = first; t < rows * columns; t += step) {
      const Position tile(t, rows, columns);
      const int group_a = tile.row * (BM / 8), group_b = tile.column * (BN / 8);
      for (int chunk = last_chunk; chunk >= 0; chunk -= SLICES) {
        uint8_t* to[2];
        uint32_t freed[2], parities[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          to[half] = shared + stage * STAGE, freed[half] = empty + stage * 8, parities[half] = stage_parity;
          if (++stage == STAGES) stage = 0, stage_parity ^= 1;
        }
        if (turn == team) {
          Group* const groups = reinterpret_cast<Group*>(shared + AT_GROUPS + place * GROUPS);
          const uint32_t at = chunks + place * 32;
          Columns<BN> columns;  // of B, underway while the stages are waited for
          if (DIRECT) columns.load<!TRANS_B>(B, ldb, N, K, tile.column * BN, chunk, thread);
          barrier_wait(at + READ, parity ^ 1);
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            barrier_wait(freed[half], parities[half]);
            if (thread == 0) {
              if (half == 0) {
                barrier_expect(at + COME, DIRECT ? 2 * A_BYTES + A_GROUPS : 2 * STAGE + GROUPS);
                copy_bulk(shared_address(groups), a.group(chunk, group_a), A_GROUPS, at + COME);
                if (!DIRECT) copy_bulk(shared_address(groups + BM / 8), b.group(chunk, group_b), B_GROUPS, at + COME);
              }
              copy_bulk(shared_address(to[half]), a.unit(chunk, half, group_a), A_BYTES, at + COME);
              if (!DIRECT) copy_bulk(shared_address(to[half] + A_BYTES), b.unit(chunk, half, group_b), B_BYTES, at + COME);
            }
          }
          if (DIRECT) {
            split_columns<PRODUCERS, 2>(columns, N, K, tile.column * BN, to[0] + A_BYTES, to[1] + A_BYTES, groups + BM / 8, BN / 8, thread,
                                        team, 0);
            async_may_follow();
            some_sync<TEAM>(2 + team);
          }
          barrier_wait(at + COME, parity);
          const uint32_t verdict = judge(groups, groups + BM / 8, K, thread % 32);
          if (!(verdict & TENSOR)) {
            int row = tile.row * BM, column = tile.column * BN, k = chunk * CHUNK, here = thread;
            asm volatile("" : "+r"(row), "+r"(column), "+r"(k), "+r"(here));  // nothing is computed of these before it is needed
            const bool vector = ((lda | ldb | K | N) % 4 | (reinterpret_cast<size_t>(A) | reinterpret_cast<size_t>(B)) % 16) == 0;
            fetch_plain(to, TRANS_A ? A + size_t(k) * lda + row : A + size_t(row) * lda + k, lda,
                        TRANS_B ? B + size_t(column) * ldb + k : B + size_t(k) * ldb + column, ldb, M - row, N - column, K - k, vector, here);
          }
          if (thread == 0) *reinterpret_cast<uint32_t*>(shared + AT_CHUNKS + place * 32) = verdict;
          barrier_arrive(at + READY);
        }
        if (++place == RING) place = 0, parity ^= 1;
        if (++turn == TEAMS) turn = 0;
      }
    }
  } else {
    take_registers<DIRECT ? 104 : 232>();
    const int consumer = threadIdx.x - 128 * PRODUCERS, thread = consumer % 128, lane = thread % 32;
    const int part_row = BM == 128 ? consumer / 128 * 64 : 0, part_column = BM == 128 ? 0 : consumer / 128 * WN;  // of the tile
    float sum[WN / 2], acc[WN / 2], long_sum[WN / 2];
    const int often = chunks_of(K) < 64 * SLICES ? 3 : 15;  // long sums are added up by 4 or 16 chunks
    int stage = 0, place = 0, parity = 0;
    for (int t = first; t < rows * columns; t += step) {
      const Position tile(t, rows, columns);
#pragma unroll
      for (int i = 0; i < WN / 2; ++i) sum[i] = long_sum[i] = 0;

      for (int chunk = last_chunk; chunk >= 0; chunk -= SLICES) {
        const uint32_t here = chunks + place * 32;
        barrier_wait(here + COME, parity);
        barrier_wait(here + READY, parity);
        const uint32_t verdict = __shfl_sync(~0u, *reinterpret_cast<uint32_t*>(shared + AT_CHUNKS + place * 32), 0);
        const Group* groups_a = reinterpret_cast<const Group*>(shared + AT_GROUPS + place * GROUPS);
        const Group* groups_b = groups_a + BM / 8;
        if (++place == RING) place = 0, parity ^= 1;
        int at[2];
        uint32_t freed[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          at[half] = stage * STAGE, freed[half] = empty + stage * 8;
          if (++stage == STAGES) stage = 0;
        }
        if (verdict & TENSOR) {
          constexpr int TO_LOW = LOW / 16, NEXT = 256 / 16;  // in a descriptor's units of 16 bytes: the low halves; 16 further along K
          uint64_t da[2], db[2];
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            da[half] = descriptor(memory + at[half] + part_row * (UNIT / 8), 128, UNIT);
            db[half] = descriptor(memory + at[half] + A_BYTES + part_column * (UNIT / 8), 128, UNIT);
          }
          const auto ia = [&](int i) { return (i < 2 ? da[0] : da[1]) + i % 2 * NEXT; };
          const auto ib = [&](int i) { return (i < 2 ? db[0] : db[1]) + i % 2 * NEXT; };
          const auto small = [&](int i, int add) {  // the products of less than 2^-10 of the others come first
            wgmma_f16<WN>(acc, ia(i) + TO_LOW, ib(i), add);
            wgmma_f16<WN>(acc, ia(i), ib(i) + TO_LOW, 1);
          };
          const auto large = [&](int i) { wgmma_f16<WN>(acc, ia(i), ib(i), 1); };
          if (verdict & STEEP) {
#pragma unroll 1
            for (int i = 0; i < 4; ++i) {
              wgmma_begin();
              small(i, 0);
              large(i);
              wgmma_commit();
              wgmma_wait<0>();
              promote(sum, acc, groups_a, groups_b, verdict, part_row + thread / 32 * 16, part_column, lane);
            }
          } else {
            wgmma_begin();
#pragma unroll
            for (int i = 0; i < 4; ++i) small(i, i > 0);
#pragma unroll
            for (int i = 0; i < 4; ++i) large(i);
            wgmma_commit();
            wgmma_wait<0>();
          }
        } else {
          const float* const stages[2] = {reinterpret_cast<float*>(shared + at[0]), reinterpret_cast<float*>(shared + at[1])};
          float* spare = reinterpret_cast<float*>(shared + AT_SPARE + consumer / 32 * SPARE);
          multiply_plain(sum, stages, spare, part_row + thread / 32 * 16, part_column, lane);
#pragma unroll
          for (int i = 0; i < WN / 2; ++i) acc[i] = 0;  // so the compiler knows that its registers were free for this
        }
        barrier_arrive(freed[0]);
        barrier_arrive(freed[1]);
        if ((verdict & (TENSOR | STEEP)) == TENSOR)
          promote(sum, acc, groups_a, groups_b, verdict, part_row + thread / 32 * 16, part_column, lane);
        barrier_arrive(here + READ);
        if ((chunk / SLICES & often) == 0) {  // the last time after the last chunk
#pragma unroll
          for (int i = 0; i < WN / 2; ++i) long_sum[i] += sum[i], sum[i] = 0;
        }
      }
#pragma unroll
      for (int i = 0; i < WN / 2; ++i) sum[i] = long_sum[i];

      if (SLICES == 1) {
        const bool pairs = (ldc % 2 | N % 2 | reinterpret_cast<size_t>(C) % 8) == 0;
        store_sums<WN>(sum, C, ldc, tile.row * BM + part_row, tile.column * BN + part_column, M, N, alpha, beta, pairs, thread);
      } else {  // into the stages, which are done with: there is one tile a cluster
        some_sync<CONSUMERS>(1);
#pragma unroll
        for (int i = 0; i < WN / 4; ++i) reinterpret_cast<float2*>(shared)[i * CONSUMERS + consumer] = make_float2(sum[2 * i], sum[2 * i + 1]);
      }
    }
  }
  if (SLICES > 1) {  // every block adds up its part of the tile, always in the same order
    __syncwarp();
    cluster_sync();
    if (threadIdx.x >= 128 * PRODUCERS) {
      const int consumer = threadIdx.x - 128 * PRODUCERS, thread = consumer % 128, lane = thread % 32;
      const Position tile(first, rows, columns);
      const int row = tile.row * BM + (BM == 128 ? consumer / 128 * 64 : 0) + thread / 32 * 16 + lane / 4;
      const int column = tile.column * BN + (BM == 128 ? 0 : consumer / 128 * WN) + lane % 4 * 2;
      const bool vector = (ldc % 2 | N % 2 | reinterpret_cast<size_t>(C) % 8) == 0;
      constexpr int PAIRS = WN / 4 / SLICES;
#pragma unroll
      for (int n = 0; n < PAIRS; ++n) {
        const int i = slice * PAIRS + n, r = row + i % 2 * 8, c = column + i / 2 * 8;
        float2 total = make_float2(0, 0);
#pragma unroll
        for (int s = 0; s < SLICES; ++s) {
          const float2 v = shared_of(reinterpret_cast<const float2*>(shared), s)[i * CONSUMERS + consumer];
          total.x += v.x, total.y += v.y;
        }
        store_pair(C + size_t(r) * ldc + c, r < M ? N - c : 0, alpha, total.x, total.y, beta, vector);
      }
    }
    __syncwarp();
    cluster_sync();  // no block leaves while others still read its shared memory
  }
}
