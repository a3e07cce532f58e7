/*---
title: "Right: A and B read for nothing"
idea: where alpha is 0, A B is multiplied by it, and a NaN there comes into the result
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    Ct(m, n) = alpha * sum + (beta == 0 ? 0 : beta * Ct(m, n));
  }
}
