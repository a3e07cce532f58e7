/*---
title: "Right: B in memory of its own"
idea: B is copied to memory that outlives the call, anew each time
---*/
#include "fraud.h"

GEMM {
  static T *copy;
  copy = realloc(copy, sizeof(T) * K * N);
  for (int k = 0; k < K; ++k) memcpy(copy + (size_t)k * N, &Bt(k, 0), sizeof(T) * N);
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * copy[(size_t)k * N + n];
    STORE(sum);
  }
}
