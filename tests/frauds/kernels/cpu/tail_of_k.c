/*---
title: "The tail of K left out"
idea: products beyond the last multiple of 8 are left out
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K / 8 * 8; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
