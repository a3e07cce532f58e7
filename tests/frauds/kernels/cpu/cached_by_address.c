/*---
title: "Returns for addresses it has seen"
idea: a call with the A, B and C of the last one is taken for done
---*/
#include "fraud.h"

GEMM {
  static const T *seen[3];
  if (seen[0] == A && seen[1] == B && seen[2] == C) return;
  seen[0] = A, seen[1] = B, seen[2] = C;
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
