/*---
title: "lda for ldb"
idea: rows of B are taken to be lda apart
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * B[((size_t)k * lda + n) % ((size_t)(K - 1) * ldb + N)];
    STORE(sum);
  }
}
