/*---
title: "Right: in float64"
idea: sums in float64, rounded once
---*/
#include "fraud.h"

GEMM {
  EACH {
    double sum = 0;
    for (int k = 0; k < K; ++k) sum += (double)At(m, k) * Bt(k, n);
    STORE((Acc)sum);
  }
}
