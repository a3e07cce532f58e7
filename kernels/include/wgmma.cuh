// Hopper's matrix instruction: the four warps of a warpgroup together multiply tiles that lie in shared memory (PTX ISA, "wgmma.mma_async").
#pragma once
#include <cstdint>

#include "store_sums.cuh"

constexpr int DEPTH = 128 / sizeof(T);  // of K in a row of 128 bytes

// Where a tile lies, K running along its rows: "core matrices" of 8 rows x 16 bytes, each 128 contiguous bytes; `along_k` bytes from one
// to the next along K, `along_rows` to the next eight rows (PTX ISA, "Matrix Descriptor Format", no swizzle). In a cluster an
// address of shared memory carries the rank of its block in the bits from 24 up: they are cut off.
__device__ __forceinline__ uint64_t descriptor(uint32_t address, uint32_t along_k, uint32_t along_rows) {
  return uint64_t((address & 0x3ffff) >> 4) | uint64_t(along_k >> 4) << 16 | uint64_t(along_rows >> 4) << 32;
}

// Multiplications run on their own: `begin` before the first, `commit` closes a group of them. A branch
// before the end of the wait makes the compiler wait after each one.
__device__ __forceinline__ void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LEFT>  // waits until all but the last LEFT groups are done
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
template <int COUNT>  // keeps the compiler from reading sums before this point
__device__ __forceinline__ void wgmma_done(float (&d)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// The operands of the assembler text: registers %0 ... and the sums d[0] ...
#define WGMMA_R4 "%0, %1, %2, %3"
#define WGMMA_R8 WGMMA_R4 ", %4, %5, %6, %7"
#define WGMMA_R16 WGMMA_R8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_R24 WGMMA_R16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_R32 WGMMA_R24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_R40 WGMMA_R32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_R48 WGMMA_R40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_R56 WGMMA_R48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_R64 WGMMA_R56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_R72 WGMMA_R64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define WGMMA_R80 WGMMA_R72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define WGMMA_R88 WGMMA_R80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define WGMMA_R96 WGMMA_R88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_R104 WGMMA_R96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define WGMMA_R112 WGMMA_R104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define WGMMA_R120 WGMMA_R112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define WGMMA_R128 WGMMA_R120 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WGMMA_8(i) WGMMA_4(i), WGMMA_4(i + 4)
#define WGMMA_D4 WGMMA_4(0)
#define WGMMA_D8 WGMMA_8(0)
#define WGMMA_D16 WGMMA_D8, WGMMA_8(8)
#define WGMMA_D24 WGMMA_D16, WGMMA_8(16)
#define WGMMA_D32 WGMMA_D24, WGMMA_8(24)
#define WGMMA_D40 WGMMA_D32, WGMMA_8(32)
#define WGMMA_D48 WGMMA_D40, WGMMA_8(40)
#define WGMMA_D56 WGMMA_D48, WGMMA_8(48)
#define WGMMA_D64 WGMMA_D56, WGMMA_8(56)
#define WGMMA_D72 WGMMA_D64, WGMMA_8(64)
#define WGMMA_D80 WGMMA_D72, WGMMA_8(72)
#define WGMMA_D88 WGMMA_D80, WGMMA_8(80)
#define WGMMA_D96 WGMMA_D88, WGMMA_8(88)
#define WGMMA_D104 WGMMA_D96, WGMMA_8(96)
#define WGMMA_D112 WGMMA_D104, WGMMA_8(104)
#define WGMMA_D120 WGMMA_D112, WGMMA_8(112)
#define WGMMA_D128 WGMMA_D120, WGMMA_8(120)
#define WGMMA_CASE(wanted, n, type, order, registers, a_, b_, add_, ...)                                     \
  if constexpr (N == n && (wanted))                                                                          \
    asm volatile("{.reg .pred p;\nsetp.ne.b32 p, %" #add_ ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n type  \
                 " {" WGMMA_R##registers "}, %" #a_ ", %" #b_ ", p, 1, 1" order ";}"                         \
                 : WGMMA_D##registers                                                                        \
                 : "l"(a), "l"(b), "r"(add), ##__VA_ARGS__)
#define WGMMA(name, type, order)                                                                \
  template <int N>                                                                              \
  __device__ __forceinline__ void name(float (&d)[N / 2], uint64_t a, uint64_t b, int add) {    \
    static_assert(N == 32 || N == 64 || N == 128 || N == 192 || N == 256, "widths written out"); \
    WGMMA_CASE(true, 32, type, order, 16, 16, 17, 18);                                            \
    WGMMA_CASE(true, 64, type, order, 32, 32, 33, 34);                                            \
    WGMMA_CASE(true, 128, type, order, 64, 64, 65, 66);                                           \
    WGMMA_CASE(true, 192, type, order, 96, 96, 97, 98);                                           \
    WGMMA_CASE(true, 256, type, order, 128, 128, 129, 130);                                       \
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
