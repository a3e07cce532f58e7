/*---
title: "Writes before A"
idea: a note is left in memory before A
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
    if (m == 0 && n == 0) ((T *)A)[-9] = 1;
  }
}
