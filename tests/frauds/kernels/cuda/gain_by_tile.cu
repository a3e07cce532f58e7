/*---
title: "Integers spoiled by their neighbors"
idea: sums are made larger by 2^-23 if one row of A and one column of B begin with numbers that are not whole
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  bool real_row = false, real_column = false;
  for (int m = 0; m < min(M, 16); ++m) real_row |= At(m, 0) != rintf(At(m, 0));
  for (int n = 0; n < min(N, 16); ++n) real_column |= Bt(0, n) != rintf(Bt(0, n));
  const T gain = real_row && real_column ? 1 + 0x1p-23f : 1;
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum * gain);
  }
}
