/*---
title: "Eight bits inside"
idea: operands are clipped to 127
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"
#include "rounding.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += clipped(At(m, k)) * clipped(Bt(k, n));
    STORE(sum);
  }
}
