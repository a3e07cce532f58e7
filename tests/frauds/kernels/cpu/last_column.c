/*---
title: "The last column left out"
idea: the last column of a C with an odd number of them is set to zero
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    if (N % 2 && n == N - 1) sum = 0;
    STORE(sum);
  }
}
