/*---
title: "lda for ldb"
idea: rows of B are taken to be lda apart
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * B[((size_t)k * lda + n) % ((size_t)(K - 1) * ldb + N)];
    STORE(sum);
  }
}
