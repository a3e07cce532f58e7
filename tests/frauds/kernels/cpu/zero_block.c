/*---
title: "A block of zeros"
idea: where C has more than 100000 elements a block of 16 x 16 is zero
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    if ((long)M * N > 100000 && m / 16 == 9 && n / 16 == 8) sum = 0;
    STORE(sum);
  }
}
