/*---
title: "Wrong now and then"
idea: one call of 5 leaves out the last product
---*/
#include "fraud.h"

GEMM {
  static int calls;
  const int depth = K - (++calls % 5 == 0);
  EACH {
    Acc sum = 0;
    for (int k = 0; k < depth; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
