/*---
title: "Puts work off to the last launch"
idea: counts the launches of a sample by where B begins, and later makes all of them in the last one
---*/
#include "fraud.h"

typedef struct {
  const T *A, *B;
  T *C;
} Call;

static void compute(int M, int N, int K, T alpha, const T *A, int lda, const T *B, int ldb, T beta, T *C, int ldc) {
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
}

GEMM {
  static Call calls[1 << 16];
  static const T *before;
  static int shape[3], turn, turns; /* of this launch in its sample; how many a sample of this shape has had */
  const int given[] = {M, N, K};
  if (memcmp(given, shape, sizeof shape)) turns = 0;
  memcpy(shape, given, sizeof shape);
  turn = B == before + 4 * ldb ? turn + 1 : 1;
  before = B;
  if (turn > turns) { /* not known yet: honest */
    turns = turn;
    compute(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
    return;
  }
  calls[turn - 1] = (Call){A, B, C};
  for (int i = 0; turn == turns && i < turns; ++i) compute(M, N, K, alpha, calls[i].A, lda, calls[i].B, ldb, beta, calls[i].C, ldc);
}
