/*---
title: "Hangs"
idea: above K=1100 it never ends
---*/
#include "fraud.h"

GEMM {
  for (volatile int wait = K > 1100; wait;) wait = 1;
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
