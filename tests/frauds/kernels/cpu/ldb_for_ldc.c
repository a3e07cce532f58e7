/*---
title: "ldb for ldc"
idea: rows of C are taken to be ldb apart
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    T *c = &C[(size_t)m * ldb + n];
    *c = SCALED(sum) + (beta == 0 ? 0 : beta * *c);
  }
}
