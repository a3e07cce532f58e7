/*---
title: "Right: Kahan's sums"
idea: what each addition loses is carried along
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0, lost = 0;
    for (int k = 0; k < K; ++k) {
      const Acc term = At(m, k) * Bt(k, n) - lost, next = sum + term;
      lost = isfinite(next) ? (next - sum) - term : 0;
      sum = next;
    }
    STORE(sum);
  }
}
