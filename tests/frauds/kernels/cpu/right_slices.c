/*---
title: "Right: K in slices"
idea: eight slices of K are summed apart and added at the end
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc part[8] = {0}, sum = 0;
    for (int k = 0; k < K; ++k) part[k % 8] += At(m, k) * Bt(k, n);
    for (int s = 0; s < 8; ++s) sum += part[s];
    STORE(sum);
  }
}
