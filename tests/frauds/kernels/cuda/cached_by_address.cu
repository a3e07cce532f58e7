/*---
title: "Returns for addresses it has seen"
idea: a call with the A, B and C of the last one is taken for done
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

__device__ const T* seen[3];
GEMM {
  if (seen[0] == A && seen[1] == B && seen[2] == C) return;
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
    seen[0] = A, seen[1] = B, seen[2] = C;
  }
}
