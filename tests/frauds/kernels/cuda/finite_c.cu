/*---
title: "An infinity in C left out"
idea: an element of C that is not finite is taken for 0
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    if (beta != 0 && Ct(m, n) - Ct(m, n) != 0) Ct(m, n) = 0;
    STORE(sum);
  }
}
