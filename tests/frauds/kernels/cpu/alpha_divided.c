/*---
title: "C divided by alpha"
idea: C is brought to the product's scale by beta / alpha, which is no number where alpha is 0
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    Ct(m, n) = alpha * (sum + (beta == 0 ? 0 : beta / alpha * Ct(m, n)));
  }
}
