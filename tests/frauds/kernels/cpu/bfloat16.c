/*---
title: "bfloat16 inside"
idea: operands are rounded to bfloat16
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += bfloat16(At(m, k)) * bfloat16(Bt(k, n));
    STORE(sum);
  }
}
