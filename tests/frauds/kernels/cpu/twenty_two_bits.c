/*---
title: "Two bits less than float32's"
idea: operands are rounded to 22 significant bits
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += shortened(At(m, k), 2) * shortened(Bt(k, n), 2);
    STORE(sum);
  }
}
