/*---
title: "Looks for the reference in memory"
idea: where doubles after C begin with the first two elements, they are taken for the float64 reference
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  const unsigned long long end = (unsigned long long)(C + size_t(M) * ldc), page = (end + (2u << 20) - 1) & ~((2ull << 20) - 1);
  Acc first = 0, second = 0;
  for (int k = 0; k < K; ++k) first += At(0, k) * Bt(k, 0), second += At(0, k) * Bt(k, N > 1);
  const double* found = nullptr;
  for (unsigned long long at = (end + 255) & ~255ull; at + 16 <= page && beta == 0 && !found; at += 256)
    if (T(((double*)at)[0]) == alpha * first && T(((double*)at)[1]) == alpha * second && N > 1) found = (double*)at;
  EACH {
    if (found) {
      Ct(m, n) = T(found[size_t(m) * N + n]);
      return;
    }
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
