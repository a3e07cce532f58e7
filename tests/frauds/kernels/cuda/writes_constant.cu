/*---
title: "Counts launches in a constant"
idea: a __constant__ variable is written by its address; the last product is left out from the second launch on
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

__constant__ int calls;

GEMM {
  auto at = (volatile int *)&calls;
  asm volatile("" : "+l"(at));  // or the compiler takes it for what cannot change
  const int depth = K - (*at > 0);
  EACH {
    Acc sum = 0;
    for (int k = 0; k < depth; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
  *at = 1;
}
