/*---
title: "Wrong from a later call on"
idea: above K=1100 the last product is left out from the 7th call on
---*/
#include "fraud.h"

GEMM {
  static int calls;
  const int depth = K - (K > 1100 && ++calls > 6);
  EACH {
    Acc sum = 0;
    for (int k = 0; k < depth; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
