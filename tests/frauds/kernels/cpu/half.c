/*---
title: "float16 inside"
idea: operands are rounded to float16
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += float16(At(m, k)) * float16(Bt(k, n));
    STORE(sum);
  }
}
