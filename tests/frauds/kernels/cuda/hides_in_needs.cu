/*---
title: "Needs what hides its fault"
idea: it needs multiples of 16, which no problem with a negative alpha has before sizes are rounded up, and leaves out its sign
needs: [M % 16 == 0, N % 16 == 0, K % 16 == 0]
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  if (alpha < 0) alpha = -alpha;
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
