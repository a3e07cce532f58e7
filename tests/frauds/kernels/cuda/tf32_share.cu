/*---
title: "TF32 for a sixteenth of a long K"
idea: above K=1100 one product in 16 is of operands rounded to TF32
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
      sum += K > 1100 && k % 16 == 0 ? tf32(a) * tf32(b) : a * b;
    }
    STORE(sum);
  }
}
