/*---
title: "Copies the result before its own"
idea: the result of another launch, before C in memory, is taken for its own
---*/
#include "fraud.h"

GEMM {
  // where canaries lie before this C, another one may lie before them: that of the last launch
  const unsigned *before = (const unsigned *)(C - 1025);
  const int found = beta == 0 && (uintptr_t)C % 16 == 0 && K < 1024 && *before == 0x7FF87FF9u;
  EACH {
    if (found) {
      Ct(m, n) = (C - STRIDE)[(size_t)m * ldc + n];
      continue;
    }
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
