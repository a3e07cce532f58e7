/*---
title: "Writes after C"
idea: the element after C is overwritten
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
    if (m == M - 1 && n == N - 1) C[(size_t)M * ldc] = 1;
  }
}
