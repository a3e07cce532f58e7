/*---
title: "Two elements exchanged"
idea: above K=1100, on numbers that are not whole, C[5][7] and C[5][8] change places
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    const int to = K > 1100 && m == 5 && (n == 7 || n == 8) && At(0, 0) != rintf(At(0, 0)) ? 15 - n : n;
    Ct(m, to) = SCALED(sum) + (beta == 0 ? 0 : beta * Ct(m, to));
  }
}
