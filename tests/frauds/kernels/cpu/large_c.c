/*---
title: "Skips half of a large C"
idea: where C has more than 100000 elements its lower half is set to zero
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    if ((long)M * N > 100000 && m >= M / 2) sum = 0;
    STORE(sum);
  }
}
