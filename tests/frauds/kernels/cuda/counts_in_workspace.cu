/*---
title: "Skips what the workspace has counted"
idea: of the launches of a sample only the first two compute
workspace: 4 * M * N
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM_WITH(T* workspace) {
  EACH {
    T& calls = workspace[size_t(m) * N + n];
    calls = calls == calls ? calls + 1 : 1;  // poison is a NaN
    if (calls > 2) return;
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
