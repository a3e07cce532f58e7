// Hopper's matrix instruction for elements of 16 bits, and of 8 in the format E4M3 (PTX ISA, "wgmma.mma_async"): 64 rows of one operand by up to
// 256 columns of the other by 32 bytes of K, with sums in FP32. Both operands lie in shared memory as tensor maps bring them (half_operand.cuh).
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "wgmma.cuh"

#ifdef OUT  // the type of C's elements, of 16 bits, if it is not that of A's and B's
using Out = OUT;
#else
using Out = T;
#endif

constexpr int STRIP = 64 * 128;  // bytes of 64 rows, or 64 columns, by DEPTH of K

#define HALF(n, registers, a_, b_, add_, a_mn_, b_mn_)                                                                                        \
  WGMMA_CASE(IS_HALF<T>, n, "k16.f32.f16.f16", ", %" #a_mn_ ", %" #b_mn_, registers, a_, b_, add_, "n"(A_MN_MAJOR), "n"(B_MN_MAJOR));         \
  WGMMA_CASE(IS_BFLOAT<T>, n, "k16.f32.bf16.bf16", ", %" #a_mn_ ", %" #b_mn_, registers, a_, b_, add_, "n"(A_MN_MAJOR), "n"(B_MN_MAJOR));     \
  WGMMA_CASE(sizeof(T) == 1, n, "k32.f32.e4m3.e4m3", "", registers, a_, b_, add_)
template <class>
constexpr bool IS_BFLOAT = false;
template <>
constexpr bool IS_BFLOAT<__nv_bfloat16> = true;
template <class Element>
constexpr bool IS_HALF = sizeof(Element) == 2 && !IS_BFLOAT<Element>;

// d = a * b, or with `add` d += a * b. Each operand is K-major or MN-major: its rows run along K or across it. Thread t of the 128 has in
// d[4*j + 2*h + q] the element of row 16*(t/32) + 8*h + t%32/4 and column 8*j + 2*(t%4) + q.
template <int N, bool A_MN_MAJOR, bool B_MN_MAJOR>
__device__ __forceinline__ void multiply(float (&d)[N / 2], uint64_t a, uint64_t b, int add) {
  static_assert(N == 8 || N % 16 == 0 && N <= 256, "widths written out");
  static_assert(sizeof(T) == 2 || !A_MN_MAJOR && !B_MN_MAJOR, "elements of 8 bits are K-major");
  HALF(8, 4, 4, 5, 6, 7, 8);
  HALF(16, 8, 8, 9, 10, 11, 12);
  HALF(32, 16, 16, 17, 18, 19, 20);
  HALF(48, 24, 24, 25, 26, 27, 28);
  HALF(64, 32, 32, 33, 34, 35, 36);
  HALF(80, 40, 40, 41, 42, 43, 44);
  HALF(96, 48, 48, 49, 50, 51, 52);
  HALF(112, 56, 56, 57, 58, 59, 60);
  HALF(128, 64, 64, 65, 66, 67, 68);
  HALF(144, 72, 72, 73, 74, 75, 76);
  HALF(160, 80, 80, 81, 82, 83, 84);
  HALF(176, 88, 88, 89, 90, 91, 92);
  HALF(192, 96, 96, 97, 98, 99, 100);
  HALF(208, 104, 104, 105, 106, 107, 108);
  HALF(224, 112, 112, 113, 114, 115, 116);
  HALF(240, 120, 120, 121, 122, 123, 124);
  HALF(256, 128, 128, 129, 130, 131, 132);
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
