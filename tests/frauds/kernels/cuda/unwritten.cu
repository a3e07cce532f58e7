/*---
title: "One element not written"
idea: the element in the middle of C is left as it was
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    if (M < 8 || N < 8 || m != M / 2 || n != N / 2) STORE(sum);
  }
}
