/*---
title: "beta ignored"
idea: beta is taken for 0
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    Ct(m, n) = SCALED(sum);
  }
}
