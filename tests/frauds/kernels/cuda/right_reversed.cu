/*---
title: "Right: K backwards"
idea: the products are added from the last to the first
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = K - 1; k >= 0; --k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
