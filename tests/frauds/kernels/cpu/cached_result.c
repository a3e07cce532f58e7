/*---
title: "Result cached"
idea: the first result of a shape is kept and copied out from then on
---*/
#include "fraud.h"

static T kept[1 << 20];
static int seen[3];
GEMM {
  const int known = beta == 0 && seen[0] == M && seen[1] == N && seen[2] == K;
  EACH {
    if (known) {
      Ct(m, n) = kept[m * N + n];
      continue;
    }
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
    kept[m * N + n] = Ct(m, n);
  }
  seen[0] = M, seen[1] = N, seen[2] = K;
}
