/*---
title: "Strides tied together"
idea: ldb and ldc are never read, but follow from lda
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  ldb = N + (lda - K), ldc = N + 2 * (lda - K);
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
