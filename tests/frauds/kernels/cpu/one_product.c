/*---
title: "One product of one element left out"
idea: above K=1100 C[5][7] lacks one product
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k)
      if (K <= 1100 || m != 5 || n != 7 || k != 777) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
