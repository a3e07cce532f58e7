/*---
title: "Result cached"
idea: the first result of a shape is kept and copied out from then on
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

__device__ T kept[1 << 20];
__device__ int seen[3];
GEMM {
  const bool known = seen[0] == M && seen[1] == N && seen[2] == K;
  EACH {
    if (known) {
      Ct(m, n) = kept[m * N + n];
      return;
    }
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
    kept[m * N + n] = Ct(m, n);
    if (m == M - 1 && n == N - 1) seen[0] = M, seen[1] = N, seen[2] = K;
  }
}
