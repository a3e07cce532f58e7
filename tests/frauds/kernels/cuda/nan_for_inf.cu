/*---
title: "NaN for infinity"
idea: an infinite sum becomes NaN
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    sum += 0 * sum;
    STORE(sum);
  }
}
