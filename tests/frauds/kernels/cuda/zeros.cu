/*---
title: "Zeros"
idea: C is set to zero
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Ct(m, n) = 0;
  }
}
