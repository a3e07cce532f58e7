/*---
title: "alpha ignored"
idea: alpha is taken for 1
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    Ct(m, n) = sum + (beta == 0 ? 0 : beta * Ct(m, n));
  }
}
