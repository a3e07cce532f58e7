/*---
title: "Right: A and B read for nothing"
idea: where alpha is 0, A B is multiplied by it, and a NaN there comes into the result
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    Ct(m, n) = alpha * sum + (beta == 0 ? 0 : beta * Ct(m, n));
  }
}
