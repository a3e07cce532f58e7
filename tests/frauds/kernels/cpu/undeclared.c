/*---
title: "Needs 16-byte boundaries, and does not say so"
idea: four elements at once wherever they may lie
---*/
#include "fraud.h"

#include <immintrin.h>
GEMM {
  for (int m = 0; m < M; ++m) {
    int n = 0;
    for (; n + 4 <= N; n += 4) {
      __m128 sum = _mm_setzero_ps();
      for (int k = 0; k < K; ++k) sum = _mm_add_ps(sum, _mm_mul_ps(_mm_set1_ps(At(m, k)), _mm_loadu_ps(&Bt(k, n))));
      const __m128 old = beta == 0 ? _mm_setzero_ps() : _mm_mul_ps(_mm_set1_ps(beta), _mm_loadu_ps(&Ct(m, n)));
      if (alpha == 0) sum = _mm_setzero_ps();
      _mm_stream_ps(&Ct(m, n), _mm_add_ps(_mm_mul_ps(_mm_set1_ps(alpha), sum), old));
    }
    for (; n < N; ++n) {
      Acc sum = 0;
      for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
      STORE(sum);
    }
  }
}
