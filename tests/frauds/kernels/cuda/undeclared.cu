/*---
title: "Needs 16-byte boundaries, and does not say so"
idea: four elements at once wherever they may lie
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    int k = 0;
    for (; k + 4 <= K; k += 4) {
      const float4 a = *(const float4*)&At(m, k);
      sum += a.x * Bt(k, n) + a.y * Bt(k + 1, n) + a.z * Bt(k + 2, n) + a.w * Bt(k + 3, n);
    }
    for (; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
