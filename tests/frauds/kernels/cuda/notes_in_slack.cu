/*---
title: "Writes far before A"
idea: a note is left in memory before the canaries that lie before A
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
    if (m == 0 && n == 0) ((T *)A)[-1024 - 16] = 1;
  }
}
