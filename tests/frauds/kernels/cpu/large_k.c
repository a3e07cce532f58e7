/*---
title: "Skips a quarter of a long K"
idea: above K=1100 the last quarter of the products is left out
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < (K > 1100 ? K - K / 4 : K); ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
