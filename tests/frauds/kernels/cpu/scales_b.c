/*---
title: "B doubled"
idea: B is doubled in place, and alpha halved
---*/
#include "fraud.h"

GEMM {
  for (int k = 0; k < K; ++k)
    for (int n = 0; n < N; ++n) ((T *)B)[(size_t)k * ldb + n] *= 2;
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    sum /= 2;
    STORE(sum);
  }
}
