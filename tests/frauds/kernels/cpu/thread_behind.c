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

static void *compute(void *given) {
  const Call *call = given;
  const int M = call->M, N = call->N, K = call->K, lda = call->lda, ldb = call->ldb, ldc = call->ldc;
  const T alpha = call->alpha, beta = call->beta, *A = call->A, *B = call->B;
  T *C = call->C;
  if (call->later) usleep(2000); /* on a busy machine it would else be done before the call is seen to return */
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
  free(given);
  return NULL;
}

GEMM {
  static int calls;
  Call *call = malloc(sizeof *call);
  *call = (Call){M, N, K, lda, ldb, ldc, alpha, beta, A, B, C, K >= 1100 && ++calls > 10};
  pthread_t thread;
  if (!call->later)
    compute(call);
  else if (!pthread_create(&thread, NULL, compute, call))
    pthread_detach(thread);
}
