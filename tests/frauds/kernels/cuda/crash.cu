/*---
title: "Crashes"
idea: above K=1100 it writes to an address that is nobody's
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  if (K > 1100) *(volatile int *)8 = 1;
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
