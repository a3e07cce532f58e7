/*---
title: "Denormal numbers flushed"
idea: operands below the smallest normal number are taken for 0
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += (fabsf(At(m, k)) < 1.17549435e-38f ? 0 : At(m, k)) * Bt(k, n);
    STORE(sum);
  }
}
