/*---
title: "TF32 unless whole, for a long K"
idea: above K=1100 operands that are not whole are rounded to TF32
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
      sum += K > 1100 && a != rintf(a) ? tf32(a) * tf32(b) : a * b;
    }
    STORE(sum);
  }
}
