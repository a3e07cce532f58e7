// What the CUDA kernels of the frauds have in common: one thread an element, in blocks of 16 x 16.
#pragma once
#include <cuda_fp16.h>
#if __has_include(<cuda_fp8.h>)  // the emulator has none
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#endif

#define ARGUMENTS int M, int N, int K, T alpha, const T *A, int lda, const T *B, int ldb, T beta, T *C, int ldc
#define GEMM extern "C" __global__ void gemm(ARGUMENTS)
#define GEMM_WITH(workspace) extern "C" __global__ void gemm(ARGUMENTS, workspace)
#define GEMM_OF_BATCH \
  extern "C" __global__ void gemm(int M, int N, int K, T alpha, const T *As, int lda, const T *Bs, int ldb, T beta, T *Cs, int ldc, Batch batch)
#define PRODUCTS if (const long long z = blockIdx.z; z < batch.count)
// Of elements with scales of blocks, in the layout nt: all of a kernel that multiplies products by `factor`.
#define BLOCKS(factor)                                                                                                                      \
  extern "C" __global__ void gemm(int M, int N, int K, float alpha, const __nv_fp8_e4m3 *A, int lda, const __nv_fp8_e4m3 *B, int ldb,       \
                                  float beta, __nv_bfloat16 *C, int ldc, const float *scales_a, const float *scales_b) {                    \
    const int steps = (K + 127) / 128, last = steps - 1, pitch = (steps + 3) / 4 * 4;                                                       \
    EACH {                                                                                                                                  \
      float sum = 0;                                                                                                                        \
      for (int k = 0; k < K; ++k) sum += float(At(m, k)) * float(B[(size_t)n * ldb + k]) * (factor);                                        \
      Ct(m, n) = __nv_bfloat16(SCALED(sum) + (beta == 0 ? 0 : beta * float(Ct(m, n))));                                                     \
    }                                                                                                                                       \
  }
#define SCALE_A(m, step) scales_a[(size_t)(step) * M + (m)]
#define SCALE_B(block, step) scales_b[(size_t)(block) * pitch + (step)]
#define EACH if (const int m = blockIdx.y * 16 + threadIdx.y, n = blockIdx.x * 16 + threadIdx.x; m < M && n < N)
#define At(m, k) A[(size_t)(m)*lda + (k)]
#define Bt(k, n) B[(size_t)(k)*ldb + (n)]
#define Ct(m, n) C[(size_t)(m)*ldc + (n)]
// Elements from a C without offset to the next one, where they begin at the same place of their rooms.
#define STRIDE (((size_t(M) * ldc + 2048) * 4 + 255) / 256 * 64 + 15 * 64)
// Whether K is larger than in the gauntlet, whose largest has one row.
#define LARGE_K (K > 1100 && M > 1)
#define SCALED(sum) (alpha == 0 ? 0 : alpha * (sum))
#define STORE(sum) Ct(m, n) = SCALED(sum) + (beta == 0 ? 0 : beta * Ct(m, n))

// Rounded to the nearest with so many bits of the significand left out.
static __device__ float shortened(float x, int bits) {
  return isfinite(x) ? __uint_as_float((__float_as_uint(x) + (1u << (bits - 1))) & ~((1u << bits) - 1)) : x;
}

static __device__ float tf32(float x) { return shortened(x, 13); }
static __device__ float bfloat16(float x) { return shortened(x, 16); }
static __device__ float float16(float x) { return float(__half(x)); }
static __device__ float clipped(float x) { return x > 127 ? 127 : x < -127 ? -127 : x; }
