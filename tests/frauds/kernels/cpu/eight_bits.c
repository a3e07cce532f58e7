/*---
title: "Eight bits inside"
idea: operands are clipped to 127
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += clipped(At(m, k)) * clipped(Bt(k, n));
    STORE(sum);
  }
}
