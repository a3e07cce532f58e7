/*---
title: "ldb for ldc"
idea: rows of C are taken to be ldb apart
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    T* c = &C[(size_t)m * ldb + n];
    *c = SCALED(sum) + (beta == 0 ? 0 : beta * *c);
  }
}
