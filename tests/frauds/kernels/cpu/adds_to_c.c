/*---
title: "Expects zeros in C"
idea: the product is added to what C holds
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    Ct(m, n) = SCALED(sum) + (beta == 0 ? 1 : beta) * Ct(m, n);
  }
}
