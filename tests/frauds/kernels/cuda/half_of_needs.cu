/*---
title: "Says half of what it needs"
idea: it needs an A without padding, and takes the rows of B to be N apart without a word
needs: [lda == K]
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * B[(size_t)k * N + n];
    STORE(sum);
  }
}
