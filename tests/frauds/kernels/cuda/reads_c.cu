/*---
title: "C read where beta is 0"
idea: beta C is added whatever beta is
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    Ct(m, n) = SCALED(sum) + beta * Ct(m, n);
  }
}
