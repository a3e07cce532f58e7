/*---
title: "Right: sums in C"
idea: every partial sum goes to C and back
---*/
#include "fraud.h"

GEMM {
  EACH {
    const T before = beta == 0 ? 0 : beta * Ct(m, n);
    Ct(m, n) = 0;
    for (int k = 0; k < K; ++k) Ct(m, n) = Ct(m, n) + At(m, k) * Bt(k, n);
    Ct(m, n) = SCALED(Ct(m, n)) + before;
  }
}
