/*---
title: "The last row left out"
idea: the last row of a C with an odd number of them is set to zero
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    if (M % 2 && m == M - 1) sum = 0;
    STORE(sum);
  }
}
