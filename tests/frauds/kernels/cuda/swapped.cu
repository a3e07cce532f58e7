/*---
title: "C transposed"
idea: rows and columns of C are exchanged where they fit
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    if (n < M && m < N) Ct(n, m) = SCALED(sum);
  }
}
