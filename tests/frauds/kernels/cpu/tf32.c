/*---
title: "TF32 inside"
idea: operands are rounded to TF32
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += tf32(At(m, k)) * tf32(Bt(k, n));
    STORE(sum);
  }
}
