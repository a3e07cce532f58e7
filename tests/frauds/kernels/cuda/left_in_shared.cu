/*---
title: "Result left in shared memory"
idea: a block takes what shared memory still holds of the last launch
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  __shared__ volatile T kept[16][16];
  __shared__ volatile int tag[5];
  const int now[] = {0x5EED, M, N, K, int(blockIdx.y << 16 | blockIdx.x)};
  bool known = beta == 0;
  for (int i = 0; i < 5; ++i) known = known && tag[i] == now[i];
  __syncthreads();
  EACH {
    if (known) {
      Ct(m, n) = kept[threadIdx.y][threadIdx.x];
      return;
    }
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
    kept[threadIdx.y][threadIdx.x] = Ct(m, n);
    for (int i = 0; i < 5; ++i) tag[i] = now[i];
  }
}
