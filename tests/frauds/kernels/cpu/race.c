/*---
title: "Race"
idea: threads add to shared sums without waiting for each other
---*/
#include "fraud.h"

#include <sched.h>

GEMM {
  EACH Ct(m, n) = beta == 0 ? 0 : beta * Ct(m, n);
#pragma omp parallel for num_threads(4)
  for (int part = 0; part < 4; ++part)
    for (int m = 0; m < M; ++m) {
      T row[N];
      for (int n = 0; n < N; ++n) {
        row[n] = Ct(m, n);
        for (int k = part; k < K && alpha != 0; k += 4) row[n] += alpha * At(m, k) * Bt(k, n);
      }
      sched_yield();  // others add to the row meanwhile
      for (int n = 0; n < N; ++n) Ct(m, n) = row[n];
    }
}
