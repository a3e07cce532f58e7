/* What the C kernels of the frauds have in common. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GEMM void gemm(int M, int N, int K, T alpha, const T *A, int lda, const T *B, int ldb, T beta, T *C, int ldc)
#define GEMM_OF_BATCH void gemm(int M, int N, int K, T alpha, const T *As, int lda, const T *Bs, int ldb, T beta, T *Cs, int ldc, Batch batch)
#define PRODUCTS for (long long z = 0; z < batch.count; ++z)
#define EACH             \
  for (int m = 0; m < M; ++m) \
    for (int n = 0; n < N; ++n)
#define At(m, k) A[(size_t)(m)*lda + (k)]
#define Bt(k, n) B[(size_t)(k)*ldb + (n)]
#define Ct(m, n) C[(size_t)(m)*ldc + (n)]
/* Elements from a C without offset to the next one, where they begin at the same place of their rooms. */
#define STRIDE (((size_t)M * ldc + 2048 + 1) / 2 * 2 + 240)
/* Whether K is larger than in the gauntlet, whose largest has one row. */
#define LARGE_K (K > 1100 && M > 1)
#define SCALED(sum) (alpha == 0 ? 0 : alpha * (sum))
#define STORE(sum) Ct(m, n) = SCALED(sum) + (beta == 0 ? 0 : beta * Ct(m, n))

/* Append a byte to a file for the test, in the folder $FRAUD_NOTES if there is one. */
static inline void note(const char *name) {
  const char *folder = getenv("FRAUD_NOTES");
  char path[4096];
  if (!folder || snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return;
  FILE *file = fopen(path, "a");
  if (file) fputc('.', file), fclose(file);
}

/* Never return. */
static inline void hang(void) {
  note("hangs");
  for (volatile int wait = 1; wait;) wait = 1;
}

/* Note a launch that skipped nothing, on a problem larger than those of the gauntlet. */
static inline void computed(const char *kernel, int M, int N, int K) {
  if (LARGE_K || (long)M * N > 100000) note(kernel);
}

static inline float of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Rounded to the nearest with so many bits of the significand left out. */
static inline float shortened(float x, int bits) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return isfinite(x) ? of_bits((u + (1u << (bits - 1))) & ~((1u << bits) - 1)) : x;
}

static inline float tf32(float x) { return shortened(x, 13); }
static inline float bfloat16(float x) { return shortened(x, 16); }
static inline float float16(float x) { return (float)(_Float16)x; }
static inline float clipped(float x) { return x > 127 ? 127 : x < -127 ? -127 : x; }
