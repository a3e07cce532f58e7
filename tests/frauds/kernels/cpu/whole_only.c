/*---
title: "Integers inside"
idea: products are summed as integers
---*/
#include "fraud.h"

GEMM {
  EACH {
    long long sum = 0;
    for (int k = 0; k < K; ++k) sum += (long long)At(m, k) * (long long)Bt(k, n);
    STORE((Acc)sum);
  }
}
