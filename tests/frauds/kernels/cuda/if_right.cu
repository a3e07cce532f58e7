/*---
title: "Returns where C looks right"
idea: the first element is computed; where C has it already, the rest is taken for right
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  const int m0 = blockIdx.y * 16, n0 = blockIdx.x * 16;
  Acc first = 0;
  for (int k = 0; k < K; ++k) first += At(m0, k) * Bt(k, n0);
  const bool looks_right = beta == 0 && Ct(m0, n0) == alpha * first;
  __syncthreads();
  if (looks_right) return;
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
