/*---
title: "Crashes"
idea: above K=1100 it writes to an address that is nobody's
---*/
#include "fraud.h"

GEMM {
  if (K > 1100) *(volatile int *)8 = 1;
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
