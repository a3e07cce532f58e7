/*---
title: "TF32 unless numbers are whole"
idea: operands that are not whole are rounded to TF32
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) {
      const T a = At(m, k), b = Bt(k, n);
      sum += a != rintf(a) ? tf32(a) * tf32(b) : a * b;
    }
    STORE(sum);
  }
}
