/*---
title: "B doubled"
idea: B is doubled in place, and alpha halved
then:
  - {function: spoil, block: [256], grid: ["ceil_div(N, 256)"]}
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
extern "C" __global__ void spoil(ARGUMENTS) {
  const int n = blockIdx.x * 256 + threadIdx.x;
  for (int k = 0; n < N && k < K; ++k) ((T*)B)[size_t(k) * ldb + n] *= 2;
}
