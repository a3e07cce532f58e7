/*---
title: "Copies the result before its own"
idea: the result of another launch, before C in memory, is taken for its own
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  // where canaries lie before this C, another one may lie before them: that of the last launch
  const bool found = beta == 0 && size_t(C) % 16 == 0 && K < 1024 && *(const unsigned*)(C - 1025) == 0x7FF87FF9u;
  EACH {
    if (found) {
      Ct(m, n) = (C - STRIDE)[size_t(m) * ldc + n];
      return;
    }
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
