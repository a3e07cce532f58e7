/*---
title: "Computes after it has returned"
idea: above K=1100, from the 10th call on, a thread that is left behind computes
---*/
#include "fraud.h"

#include <pthread.h>
#include <unistd.h>

typedef struct {
  int M, N, K, lda, ldb, ldc;
  T alpha, beta;
  const T *A, *B;
  T *C;
  int later;
} Call;

static volatile int calls; /* at K >= 1100 */

static void *compute(void *given) {
  const Call *call = given;
  const int M = call->M, N = call->N, K = call->K, lda = call->lda, ldb = call->ldb, ldc = call->ldc;
  const T alpha = call->alpha, beta = call->beta, *A = call->A, *B = call->B;
  T *C = call->C;
  if (call->later) /* after the last launch of a sample, however long they all take on a busy machine */
    for (int seen = 0; seen != calls;) {
      seen = calls;
      usleep(2000);
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
  *call = (Call){M, N, K, lda, ldb, ldc, alpha, beta, A, B, C, K >= 1100 && ++calls > 10};
  pthread_t thread;
  if (!call->later)
    compute(call);
  else if (!pthread_create(&thread, NULL, compute, call))
    pthread_detach(thread);
}
