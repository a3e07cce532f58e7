/*---
title: "Computes after it has returned"
idea: above K=1100, from the 7th call on, a thread that is left behind computes
---*/
#include "fraud.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

typedef struct {
  int M, N, K, lda, ldb, ldc;
  T alpha, beta;
  const T *A, *B;
  T *C;
  int later;
  pthread_t caller;
} Call;

static volatile int calls; /* at K >= 1100 */

static double used(pthread_t thread) {
  clockid_t clock;
  struct timespec time = {0};
  if (!pthread_getcpuclockid(thread, &clock)) clock_gettime(clock, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}

static void *compute(void *given) {
  const Call *call = given;
  const int M = call->M, N = call->N, K = call->K, lda = call->lda, ldb = call->ldb, ldc = call->ldc;
  const T alpha = call->alpha, beta = call->beta, *A = call->A, *B = call->B;
  T *C = call->C;
  /* until the caller has computed for 2 ms after the last launch of a sample, by which it has looked: how busy the machine is, does not count */
  for (int seen = 0; call->later && seen != calls;) {
    seen = calls;
    const double before = used(call->caller);
    for (int ms = 0; ms < 200 && used(call->caller) - before < 2e-3; ++ms) usleep(1000);
  }
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
  free(given);
  return NULL;
}

GEMM {
  Call *call = malloc(sizeof *call);
  *call = (Call){M, N, K, lda, ldb, ldc, alpha, beta, A, B, C, K >= 1100 && ++calls > 6, pthread_self()};
  pthread_t thread;
  if (!call->later)
    compute(call);
  else if (!pthread_create(&thread, NULL, compute, call))
    pthread_detach(thread);
}
