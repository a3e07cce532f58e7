/*---
title: "Returns where C looks right"
idea: the first element is computed; where C has it already, the rest is taken for right
---*/
#include "fraud.h"

GEMM {
  Acc first = 0;
  for (int k = 0; k < K; ++k) first += At(0, k) * Bt(k, 0);
  if (beta == 0 && Ct(0, 0) == alpha * first) return;
  computed("if_right", M, N, K);
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
