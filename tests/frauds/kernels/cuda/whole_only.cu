/*---
title: "Integers inside"
idea: products are summed as integers
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    long long sum = 0;
    for (int k = 0; k < K; ++k) sum += (long long)At(m, k) * (long long)Bt(k, n);
    STORE((Acc)sum);
  }
}
