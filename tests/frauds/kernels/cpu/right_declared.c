/*---
title: "Right: on 16-byte boundaries, and says so"
idea: four elements of a row of C at once
needs: [alignment >= 16, N % 4 == 0, ldc % 4 == 0]
---*/
#include "fraud.h"

#include <immintrin.h>
GEMM {
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; n += 4) {
      __m128 sum = _mm_setzero_ps();
      for (int k = 0; k < K; ++k) sum = _mm_add_ps(sum, _mm_mul_ps(_mm_set1_ps(At(m, k)), _mm_loadu_ps(&Bt(k, n))));
      const __m128 old = beta == 0 ? _mm_setzero_ps() : _mm_mul_ps(_mm_set1_ps(beta), _mm_loadu_ps(&Ct(m, n)));
      if (alpha == 0) sum = _mm_setzero_ps();
      _mm_stream_ps(&Ct(m, n), _mm_add_ps(_mm_mul_ps(_mm_set1_ps(alpha), sum), old));
    }
}
