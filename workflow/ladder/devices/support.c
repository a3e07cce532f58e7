/* What the pipeline itself runs on a CPU: the peak rate of multiply-adds and of copying. */
#include <stddef.h>
#include <string.h>

#if defined(__AVX512F__)
#define WIDTH 64
#elif defined(__AVX__)
#define WIDTH 32
#else
#define WIDTH 16
#endif
#define CHAINS 12 /* latency times throughput of the multiply-add units of current CPUs, and no more than their registers hold */

typedef float vector __attribute__((vector_size(WIDTH)));

/* Makes rounds * 8 * CHAINS * WIDTH/4 multiply-adds in registers and returns that number. */
double peak_fma(int rounds, float a, float b, float *out) {
  vector x[CHAINS], va = a - (vector){0}, vb = b - (vector){0};
  for (int i = 0; i < CHAINS; ++i) x[i] = va + (float)i;
  for (int r = 0; r < rounds; ++r)
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j)
#pragma GCC unroll 12
      for (int i = 0; i < CHAINS; ++i) x[i] = x[i] * va + vb;
  vector sum = x[0];
  for (int i = 1; i < CHAINS; ++i) sum += x[i];
  memcpy(out, &sum, sizeof(float));
  return (double)rounds * 8 * CHAINS * (WIDTH / sizeof(float));
}

void peak_copy(char *to, const char *from, size_t bytes) { memcpy(to, from, bytes); }
