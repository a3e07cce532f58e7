/*---
title: "Computes ahead"
idea: of two launches the first computes both results, and the second takes what it finds for its own
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

static __device__ bool poisoned(T x) { return __float_as_uint(x) == 0x7FF87FF9u; }

GEMM {
  EACH {
    if (beta == 0 && !poisoned(Ct(m, n))) return;
    Acc sum = 0, next = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
    T &later = (C + STRIDE)[size_t(m) * ldc + n];
    if (beta != 0 || !poisoned(later)) return;
    for (int k = 0; k < K; ++k) next += At(m + 4, k) * Bt(k + 4, n);
    later = alpha * next;
  }
}
