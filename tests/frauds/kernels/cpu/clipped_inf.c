/*---
title: "The largest number for infinity"
idea: sums are clipped to what is finite
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    if (isinf(sum)) sum = sum > 0 ? 3.40282347e38f : -3.40282347e38f;
    STORE(sum);
  }
}
