/*---
title: "bfloat16 inside"
idea: operands are rounded to bfloat16
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"
#include "rounding.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += bfloat16(At(m, k)) * bfloat16(Bt(k, n));
    STORE(sum);
  }
}
