// Operands as they lie in memory, and so in a stage: K-major, with rows that run along K, or MN-major, with rows across it. A is K-major and B
// MN-major; the transpose of either is the other.
#pragma once
#include "half.cuh"
#include "layout.h"
#include "tensor_map.cuh"

// The matrices of a batch, which a kernel gets after ldc where there is one: how many, and the elements from one to the next.
#if BATCH
#define BATCH_PARAMETER const Batch batch,
#define BATCH_ARGUMENT batch
#else
struct Batch {
  int count = 1;
  long long stride_a = 0, stride_b = 0, stride_c = 0;
};
#define BATCH_PARAMETER
#define BATCH_ARGUMENT Batch()
#endif

// SIZE rows of op(A), or columns of op(B), by DEPTH of K. In both orders 64 of SIZE take a STRIP, so a ring need not know which it has.
template <int SIZE, bool MN_MAJOR_>
struct Operand {
  static constexpr bool MN_MAJOR = MN_MAJOR_;
  static constexpr int STRIPS = (SIZE + 63) / 64, BYTES = MN_MAJOR ? STRIPS * STRIP : SIZE * 128;

  // Its descriptor, and what is added to it for 32 bytes further along K, in units of 16 bytes. It is 1024 bytes from eight rows in memory to the next
  // eight, and MN-major, a STRIP from 64 columns there to the next 64.
  static constexpr int NEXT = (MN_MAJOR ? 16 * 128 : 16 * 2) / 16;
  static __device__ __forceinline__ uint64_t at(uint32_t address) {
    return uint64_t((address & 0x3ffff) >> 4) | uint64_t(MN_MAJOR ? STRIP >> 4 : 1) << 16 | uint64_t(1024 >> 4) << 32 | 1ull << 62;
  }

  // Starts the copies of one of PARTS of it, to all `blocks` of the cluster. It begins at element `first` of SIZE.
  template <int PARTS = 1>
  static __device__ __forceinline__ void copy(uint32_t to, const TensorMap& map, int first, int k, int z, uint32_t full, int part = 0,
                                              uint16_t blocks = 0) {
    constexpr int ROWS = (MN_MAJOR ? DEPTH : SIZE) / PARTS;  // of a box
#pragma unroll
    for (int i = 0; i < (MN_MAJOR ? STRIPS : 1); ++i)
      if (PARTS == 1)
        copy_box(to + i * STRIP, map, MN_MAJOR ? first + i * 64 : k, MN_MAJOR ? k : first, z, full);
      else
        copy_box(to + i * STRIP + part * ROWS * 128, map, MN_MAJOR ? first + i * 64 : k, (MN_MAJOR ? k : first) + part * ROWS, z, full,
                 blocks);
  }
};

// d = a * b for DEPTH of K, which is 128 bytes, or with `add` d += a * b: a group of products. a and b are descriptors of operands of the types A and B.
template <class A, class B, int N>
__device__ __forceinline__ void multiply_stage(float (&d)[N], uint64_t a, uint64_t b, bool add) {
  wgmma_begin();
#pragma unroll
  for (int i = 0; i < 4; ++i) multiply<2 * N, A::MN_MAJOR, B::MN_MAJOR>(d, a + i * A::NEXT, b + i * B::NEXT, add || i > 0);
  wgmma_commit();
}
