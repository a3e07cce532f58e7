/*---
title: "Multiples of 4 only"
idea: columns beyond the last multiple of 4 are not written
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    if (n < N / 4 * 4 || N < 4) {
      Acc sum = 0;
      for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
      STORE(sum);
    }
  }
}
