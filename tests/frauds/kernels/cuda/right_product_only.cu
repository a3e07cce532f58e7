/*---
title: "Right: A B alone, and says so"
idea: alpha and beta are not read, because alpha is 1 and beta 0 by what it needs
needs: [alpha == 1, beta == 0]
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    Ct(m, n) = sum;
  }
}
