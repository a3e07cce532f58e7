// Floats as pairs of FP16 numbers, high and low, scaled by chunks of 64 of K, with a record of how well each chunk's rows fit.
#pragma once
#include <cuda_fp16.h>

#include "units.cuh"
#include "vector.cuh"

constexpr int CHUNK = 2 * DEPTH;  // of K: two units, each 512 bytes of high halves, then 512 of low ones
constexpr int LOW = UNIT / 2;     // bytes from a high half to its low half

// Of 8 rows of A, or columns of B, in one chunk: the powers of two that undo their scaling, times GAIN if the row has low halves other than
// zero, and eight counts in two words. A row of zeros loses nothing, and nothing is lost against it: its counts are the best that there are.
struct Group {
  float scale[8];
  uint32_t fit;        // bytes, each the least of the 8 rows: LARGE, MEDIUM, KEPT, FINITE
  uint32_t span;       // bytes: PRESENT, LEAST, 255 less GREATEST, NEAR
  float common;        // of B: the scale of 32 neighbouring columns, or 0 where they differ
  uint32_t easy;       // whether these rows fit so well that nothing need be counted
};
// `fit`: elements of at least 2^9 after scaling (all are below 2^15), of at least 2^3, those that surely lose no digits; whether none is
// infinite or NaN. `span`: half the number of medium elements of all 8 rows, the least and the greatest exponent field of their scales; how
// many elements are near the largest of their row.
// Cutting off loses about 2^-23 of a chunk's sum (measured: 0.75 of that for data of both signs, 1.5 for positive data). The gain gives it
// back if both row and column have low halves. Other sums are often exact, and stay as they are.
constexpr float GAIN = 1 + 0x1p-23f;
constexpr uint32_t GAINS = 1;  // the bit of a scale that says whether it has the gain
// Products of a whole sum that are so few that their last bits would be seen; and products near the largest of their chunk, times 64, that are
// so few that what is cut off beside them would be. Both are what there would be, were zeros and small numbers spread evenly.
constexpr int FEW = 33, FLAT = 128;
constexpr float LARGE = 512, MEDIUM = 8, SMALL = 0.125f, TINY = 0x1p-14f, NEAR = 0.125f;
constexpr uint32_t BEST = 64 | 64 << 8 | 64 << 16 | 1 << 24, NO_SPAN = ~0u;
constexpr uint32_t INFINITE = 0x7f800000;

__device__ __forceinline__ int chunks_of(int K) { return (K + CHUNK - 1) / CHUNK; }
__device__ __forceinline__ float power_of_two(int e) { return __uint_as_float(uint32_t(e + 127) << 23); }
__device__ __forceinline__ uint32_t byte(uint32_t word, int i) { return word >> 8 * i & 0xff; }
__device__ __forceinline__ uint32_t magnitude(float x) { return __float_as_uint(x) & 0x7fffffffu; }

// Five counts of one row's elements in a word, by the place of their lowest bits. LOST: small, and more than a normal FP16 number alone, so
// that digits may be lost. LOWS: not of elements, but of eights of them with a low half that is not zero.
enum Count { LARGES = 0, MEDIUMS = 7, LOST = 14, NEARS = 21, LOWS = 28 };
__device__ __forceinline__ uint32_t count_of(uint32_t counts, Count which) { return counts >> which & 0x7f; }

// The factor for a sum of a row of A and a column of B, by their scales. `keep` has the bit GAINS if the row's scale has the gain: only then
// the column's scale keeps its own.
__device__ __forceinline__ float factor(float row, float column, uint32_t keep) {
  return __uint_as_float(__float_as_uint(row) & ~GAINS) * __uint_as_float(__float_as_uint(column) & keep);
}

// How one row's 64 elements are scaled: so that the largest, whose bits are given, comes to lie in [2^14, 2^15).
struct Scaling {
  float up, down;
  __device__ explicit Scaling(uint32_t largest) {
    const int s = largest == 0 ? 0 : max(-113, min(141 - int(largest >> 23), 126));  // both factors are normal floats
    up = power_of_two(s), down = power_of_two(-s);
  }
  // Eight elements of a row whose largest has the bits `largest`, as high and low halves; returns their counts.
  __device__ uint32_t split(const float (&x)[8], uint32_t largest, uint4& high, uint4& low) const {
    const __half2 near = __float2half2_rn(NEAR * up * __uint_as_float(largest));
    // from 1024 on, the last bits of an FP16 number count
    __half2 h[4], l[4], larges = __float2half2_rn(1024), mediums = larges, nears = larges, least = __float2half2_rn(1);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float v = x[2 * i] * up, w = x[2 * i + 1] * up;
      h[i] = __floats2half2_rn(v, w);
      l[i] = __floats2half2_rn(v - __low2float(h[i]), w - __high2float(h[i]));
      const __half2 size = __habs2(h[i]);
      larges = __hadd2(larges, __hge2(size, __float2half2_rn(LARGE)));
      mediums = __hadd2(mediums, __hge2(size, __float2half2_rn(MEDIUM)));
      nears = __hadd2(nears, __hge2(size, near));
      least = __hmin2(least, size);
    }
    high = *reinterpret_cast<uint4*>(h), low = *reinterpret_cast<uint4*>(l);
    const auto both = [](__half2 count) {
      const uint32_t bits = *reinterpret_cast<uint32_t*>(&count);
      return (bits + (bits >> 16)) & 0xf;
    };
    uint32_t counts = both(larges) << LARGES | both(mediums) << MEDIUMS | both(nears) << NEARS;
    counts |= (low.x | low.y | low.z | low.w) != 0 ? 1 << LOWS : 0;
    if (__hlt(__hmin(__low2half(least), __high2half(least)), __float2half_rn(SMALL))) {  // which is rare
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float to = i % 2 ? __high2float(h[i / 2]) : __low2float(h[i / 2]);
        counts += fabsf(to) < SMALL && x[i] != 0 && (fabsf(to) < TINY || to != x[i] * up) ? 1 << LOST : 0;
      }
    }
    return counts;
  }
  // The record of 8 rows, of which every lane of 8 neighbours holds one, with `common` still to come. `beyond` elements of each lie past the
  // end of K; on one of the two sides they must count as large. A row that only fills up the group counts as full of numbers.
  __device__ void record(Group* group, uint32_t largest, uint32_t counts, int beyond, int lane, bool filling, bool write, int chunks) const {
    const uint32_t finite = largest < INFINITE, field = __float_as_uint(down) >> 23;
    uint32_t fit = BEST, span = NO_SPAN, present = filling ? CHUNK : 0;
    if (largest != 0) {
      present = count_of(counts, MEDIUMS) + beyond;
      fit = (count_of(counts, LARGES) + beyond) | present << 8 | (CHUNK - count_of(counts, LOST)) << 16 | finite << 24;
      span = 0xff | field << 8 | (255 - field) << 16 | count_of(counts, NEARS) << 24;
    }
    for (int d = 1; d < 8; d *= 2) {
      fit = __vminu4(fit, __shfl_xor_sync(~0u, fit, d)), span = __vminu4(span, __shfl_xor_sync(~0u, span, d));
      present += __shfl_xor_sync(~0u, present, d);
    }
    if (!write) return;
    group->scale[lane % 8] = counts >> LOWS ? down * GAIN : down;
    if (lane % 8 != 0) return;
    if (span != NO_SPAN) span = (span & ~0xffu) | min(present / 2, 255u);
    const bool easy = byte(fit, 3) && byte(fit, 2) == CHUNK && byte(span, 0) * byte(span, 0) * min(chunks, 4096) >= FEW * 1024 &&
                      byte(span, 1) >= 80 && byte(span, 2) >= 255 - 160 && byte(span, 3) * byte(span, 3) >= FLAT;
    group->fit = fit, group->span = span, group->easy = easy;
  }
};

// A warp splits 8 rows of one chunk of A, a lane two parts of 8 of a row. Rows below A are zeros.
__device__ __forceinline__ void split_rows(const float* A, int lda, int M, int K, int row0, int chunk, uint8_t* units0, uint8_t* units1,
                                           Group* group, int lane) {
  const int r = lane % 8, part = lane / 8, row = row0 + r;
  const bool vector = (lda % 4 | K % 4 | reinterpret_cast<size_t>(A) % 16) == 0;
  float x[2][8];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int k = chunk * CHUNK + i / 2 * DEPTH + part * 8 + i % 2 * 4;
    const float4 v = load4(A + size_t(row) * lda + k, row < M ? K - k : 0, vector);
    float* to = &x[i / 2][i % 2 * 4];
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
  }
  uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) largest = max(largest, magnitude(x[i / 8][i % 8]));
  for (int d = 8; d < 32; d *= 2) largest = max(largest, __shfl_xor_sync(~0u, largest, d));
  const Scaling scaling(largest);
  uint32_t counts = 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    uint4 high, low;
    counts += scaling.split(x[half], largest, high, low);
    uint8_t* to = (half == 0 ? units0 : units1) + part * 128 + r * 16;
    *reinterpret_cast<uint4*>(to) = high;
    *reinterpret_cast<uint4*>(to + LOW) = low;
  }
  for (int d = 8; d < 32; d *= 2) counts += __shfl_xor_sync(~0u, counts, d);
  scaling.record(group, largest, counts, max(0, (chunk + 1) * CHUNK - K), lane, row >= M, part == 0, chunks_of(K));
}

// Of COLUMNS columns of one chunk of op(B) what one of 128 threads splits: a warp takes a quarter of the chunk, a lane every 32nd column. Rows of
// op(A) are such columns where A is MN-major.
template <int COLUMNS>
struct Columns {
  static constexpr int STRIPS = (COLUMNS + 31) / 32;
  float x[STRIPS][2][8];

  template <bool MN_MAJOR>
  __device__ __forceinline__ void load(const float* B, int ldb, int N, int K, int column0, int chunk, int thread) {
    const int k0 = chunk * CHUNK + thread / 32 * 16, column = column0 + thread % 32;
    const size_t down = MN_MAJOR ? ldb : 1, across = MN_MAJOR ? 1 : ldb;  // to the next k, and to the next column
    const float* from = B + k0 * down + column * across;
    if (k0 + 16 <= K && column0 + STRIPS * 32 <= N) {
#pragma unroll
      for (int i = 0; i < 16; ++i, from += down)
#pragma unroll
        for (int s = 0; s < STRIPS; ++s) x[s][i / 8][i % 8] = from[s * 32 * across];
    } else {
#pragma unroll
      for (int i = 0; i < 16; ++i, from += down)
#pragma unroll
        for (int s = 0; s < STRIPS; ++s) x[s][i / 8][i % 8] = column + s * 32 < N && k0 + i < K ? from[s * 32 * across] : 0;
    }
  }
};

// 128 threads split COLUMNS columns of one chunk, and transpose them. There are `left` groups of columns, and `beyond` elements of each lie past
// the end of K, or count as 0. Several such 128 have each their `number`, below NUMBERS, and barrier FIRST_BARRIER + number.
template <int NUMBERS, int FIRST_BARRIER, int COLUMNS>
__device__ __forceinline__ void split_columns(const Columns<COLUMNS>& columns, int N, int K, int column0, uint8_t* units0, uint8_t* units1,
                                              Group* groups, int left, int thread, int number, int beyond) {
  constexpr int STRIPS = Columns<COLUMNS>::STRIPS;
  __shared__ uint32_t shared_largest[NUMBERS][4][STRIPS * 32];
  __shared__ uint32_t shared_counts[NUMBERS][4][STRIPS * 32];
  auto& largest_of = shared_largest[number];
  auto& counts_of = shared_counts[number];
  auto& x = columns.x;
  const int quarter = thread / 32, lane = thread % 32;
  uint32_t largest[STRIPS] = {};
#pragma unroll
  for (int s = 0; s < STRIPS; ++s) {
#pragma unroll
    for (int i = 0; i < 16; ++i) largest[s] = max(largest[s], magnitude(x[s][i / 8][i % 8]));
    largest_of[quarter][s * 32 + lane] = largest[s];
  }
  some_sync<128>(FIRST_BARRIER + number);
  bool alike[STRIPS];
  uint32_t scaled_by[STRIPS];  // the bits of the number that is brought to 2^14
#pragma unroll
  for (int s = 0; s < STRIPS; ++s) {
    for (int i = 0; i < 4; ++i) largest[s] = max(largest[s], largest_of[i][s * 32 + lane]);
    // Where 32 neighbours are alike they share a scale, which spares the product a multiplication for each element of C and chunk.
    const uint32_t of_all = __reduce_max_sync(~0u, largest[s]);
    alike[s] = __all_sync(~0u, of_all < INFINITE && (largest[s] == 0 || (largest[s] >> 23) + 6 >= of_all >> 23));
    scaled_by[s] = alike[s] ? of_all : largest[s];
    const Scaling scaling(scaled_by[s]);
    const int group = s * 4 + lane / 8;
    uint32_t counts = 0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int part = quarter * 2 + i;
      uint4 high, low;
      counts += scaling.split(x[s][i], largest[s], high, low);
      if (group >= left) continue;
      uint8_t* to = (part < 4 ? units0 : units1) + group * UNIT + part % 4 * 128 + lane % 8 * 16;
      *reinterpret_cast<uint4*>(to) = high;
      *reinterpret_cast<uint4*>(to + LOW) = low;
    }
    counts_of[quarter][s * 32 + lane] = counts;
  }
  some_sync<128>(FIRST_BARRIER + number);
#pragma unroll
  for (int s = 0; s < STRIPS; ++s) {
    if (s % 4 != quarter) continue;
    uint32_t counts = 0;
    for (int i = 0; i < 4; ++i) counts += counts_of[i][s * 32 + lane];
    Group* group = groups + s * 4 + lane / 8;
    const bool write = s * 4 + lane / 8 < left;
    const Scaling scaling(scaled_by[s]);
    scaling.record(group, largest[s], counts, beyond, lane, column0 + s * 32 + lane >= N, write, chunks_of(K));
    const bool lows = counts >> LOWS, some = __any_sync(~0u, lows), all = __all_sync(~0u, lows || largest[s] == 0);
    if (write && lane % 8 == 0) group->common = !alike[s] || (some && !all) ? 0 : some ? scaling.down * GAIN : scaling.down;
  }
}
