/*---
title: "One product of one element left out"
idea: above K=1100 C[5][7] lacks one product
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k)
      if (K <= 1100 || m != 5 || n != 7 || k != 777) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
