/*---
title: "Right: K backwards"
idea: the products are added from the last to the first
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = K - 1; k >= 0; --k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
