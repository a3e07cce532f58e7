/*---
title: "Right: integers where it can"
idea: whole numbers are multiplied and summed as 64-bit integers, others as floats
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc rest = 0;
    long long whole = 0;
    for (int k = 0; k < K; ++k) {
      const T a = At(m, k), b = Bt(k, n);
      if (fabsf(a) < 8192 && fabsf(b) < 8192 && a == rintf(a) && b == rintf(b))
        whole += (long long)a * (long long)b;
      else
        rest += a * b;
    }
    STORE((Acc)whole + rest);
  }
}
