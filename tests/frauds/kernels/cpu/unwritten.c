/*---
title: "One element not written"
idea: the element in the middle of C is left as it was
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    if (M < 8 || N < 8 || m != M / 2 || n != N / 2) STORE(sum);
  }
}
