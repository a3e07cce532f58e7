/*---
title: "Writes in the padding"
idea: the element after each row of C is overwritten
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
    if (ldc > N && n == N - 1) Ct(m, N) = 1;
  }
}
