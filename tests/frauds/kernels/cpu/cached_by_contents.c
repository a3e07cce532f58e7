/*---
title: "Result cached by contents"
idea: the last result is copied out where some elements of A and B are what they were
---*/
#include "fraud.h"

static T kept[1 << 20], seen[6];
GEMM {
  const T now[] = {M, N, K, At(0, 0), Bt(K - 1, N - 1), At(M / 2, K / 2)};
  const int known = beta == 0 && alpha == 1 && !memcmp(now, seen, sizeof now);
  if (!known) computed("cached_by_contents", M, N, K);
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
  memcpy(seen, now, sizeof now);
}
