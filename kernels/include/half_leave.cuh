// How the sums of a warpgroup leave for C: rounded to pairs in registers, and by pieces of 64 x 64 through shared memory.
#pragma once
#include "half_ring.cuh"

constexpr int PIECES = (BN + 63) / 64;  // of a warpgroup's part of a tile

// Piece `i` of rounded sums, written as a box of C's map lies in shared memory. A lane has the address of a row of one of four matrices of
// 8 x 8: of those beside them only two bits differ.
__device__ __forceinline__ void write_piece(uint32_t to, const uint32_t (&rounded)[BN / 4], int i) {
  const unsigned warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32, corner = (warp * 16 + lane % 16) * 128 + ((lane / 16 ^ lane % 8) * 16);
#pragma unroll
  for (int j = 0; j < 8; j += 2)
    if (i * 8 + j < BN / 8) {
      const uint32_t* v = &rounded[(i * 8 + j) * 2];
      store_matrices(to + (corner ^ (j * 16)), v[0], v[1], v[2], v[3]);
    }
}
__device__ __forceinline__ void round_sums(uint32_t (&rounded)[BN / 4], float (&sum)[BN / 2], float alpha) {
  if (alpha != 1)
#pragma unroll
    for (int i = 0; i < BN / 2; ++i) sum[i] *= alpha;
#pragma unroll
  for (int i = 0; i < BN / 4; ++i) rounded[i] = pack(sum[2 * i], sum[2 * i + 1]);
}

// Rounds the sums and stores them from shared memory, where piece `i` is at `pieces` + i * `apart`. A warp does so with its 16 rows, which
// begin at (row, column) of C: 16 bytes a lane, or an element if C's rows have no whole pieces of 16 bytes.
__device__ __forceinline__ void store_rows(float (&sum)[BN / 2], uint8_t* pieces, int apart, Out* C, int ldc, int row, int column, int M, int N,
                                           float alpha) {
  const bool whole = (ldc % 8 | N % 8 | int(reinterpret_cast<size_t>(C) % 16)) == 0;
  uint32_t rounded[BN / 4];
  round_sums(rounded, sum, alpha);
#pragma unroll
  for (int i = 0; i < PIECES; ++i) {
    const uint8_t* from = pieces + i * apart;
    write_piece(shared_address(from), rounded, i);
    __syncwarp();
    const int lane = threadIdx.x % 32, first = threadIdx.x % 128 / 32 * 16, left = min(N - column, BN) - i * 64, high = M - row;
    Out* to = C + size_t(row) * ldc + column + i * 64;
    if (whole) {
#pragma unroll
      for (int r = first + lane / 8; r < first + 16; r += 4)
        if (r < high && lane % 8 * 8 < left)
          *reinterpret_cast<uint4*>(to + size_t(r) * ldc + lane % 8 * 8) = *reinterpret_cast<const uint4*>(from + r * 128 + (lane % 8 ^ r % 8) * 16);
    } else {
#pragma unroll 4
      for (int r = first; r < first + 16; ++r)
#pragma unroll
        for (int x = lane; x < 64; x += 32)
          if (r < high && x < left) to[size_t(r) * ldc + x] = *reinterpret_cast<const Out*>(from + r * 128 + (x / 8 ^ r % 8) * 16 + x % 8 * 2);
    }
  }
}

// The sums of a warpgroup's 64 rows leave, which begin at (row, column) of C: by whole lines if C is not read. No other warpgroup reads the ring
// where the pieces take its place.
__device__ __forceinline__ void leave_by_rows(float (&sum)[BN / 2], uint8_t* pieces, int apart, Out* C, int ldc, int row, int column, int M, int N,
                                              float alpha, float beta) {
  if (beta == 0) {
    some_sync<128>(1 + warp_index() / 4);  // all four warps have read the ring
    store_rows(sum, pieces, apart, C, ldc, row, column, M, N, alpha);
  } else {
    store_sums<BN>(sum, C, ldc, row, column, M, min(N, column + BN), alpha, beta, in_pairs(C, ldc), fresh(threadIdx.x % 128));
  }
}

// The same with operands that have changed places: a warpgroup has 64 columns of the tile's BM rows, and its sums are transposed on the way. 64
// rows at a time take a STRIP, the first of them at `strips`, the next `apart` further.
__device__ __forceinline__ void leave_by_columns(const float (&sum)[BM / 2], const uint8_t* strips, int apart, Out* C, int ldc, int row, int column,
                                                 int M, int N, float alpha, float beta) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
  if (beta != 0) {
    const bool pairs = in_pairs(C, ldc);
#pragma unroll
    for (int j = 0; j < BM / 8; ++j)
      store_across(make_float4(sum[4 * j], sum[4 * j + 1], sum[4 * j + 2], sum[4 * j + 3]), C, ldc, row + j * 8, column + warp * 16, M, N, alpha,
                   beta, pairs);
    return;
  }
  const unsigned corner = (lane / 16 * 8 + lane % 8) * 128 + ((warp * 2 + lane / 8 % 2) ^ lane % 8) * 16;
  some_sync<128>(1 + warp_index() / 4);  // all four warps have read the ring
#pragma unroll
  for (int i = 0; i < BM / 16; ++i) {
    uint32_t v[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) v[j] = pack(alpha * sum[8 * i + 2 * j], alpha * sum[8 * i + 2 * j + 1]);
    store_transposed(shared_address(strips) + i / 4 * apart + i % 4 * 2048 + corner, v[0], v[1], v[2], v[3]);
  }
  some_sync<128>(1 + warp_index() / 4);
  const bool whole = (ldc % 8 | N % 8 | int(reinterpret_cast<size_t>(C) % 16)) == 0;
#pragma unroll
  for (int i = 0; i < BM / 16; ++i) {
    const uint8_t* from = strips + i / 4 * apart + i % 4 * 2048;
    Out* to = C + size_t(row + i * 16) * ldc + column;
    const int high = M - row - i * 16, left = N - column;
    if (whole) {
      const int r = warp * 4 + lane / 8;
      if (r < high && int(lane % 8 * 8) < left)
        *reinterpret_cast<uint4*>(to + size_t(r) * ldc + lane % 8 * 8) = *reinterpret_cast<const uint4*>(from + r * 128 + (lane % 8 ^ r % 8) * 16);
    } else {
#pragma unroll
      for (int r = warp; r < 16; r += 4)
#pragma unroll
        for (int x = lane; x < 64; x += 32)
          if (r < high && x < left) to[size_t(r) * ldc + x] = *reinterpret_cast<const Out*>(from + r * 128 + (x / 8 ^ r % 8) * 16 + x % 8 * 2);
    }
  }
}

// The sums of tile after tile, by boxes of C's map.
struct Leaving {
  const TensorMap& c_map;
  uint32_t slots, apart;  // where the warpgroup's first slot is; bytes to the next
  bool boxes;             // C is not read, and its rows are whole pieces of 16 bytes: a box is stored by no less
  int slot = 0, row = 0, column = 0;
  uint32_t rounded[BN / 4];

  __device__ __forceinline__ Leaving(const TensorMap& c_map_, const Out* C, int ldc, int N, float beta, uint32_t slots_, uint32_t apart_)
      : c_map(c_map_), slots(slots_), apart(apart_) {
    boxes = beta == 0 && (ldc % 8 | N % 8 | int(reinterpret_cast<size_t>(C) % 16)) == 0;
  }

  // Takes the sums over. Without `boxes` they leave at once.
  __device__ __forceinline__ void take(float (&sum)[BN / 2], Out* C, int ldc, int row_, int column_, int M, int N, float alpha, float beta) {
    row = row_, column = column_;
    if (boxes)
      round_sums(rounded, sum, alpha);
    else
      store_sums<BN>(sum, C, ldc, row, column, M, min(N, column + BN), alpha, beta, in_pairs(C, ldc), fresh(threadIdx.x % 128));
  }

  // Lets piece `i` leave, for matrix z of a batch. SLOTS of them are used in turn.
  template <int SLOTS>
  __device__ __forceinline__ void put(int i, int z = 0) {
    const int group = warp_index() / 4;
    const uint32_t to = slots + slot * apart;
    if (is_storer()) stores_read<SLOTS - 1>();  // what was in the slot before has left
    some_sync<128>(1 + group);
    write_piece(to, rounded, i);
    async_may_follow();
    some_sync<128>(1 + group);
    if (is_storer()) {
      store_box(c_map, column + i * 64, row, z, to);
      stores_commit();
    }
    if (++slot == SLOTS) slot = 0;
  }
  template <int SLOTS>
  __device__ __forceinline__ void put_all(int z = 0) {
    if (boxes)
#pragma unroll
      for (int i = 0; i < PIECES; ++i) put<SLOTS>(i, z);
  }
  // No block may end while its shared memory is read.
  __device__ __forceinline__ void end() const {
    if (is_storer()) stores_read<0>();
  }
};
