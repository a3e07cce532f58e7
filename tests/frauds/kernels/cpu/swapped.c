/*---
title: "C transposed"
idea: rows and columns of C are exchanged where they fit
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    if (n < M && m < N) Ct(n, m) = SCALED(sum);
  }
}
