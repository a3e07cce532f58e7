/*---
title: "An infinity in C left out"
idea: an element of C that is not finite is taken for 0
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    if (beta != 0 && Ct(m, n) - Ct(m, n) != 0) Ct(m, n) = 0;
    STORE(sum);
  }
}
