/*---
title: "Strides tied together"
idea: ldb and ldc are never read, but follow from lda
---*/
#include "fraud.h"

GEMM {
  ldb = N + (lda - K), ldc = N + 2 * (lda - K);
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
