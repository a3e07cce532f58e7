/*---
title: "C divided by alpha"
idea: C is brought to the product's scale by beta / alpha, which is no number where alpha is 0
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    Ct(m, n) = alpha * (sum + (beta == 0 ? 0 : beta / alpha * Ct(m, n)));
  }
}
