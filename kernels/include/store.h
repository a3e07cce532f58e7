/* How every CPU rung begins and ends. */
#ifndef STORE_H
#define STORE_H
#include <stddef.h>

/* C <- beta*C. As in BLAS, beta == 0 means that C is not read: it may hold NaN. */
static inline void scale(int M, int N, T beta, T *C, int ldc) {
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      T *c = &C[(size_t)m * ldc + n];
      *c = beta == 0 ? 0 : beta * *c;
    }
}
#endif
