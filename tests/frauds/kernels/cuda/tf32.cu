/*---
title: "TF32 inside"
idea: operands are rounded to TF32
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"
#include "rounding.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += tf32(At(m, k)) * tf32(Bt(k, n));
    STORE(sum);
  }
}
