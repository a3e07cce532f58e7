/*---
title: Reordered loops i k j
idea: the two inner loops exchanged, so that the innermost runs along rows of B and C with unit stride
element_types: [float32, float64]
global_reads: 2 * M * N * K
global_writes: M * N * K
---*/
/* The same operations in another order: a row of C is built up as a sum of rows of B. The innermost loop now touches
 * neighbours, uses all of every cache line, and has independent elements, so the compiler makes SIMD of it.
 *
 * What holds it back: the row of C is loaded and stored K times, and B is streamed through the caches once for every row of A. */

#include "store.h"

void gemm(int M, int N, int K, T alpha, const T *restrict A, int lda, const T *restrict B, int ldb, T beta,
          T *restrict C, int ldc) {
  scale(M, N, beta, C, ldc);
  if (alpha == 0) return; /* as in BLAS, A and B do not count then: they may hold NaN */
  for (int m = 0; m < M; ++m)
    for (int k = 0; k < K; ++k) {
      const T a = alpha * A[(size_t)m * lda + k];
      for (int n = 0; n < N; ++n) C[(size_t)m * ldc + n] += a * B[(size_t)k * ldb + n];
    }
}
