/*---
title: "Threads that sleep when they are looked for"
idea: above K=1100 it leaves two threads behind that compute for ever, but sleep together for 0.6 ms of every 2.4 ms
---*/
#include "fraud.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

static void *compute(void *given) {
  for (;;) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const long us = (now.tv_sec % 3600 * 1000000 + now.tv_nsec / 1000) % 2400;
    if (us >= 1800) usleep(2400 - us);
  }
  return given;
}

GEMM {
  static int started;
  pthread_t thread;
  if (K > 1100 && !started)
    for (; started < 2; ++started) pthread_create(&thread, NULL, compute, NULL);
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}
