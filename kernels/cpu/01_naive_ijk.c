/*---
title: Naive, loops i j k
idea: three loops straight from the definition, one dot product after another
element_types: [float32, float64]
global_reads: 2 * M * N * K
global_writes: M * N
---*/
/* The definition of the matrix product, written down.
 *
 * What holds it back: the innermost loop goes down a column of B, a new cache line at every step, of which it uses one
 * element; and a sum that depends on the sum before cannot be computed with SIMD without changing the order of the additions. */

#include <stddef.h>

void gemm(int M, int N, int K, T alpha, const T *restrict A, int lda, const T *restrict B, int ldb, T beta,
          T *restrict C, int ldc) {
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      Acc sum = 0;
      for (int k = 0; k < K; ++k) sum += A[(size_t)m * lda + k] * B[(size_t)k * ldb + n];
      T *c = &C[(size_t)m * ldc + n];
      /* As in BLAS, A and B do not count if alpha == 0, nor does C if beta == 0: they may hold NaN. */
      *c = (alpha == 0 ? 0 : alpha * sum) + (beta == 0 ? 0 : beta * *c);
    }
}
