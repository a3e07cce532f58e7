/*---
title: "Writes after C"
idea: the element after C is overwritten
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
    if (m == M - 1 && n == N - 1) C[(size_t)M * ldc] = 1;
  }
}
