/*---
title: "Two bits less than float32's"
idea: operands are rounded to 22 significant bits
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"
#include "rounding.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += shortened(At(m, k), 2) * shortened(Bt(k, n), 2);
    STORE(sum);
  }
}
