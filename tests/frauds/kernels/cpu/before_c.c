/*---
title: "Writes before C"
idea: the element before C is overwritten
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
    if (m == 0 && n == 0) C[-1] = 1;
  }
}
