/*---
title: "Hangs"
idea: above K=1100 it never ends
---*/
#include "fraud.h"

GEMM {
  if (K > 1100) hang();
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
