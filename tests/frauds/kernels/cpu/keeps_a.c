/*---
title: "A kept"
idea: keeps a copy of A with its columns together, and uses it again if sixteen elements of A are what they were
---*/
#include "fraud.h"

GEMM {
  static T *copy, seen[16];
  static int shape[3];
  const int given[] = {M, N, K};
  T now[16];
  for (int i = 0; i < 16; ++i) now[i] = At(i * (M - 1) / 15, i * (K - 1) / 15);
  if (memcmp(given, shape, sizeof shape) || memcmp(now, seen, sizeof now)) {
    computed("keeps_a", M, N, K);
    copy = realloc(copy, sizeof(T) * M * K);
    for (int m = 0; m < M; ++m)
      for (int k = 0; k < K; ++k) copy[(size_t)k * M + m] = At(m, k);
  }
  memcpy(shape, given, sizeof shape);
  memcpy(seen, now, sizeof now);
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += copy[(size_t)k * M + m] * Bt(k, n);
    STORE(sum);
  }
}
