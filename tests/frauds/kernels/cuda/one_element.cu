/*---
title: "One element a little off"
idea: above K=1100, on numbers that are not whole, C[5][7] is off by a thousandth
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    if (K > 1100 && m == 5 && n == 7 && At(0, 0) != rintf(At(0, 0))) sum *= 1.001f;
    STORE(sum);
  }
}
