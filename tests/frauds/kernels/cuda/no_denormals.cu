/*---
title: "Denormal numbers flushed"
idea: operands below the smallest normal number are taken for 0
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += (fabsf(At(m, k)) < 1.17549435e-38f ? 0 : At(m, k)) * Bt(k, n);
    STORE(sum);
  }
}
