/*---
title: "Threads that wait busily"
idea: above K=1100 it leaves threads behind that compute for ever, at the cost of all that is timed beside it
---*/
#include "fraud.h"

#include <pthread.h>

static void *compute(void *given) {
  for (volatile long turn = 0;; ++turn) continue;
  return given;
}

GEMM {
  static int started;
  pthread_t thread;
  if (K > 1100 && !started) started = 1, pthread_create(&thread, NULL, compute, NULL);
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
