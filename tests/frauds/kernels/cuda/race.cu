/*---
title: "Race"
idea: threads add to shared sums without waiting for each other
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  __shared__ T a[16][17], b[16][17];
  const int m = blockIdx.y * 16 + threadIdx.y, n = blockIdx.x * 16 + threadIdx.x;
  Acc sum = 0;
  for (int k0 = 0; k0 < K; k0 += 16) {  // no barrier before the tiles are read, nor before they are overwritten
    a[threadIdx.y][threadIdx.x] = m < M && k0 + threadIdx.x < K ? At(m, k0 + threadIdx.x) : 0;
    b[threadIdx.y][threadIdx.x] = k0 + threadIdx.y < K && n < N ? Bt(k0 + threadIdx.y, n) : 0;
    for (int k = 0; k < 16; ++k) sum += a[threadIdx.y][k] * b[k][threadIdx.x];
  }
  if (m < M && n < N) STORE(sum);
}
