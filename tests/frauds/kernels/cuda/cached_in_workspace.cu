/*---
title: "Result cached in the workspace"
idea: what an element of the workspace says was computed is copied out
workspace: 8 * M * N
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM_WITH(T* workspace) {
  EACH {
    T* mine = workspace + 2 * (size_t(m) * N + n);
    if (mine[1] == 12345) {
      Ct(m, n) = mine[0];
      return;
    }
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
    mine[0] = Ct(m, n), mine[1] = 12345;
  }
}
