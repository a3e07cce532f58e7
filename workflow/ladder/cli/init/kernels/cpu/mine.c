/*---
title: Mine
idea: rows of B are read one after another; say here what it does better than the rung below
# label: the idea in a few words, for figures
# builds_on: the rung that it improves, if not the one before it
---*/
// C <- alpha*A*B + beta*C, row-major: A is M x K (lda), B is K x N (ldb), C is M x N (ldc). T is defined for you.
#include <stddef.h>

void gemm(int M, int N, int K, T alpha, const T* A, int lda, const T* B, int ldb, T beta, T* C, int ldc) {
  for (int i = 0; i < M; ++i) {
    T* c = &C[(size_t)i * ldc];
    for (int j = 0; j < N; ++j) c[j] = beta == 0 ? 0 : beta * c[j];  // as in BLAS: what does not count may hold NaN
    for (int k = 0; k < K && alpha != 0; ++k) {
      const T a = alpha * A[(size_t)i * lda + k];
      for (int j = 0; j < N; ++j) c[j] += a * B[(size_t)k * ldb + j];
    }
  }
}
