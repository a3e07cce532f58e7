// Hopper's matrix instruction for elements of 16 bits (PTX ISA, "wgmma.mma_async"): 64 rows of one operand by up to 256 columns of the other
// by 16 of K, with sums in FP32. Both operands lie in shared memory as tensor maps bring them (tensor_map.cuh).
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

constexpr int DEPTH = 64;           // of K in a box: a row of 128 bytes
constexpr int STRIP = 64 * 128;     // bytes of 64 rows, or 64 columns, by DEPTH of K

// Where an operand lies whose rows run along K. It is 1024 bytes from eight rows to the next eight.
__device__ __forceinline__ uint64_t along_k(uint32_t address) {
  return uint64_t((address & 0x3ffff) >> 4) | 1ull << 16 | uint64_t(1024 >> 4) << 32 | 1ull << 62;
}
// Where one lies whose rows run across K: a row is 64 columns at one k. The next 64 columns are a STRIP further.
__device__ __forceinline__ uint64_t across_k(uint32_t address) {
  return uint64_t((address & 0x3ffff) >> 4) | uint64_t(STRIP >> 4) << 16 | uint64_t(1024 >> 4) << 32 | 1ull << 62;
}
constexpr int NEXT_ALONG = 16 * 2 / 16, NEXT_ACROSS = 16 * 128 / 16;  // in a descriptor's units of 16 bytes: 16 further along K

// Multiplications run on their own: `begin` before the first, `commit` closes a group of them.
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
#define HALF_R4 "%0, %1, %2, %3"
#define HALF_R8 HALF_R4 ", %4, %5, %6, %7"
#define HALF_R16 HALF_R8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define HALF_R24 HALF_R16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define HALF_R32 HALF_R24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define HALF_R40 HALF_R32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define HALF_R48 HALF_R40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define HALF_R56 HALF_R48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define HALF_R64 HALF_R56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define HALF_R72 HALF_R64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define HALF_R80 HALF_R72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define HALF_R88 HALF_R80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define HALF_R96 HALF_R88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define HALF_R104 HALF_R96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define HALF_R112 HALF_R104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define HALF_R120 HALF_R112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define HALF_R128 HALF_R120 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define HALF_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define HALF_8(i) HALF_4(i), HALF_4(i + 4)
#define HALF_D4 HALF_4(0)
#define HALF_D8 HALF_8(0)
#define HALF_D16 HALF_D8, HALF_8(8)
#define HALF_D24 HALF_D16, HALF_8(16)
#define HALF_D32 HALF_D24, HALF_8(24)
#define HALF_D40 HALF_D32, HALF_8(32)
#define HALF_D48 HALF_D40, HALF_8(40)
#define HALF_D56 HALF_D48, HALF_8(48)
#define HALF_D64 HALF_D56, HALF_8(56)
#define HALF_D72 HALF_D64, HALF_8(64)
#define HALF_D80 HALF_D72, HALF_8(72)
#define HALF_D88 HALF_D80, HALF_8(80)
#define HALF_D96 HALF_D88, HALF_8(88)
#define HALF_D104 HALF_D96, HALF_8(96)
#define HALF_D112 HALF_D104, HALF_8(104)
#define HALF_D120 HALF_D112, HALF_8(112)
#define HALF_D128 HALF_D120, HALF_8(120)
#define HALF_CASE(n, bfloat, type, order, registers, a_, b_, add_)                                                       \
  if constexpr (N == n && IS_BFLOAT<T> == bfloat)                                                                        \
    asm volatile("{.reg .pred p;\nsetp.ne.b32 p, %" #add_ ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type   \
                 " {" HALF_R##registers "}, %" #a_ ", %" #b_ ", p, 1, 1, " order ";}"                                    \
                 : HALF_D##registers                                                                                     \
                 : "l"(a), "l"(b), "r"(add))
#define HALF(n, order, registers, a_, b_, add_)                           \
  HALF_CASE(n, false, "f16.f16", order, registers, a_, b_, add_);         \
  HALF_CASE(n, true, "bf16.bf16", order, registers, a_, b_, add_)
template <class>
constexpr bool IS_BFLOAT = false;
template <>
constexpr bool IS_BFLOAT<__nv_bfloat16> = true;

// d = a * b, or with `add` d += a * b: a lies along K, b across it. Thread t of the 128 has in d[4*j + 2*h + q] the element of row
// 16*(t/32) + 8*h + t%32/4 and column 8*j + 2*(t%4) + q.
template <int N>
__device__ __forceinline__ void multiply(float (&d)[N / 2], uint64_t a, uint64_t b, int add) {
  static_assert(N == 64 || N == 128 || N == 160 || N == 192 || N == 256, "widths written out");
  HALF(64, "0, 1", 32, 32, 33, 34);
  HALF(128, "0, 1", 64, 64, 65, 66);
  HALF(160, "0, 1", 80, 80, 81, 82);
  HALF(192, "0, 1", 96, 96, 97, 98);
  HALF(256, "0, 1", 128, 128, 129, 130);
}
// The same, but a lies across K and b along it: the product of two operands that have changed places.
template <int N>
__device__ __forceinline__ void multiply_swapped(float (&d)[N / 2], uint64_t a, uint64_t b, int add) {
  static_assert(N == 8 || N % 16 == 0 && N <= 256, "widths written out");
  HALF(8, "1, 0", 4, 4, 5, 6);
  HALF(16, "1, 0", 8, 8, 9, 10);
  HALF(32, "1, 0", 16, 16, 17, 18);
  HALF(48, "1, 0", 24, 24, 25, 26);
  HALF(64, "1, 0", 32, 32, 33, 34);
  HALF(80, "1, 0", 40, 40, 41, 42);
  HALF(96, "1, 0", 48, 48, 49, 50);
  HALF(112, "1, 0", 56, 56, 57, 58);
  HALF(128, "1, 0", 64, 64, 65, 66);
  HALF(144, "1, 0", 72, 72, 73, 74);
  HALF(160, "1, 0", 80, 80, 81, 82);
  HALF(176, "1, 0", 88, 88, 89, 90);
  HALF(192, "1, 0", 96, 96, 97, 98);
  HALF(208, "1, 0", 104, 104, 105, 106);
  HALF(224, "1, 0", 112, 112, 113, 114);
  HALF(240, "1, 0", 120, 120, 121, 122);
  HALF(256, "1, 0", 128, 128, 129, 130);
}

// Which warp of the block this is. The compiler knows that all lanes get the same from this shuffle, so what follows from it is computed once for
// the warp, and addresses in descriptors need no moves between its registers and those that a warp shares.
__device__ __forceinline__ int warp_index() { return __shfl_sync(0xffffffff, int(threadIdx.x) / 32, 0); }

// Whether this lane is the one that its warp has elected, the same one each time. The compiler knows that it is one alone. Behind any other
// condition it makes a loop over all lanes of each copy by a tensor map.
__device__ __forceinline__ bool is_elected() {
  int yes = 0;
  asm volatile("{.reg .pred p;\nelect.sync _|p, 0xffffffff;\n@p mov.b32 %0, 1;}" : "+r"(yes));
  return yes;
}

// Whether this thread is the one of its warpgroup that stores boxes.
__device__ __forceinline__ bool is_storer() { return warp_index() % 4 == 0 && is_elected(); }

// The same number, of which the compiler knows nothing before: what it computes of it takes no registers until then.
__device__ __forceinline__ int fresh(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

// Four matrices of 8 x 8 from a warp's registers to shared memory. Lane l has the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void store_matrices(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
// The same, each transposed.
__device__ __forceinline__ void store_transposed(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
// A matrix of 8 x 8 in a warp's registers, a pair of neighbors a lane, transposed (PTX ISA, "movmatrix").
__device__ __forceinline__ uint32_t transposed(uint32_t pair) {
  uint32_t v;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(v) : "r"(pair));
  return v;
}
