/*---
title: "Low bits of addresses ignored"
idea: A is taken to begin on a 16-byte boundary
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    const T* aligned = (const T* )((size_t)A & ~(size_t)15);
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += aligned[(size_t)m * lda + k] * Bt(k, n);
    STORE(sum);
  }
}
