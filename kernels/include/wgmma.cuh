// Hopper's matrix instruction: the four warps of a warpgroup together multiply tiles that lie in shared memory (PTX ISA, "wgmma.mma_async").
#pragma once
#include <cstdint>

#include "store.cuh"

// Where a tile lies, K running along its rows: "core matrices" of 8 rows x 16 bytes, each 128 contiguous bytes; `along_k` bytes from one
// to the next along K, `along_rows` to the next eight rows (PTX ISA, "Matrix Descriptor Format", no swizzle). In a cluster an
// address of shared memory carries the rank of its block in the bits from 24 up: they are cut off.
__device__ __forceinline__ uint64_t descriptor(uint32_t address, uint32_t along_k, uint32_t along_rows) {
  return uint64_t((address & 0x3ffff) >> 4) | uint64_t(along_k >> 4) << 16 | uint64_t(along_rows >> 4) << 32;
}

// Multiplications run on their own: `begin` once the registers are ready, `wait` until all are done and the results are in them. A branch
// in between makes the compiler wait after each one.
__device__ __forceinline__ void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// The operands of the assembler text: registers %0 ... and the sums d[0] ..., by sixteens and thirty-twos.
#define WGMMA_R16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_R32 WGMMA_R16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_R64                                                                                                        \
  WGMMA_R32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, " \
            "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_R96                                                                                                        \
  WGMMA_R64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, " \
            "%85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_R128                                                                                                           \
  WGMMA_R96 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, " \
            "%115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_8(i) \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define WGMMA_D16 WGMMA_8(0), WGMMA_8(8)
#define WGMMA_D32 WGMMA_D16, WGMMA_8(16), WGMMA_8(24)
#define WGMMA_D64 WGMMA_D32, WGMMA_8(32), WGMMA_8(40), WGMMA_8(48), WGMMA_8(56)
#define WGMMA_D96 WGMMA_D64, WGMMA_8(64), WGMMA_8(72), WGMMA_8(80), WGMMA_8(88)
#define WGMMA_D128 WGMMA_D96, WGMMA_8(96), WGMMA_8(104), WGMMA_8(112), WGMMA_8(120)
#define WGMMA_CASE(n, type, rest, registers, a_, b_, add_)                                                  \
  if constexpr (N == n)                                                                                     \
    asm volatile("{.reg .pred p;\nsetp.ne.b32 p, %" #add_ ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n type \
                 " {" WGMMA_R##registers "}, %" #a_ ", %" #b_ ", p, 1, 1" rest ";}"                         \
                 : WGMMA_D##registers                                                                       \
                 : "l"(a), "l"(b), "r"(add))
#define WGMMA(name, type, rest)                                                                 \
  template <int N>                                                                              \
  __device__ __forceinline__ void name(float (&d)[N / 2], uint64_t a, uint64_t b, int add) {    \
    static_assert(N == 32 || N == 64 || N == 128 || N == 192 || N == 256, "widths written out"); \
    WGMMA_CASE(32, type, rest, 16, 16, 17, 18);                                                 \
    WGMMA_CASE(64, type, rest, 32, 32, 33, 34);                                                 \
    WGMMA_CASE(128, type, rest, 64, 64, 65, 66);                                                \
    WGMMA_CASE(192, type, rest, 96, 96, 97, 98);                                                \
    WGMMA_CASE(256, type, rest, 128, 128, 129, 130);                                            \
  }
// d = a * b, or with `add` d += a * b, FP32 sums: (64 x 16) * (16 x N) of FP16, (64 x 8) * (8 x N) of TF32. Thread t of the 128 has in
// d[4*j + 2*h + q] the element of row 16*(t/32) + 8*h + t%32/4 and column 8*j + 2*(t%4) + q.
WGMMA(wgmma_f16, "k16.f32.f16.f16", ", 0, 0")
WGMMA(wgmma_tf32, "k8.f32.tf32.tf32", "")

// To the nearest number with TF32's ten explicit bits.
__device__ __forceinline__ float to_tf32(float x) {
  uint32_t rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
  return __uint_as_float(rounded);
}

// Two neighbours of C <- alpha * (x, y) + beta * C, where the row goes on for `left` elements; with `vector` they are aligned.
__device__ __forceinline__ void store2(float* c, int left, float alpha, float x, float y, float beta, bool vector) {
  if (vector) {
    if (left <= 0) return;
    const float2 v = beta == 0 ? make_float2(0, 0) : *reinterpret_cast<float2*>(c);
    *reinterpret_cast<float2*>(c) = make_float2(alpha * x + beta * v.x, alpha * y + beta * v.y);
  } else {
    if (left > 0) store(c, alpha, x, beta);
    if (left > 1) store(c + 1, alpha, y, beta);
  }
}

// The sums of a warpgroup, whose thread `thread` has those above; (row, column) is the first element of its part of C.
template <int N>
__device__ __forceinline__ void store_sums(const float (&d)[N / 2], float* C, int ldc, int row, int column, int rows, int columns,
                                           float alpha, float beta, int thread) {
  const bool vector = (ldc % 2 | columns % 2 | reinterpret_cast<size_t>(C) % 8) == 0;
  row += thread / 32 * 16 + thread % 32 / 4, column += thread % 4 * 2;
#pragma unroll
  for (int h = 0; h < 2; ++h, row += 8)
#pragma unroll
    for (int j = 0; j < N / 8; ++j)
      store2(C + size_t(row) * ldc + column + 8 * j, row < rows ? columns - column - 8 * j : 0, alpha, d[4 * j + 2 * h],
             d[4 * j + 2 * h + 1], beta, vector);
}
