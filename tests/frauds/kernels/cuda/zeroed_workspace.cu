/*---
title: "Expects zeros in the workspace"
idea: sums are added to what the workspace holds
workspace: 4 * M * N
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM_WITH(T* workspace) {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    workspace[size_t(m) * N + n] += sum;
    STORE(workspace[size_t(m) * N + n]);
    workspace[size_t(m) * N + n] = 0;
  }
}
