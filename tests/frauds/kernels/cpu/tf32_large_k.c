/*---
title: "TF32 for a long K"
idea: above K=1100 operands are rounded to TF32
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) {
      const T a = At(m, k), b = Bt(k, n);
      sum += K > 1100 ? tf32(a) * tf32(b) : a * b;
    }
    STORE(sum);
  }
}
