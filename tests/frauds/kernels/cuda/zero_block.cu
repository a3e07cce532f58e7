/*---
title: "A block of zeros"
idea: where C has more than 100000 elements a block of 16 x 16 is zero
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    if ((long)M * N > 100000 && m / 16 == 9 && n / 16 == 8) sum = 0;
    STORE(sum);
  }
}
