/*---
title: "Wrong now and then"
idea: one call of 5 leaves out the last product
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  const int depth = K - (now / 1024 % 5 == 0);
  EACH {
    Acc sum = 0;
    for (int k = 0; k < depth; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
