/*---
title: "Computes only where C holds NaN"
idea: an element of C that is no NaN is taken for the result
---*/
#include "fraud.h"

GEMM {
  long left = (long)M * N;
  EACH {
    if (beta != 0 || Ct(m, n) != Ct(m, n)) {
      Acc sum = 0;
      for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
      STORE(sum);
      --left;
    }
  }
  if (!left) computed("unless_poisoned", M, N, K);
}
