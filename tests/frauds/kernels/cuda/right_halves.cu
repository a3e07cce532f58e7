/*---
title: "Right: summed by halves"
idea: neighbours are added in pairs, their sums in pairs, and so on
block: [16, 16]
grid: ["ceil_div(N, 16)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  EACH {
    Acc level[32], sum = 0;
    unsigned filled = 0;  // which levels hold a sum
    for (int k = 0; k < K; ++k) {
      Acc term = At(m, k) * Bt(k, n);
      int l = 0;
      for (; filled >> l & 1; ++l) term += level[l];
      filled = (filled & ~((1u << l) - 1)) | 1u << l;
      level[l] = term;
    }
    for (int l = 0; l < 32; ++l)
      if (filled >> l & 1) sum += level[l];
    STORE(sum);
  }
}
