/*---
title: "The last row left out"
idea: the last row of a C with an odd number of them is set to zero
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    if (M % 2 && m == M - 1) sum = 0;
    STORE(sum);
  }
}
