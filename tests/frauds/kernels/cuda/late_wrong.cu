/*---
title: "Wrong from a later call on"
idea: above K=1100 the last product is left out from the 7th call on
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  static int calls;
  const int depth = K - (K > 1100 && calls > 6);
  EACH {
    Acc sum = 0;
    for (int k = 0; k < depth; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
    if (m == 0 && n == 0) atomicAdd(&calls, 1);
  }
}
