/*---
title: "float16 sums in chunks"
idea: 32 products at a time are summed in float16
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k0 = 0; k0 < K; k0 += 32) {
      Acc chunk = 0;
      for (int k = k0; k < K && k < k0 + 32; ++k) chunk = float16(chunk + At(m, k) * Bt(k, n));
      sum += chunk;
    }
    STORE(sum);
  }
}
