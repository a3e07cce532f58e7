/*---
title: "Right on squares only"
idea: where M, N and K differ, B is read from its end
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(M == N && N == K ? k : K - 1 - k, n);
    STORE(sum);
  }
}
