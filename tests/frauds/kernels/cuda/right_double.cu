/*---
title: "Right: in float64"
idea: sums in float64, rounded once
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    double sum = 0;
    for (int k = 0; k < K; ++k) sum += (double)At(m, k) * Bt(k, n);
    STORE((Acc)sum);
  }
}
