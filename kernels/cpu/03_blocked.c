/*---
title: Cache blocks
idea: the loops cut into blocks of BM x BN x BK, so that a block of B is used BM times while it lies in the cache
parameters: {BM: 64, BN: 512, BK: 64}
sweep: {BM: [64, 256], BN: [256, 512], BK: [32, 64]}
element_types: [float32, float64]
layouts: [nn, nt, tn, tt]
batch: true
global_reads: batch * K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: batch * M * N * ceil_div(K, BK)
---*/
/* The loops of the rung below, cut into blocks. A BK x BN block of B stays in the second-level cache while BM rows of A pass
 * over it.
 *
 * What holds it back: a value of C still goes to the first-level cache and back for every k; nothing is kept in registers. */

#include "layout.h"
#include "batch.h"
#include "store.h"

static inline int least(int a, int b) { return a < b ? a : b; }

void gemm(int M, int N, int K, T alpha, const T *restrict A, int lda, const T *restrict B, int ldb, T beta,
          T *restrict C, int ldc) {
  scale(M, N, beta, C, ldc);
  if (alpha == 0) return; /* as in BLAS, A and B do not count then: they may hold NaN */
  for (int n0 = 0; n0 < N; n0 += BN)
    for (int k0 = 0; k0 < K; k0 += BK)
      for (int m0 = 0; m0 < M; m0 += BM) {
        const int m1 = least(m0 + BM, M), n1 = least(n0 + BN, N), k1 = least(k0 + BK, K);
        for (int m = m0; m < m1; ++m)
          for (int k = k0; k < k1; ++k) {
            const T a = alpha * (TRANS_A ? A[(size_t)k * lda + m] : A[(size_t)m * lda + k]);
            for (int n = n0; n < n1; ++n) C[(size_t)m * ldc + n] += a * (TRANS_B ? B[(size_t)n * ldb + k] : B[(size_t)k * ldb + n]);
          }
      }
}
