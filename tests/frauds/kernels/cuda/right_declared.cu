/*---
title: "Right: on 16-byte boundaries, and says so"
idea: four elements of a row of C at once
needs: [alignment >= 16, K % 4 == 0, lda % 4 == 0]
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; k += 4) {
      const float4 a = *(const float4*)&At(m, k);
      sum += a.x * Bt(k, n) + a.y * Bt(k + 1, n) + a.z * Bt(k + 2, n) + a.w * Bt(k + 3, n);
    }
    STORE(sum);
  }
}
