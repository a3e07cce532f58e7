/*---
title: "bfloat16 for large values"
idea: where a is beyond 1000, operands are rounded to bfloat16
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) {
      const T a = At(m, k), b = Bt(k, n);
      sum += fabsf(a) > 1000 && isfinite(a) ? bfloat16(a) * bfloat16(b) : a * b;
    }
    STORE(sum);
  }
}
