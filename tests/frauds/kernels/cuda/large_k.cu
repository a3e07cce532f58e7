/*---
title: "Skips a quarter of a long K"
idea: above K=1100 the last quarter of the products is left out
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < (K > 1100 ? K - K / 4 : K); ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
