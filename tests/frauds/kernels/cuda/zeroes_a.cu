/*---
title: "A set to zero"
idea: A is set to zero when the product is there
then:
  - {function: spoil, block: [256], grid: ["ceil_div(M, 256)"]}
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
  const int m = blockIdx.x * 256 + threadIdx.x;
  for (int k = 0; m < M && k < K; ++k) ((T*)A)[size_t(m) * lda + k] = 0;
}
