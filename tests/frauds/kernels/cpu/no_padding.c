/*---
title: "Ignores padding"
idea: rows of A are taken to be K apart
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += A[(size_t)m * K + k] * Bt(k, n);
    STORE(sum);
  }
}
