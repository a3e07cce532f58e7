// Blocks that do one tile after another with sums that are added up in FP32: rungs 51 and 52.
#pragma once
#include "half_promoted.cuh"
#include "half_tiles.cuh"

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
    multiply_promoted(ring, sum, work.steps, work.column, scales, [&] {
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
