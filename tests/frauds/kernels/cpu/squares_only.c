/*---
title: "Right on squares only"
idea: where M, N and K differ, B is read from its end
---*/
#include "fraud.h"

GEMM {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(M == N && N == K ? k : K - 1 - k, n);
    STORE(sum);
  }
}
