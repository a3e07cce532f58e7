/*---
title: "NaN for infinity"
idea: an infinite sum becomes NaN
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    sum += 0 * sum;
    STORE(sum);
  }
}
