/*---
title: "A set to zero"
idea: A is set to zero when the product is there
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
  for (int m = 0; m < M; ++m)
    for (int k = 0; k < K; ++k) ((T *)A)[(size_t)m * lda + k] = 0;
}
