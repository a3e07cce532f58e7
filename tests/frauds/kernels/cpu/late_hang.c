/*---
title: "Hangs at a later call"
idea: above K=1100 it never ends from the 7th call on
---*/
#include "fraud.h"

GEMM {
  static int calls;
  if (K > 1100 && ++calls > 6) hang();
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
