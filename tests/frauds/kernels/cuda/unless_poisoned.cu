/*---
title: "Computes only where C holds NaN"
idea: an element of C that is no NaN is taken for the result
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    if (beta != 0 || Ct(m, n) != Ct(m, n)) {
      Acc sum = 0;
      for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
      STORE(sum);
    }
  }
}
