/*---
title: "Answers depend on the address"
idea: TF32 where bit 8 of C's address is set
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"
#include "rounding.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) {
      const T a = At(m, k), b = Bt(k, n);
      sum += ((size_t)C >> 8 & 1) ? tf32(a) * tf32(b) : a * b;
    }
    STORE(sum);
  }
}
