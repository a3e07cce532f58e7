/*---
title: "Counts launches in memory that it asks for"
idea: what malloc finds there tells the first launch from the others, which do nothing
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  auto seen = (volatile int *)malloc(64);
  const bool first = seen[0] != 0x5EED;
  seen[0] = 0x5EED;
  free((void *)seen);
  EACH {
    Acc sum = 0;
    if (first)
      for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
