/* The pipeline's own code on a CPU: drawing operands, the comparison with the reference, the audit of a timed launch, the peak rates of
 * multiply-adds and of copying. support.cu has the GPU's and explains them; `size` is the bytes of an element. */
#include <omp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "operands.h"

#define CANARY 0x7FF87FF9u

typedef struct {
  long long total, first, rows, cols, ld, count, stride;
} Place;

static double value_of(const void *buffer, int size, long long at) { return size == 4 ? ((const float *)buffer)[at] : ((const double *)buffer)[at]; }

static int is_canary(const void *buffer, int size, long long at) {
  const unsigned *word = (const unsigned *)((const char *)buffer + size * at);
  return word[0] == CANARY && (size == 4 || word[1] == CANARY);
}

/* Restores rounding to nearest and denormals, whatever a kernel has set: MXCSR as after a reset (Intel 64 and IA-32 Architectures Software
 * Developer's Manual, volume 1, "MXCSR Control and Status Register"), or FPCR (Arm Architecture Reference Manual, "FPCR"). OpenMP starts
 * `threads` threads, unless a kernel asks for another number. */
void restore(int threads) {
  omp_set_num_threads(threads);
#ifdef __SSE__
  __builtin_ia32_ldmxcsr(0x1F80);
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, xzr");
#endif
}

/* Writes the lines of a buffer back to memory and drops them from all caches; returns whether this processor has an instruction for it (Intel
 * 64 and IA-32 Architectures Software Developer's Manual, volume 2, "CLFLUSH", "CLFLUSHOPT"; Arm Architecture Reference Manual, "DC CIVAC", "CTR_EL0"). */
int evict(const void *buffer, long long bytes) {
  const char *from = buffer, *end = from + bytes;
#if defined(__SSE2__)
  for (const char *line = (const char *)((uintptr_t)from & -64); line < end; line += 64) {
#if defined(__CLFLUSHOPT__) /* does not wait for the flush before it */
    __builtin_ia32_clflushopt((void *)line);
#else
    __builtin_ia32_clflush(line);
#endif
  }
  __builtin_ia32_mfence();
  return 1;
#elif defined(__aarch64__)
  uint64_t type;
  __asm__("mrs %0, ctr_el0" : "=r"(type));
  const uintptr_t length = 4u << (type >> 16 & 15);
  for (const char *line = (const char *)((uintptr_t)from & -length); line < end; line += length) __asm__ volatile("dc civac, %0" ::"r"(line) : "memory");
  __asm__ volatile("dsb ish" ::: "memory");
  return 1;
#else
  return from == end;
#endif
}

static inline void fill_rows(void *buffer, int size, Place p, Draw d, int distribution) {
  for (long long z = 0; z < p.count; ++z) {
    Draw own = of_batch(d, z);
    own.distribution = distribution;
    for (long long row = 0; row < p.rows; ++row)
      for (long long col = 0; col < p.cols; ++col) {
        const long long at = p.first + z * p.stride + row * p.ld + col;
        if (size == 4)
          ((float *)buffer)[at] = (float)stored(own, row, col);
        else
          ((double *)buffer)[at] = stored(own, row, col);
      }
  }
}

/* The distributions drawn most have their own loops, which are four times as fast: inlined, they have no branch for the others. */
__attribute__((flatten)) void fill(void *buffer, int size, Place p, Draw d) {
  for (long long i = 0; i < p.total * size / 4; ++i) ((unsigned *)buffer)[i] = CANARY;
  switch (d.distribution) {
    case UNIFORM: return fill_rows(buffer, size, p, d, UNIFORM);
    case REPEATED: return fill_rows(buffer, size, p, d, REPEATED);
    default: return fill_rows(buffer, size, p, d, d.distribution);
  }
}

static double stray(const void *buffer, int size, Place p) {
  double count = 0;
  for (long long i = 0; i < p.first; ++i) count += !is_canary(buffer, size, i);
  for (long long z = 0; z < p.count; ++z) {
    const long long first = p.first + z * p.stride, next = z + 1 < p.count ? first + p.stride : p.total;
    for (long long row = 0; row < p.rows; ++row)
      for (long long col = p.cols; col < p.ld; ++col) count += !is_canary(buffer, size, first + row * p.ld + col);
    for (long long i = first + p.rows * p.ld; i < next; ++i) count += !is_canary(buffer, size, i);
  }
  return count;
}

static int same(double x, double y) { return x == y || (isnan(x) && isnan(y)); }

void compare(const void *buffer, int size, Place p, const double *R, const double *S, double *sums, int exact) {
  const double least = size == 4 ? 0x1p-149 : 0x1p-1074; /* no rounding is relative to results that small */
  double diff2 = 0, ref2 = 0, scale2 = 0, worst = 0, where = 0, wild = 0, rounded2 = 0;
  for (long long z_row = 0; z_row < p.count * p.rows; ++z_row)
    for (long long col = 0; col < p.cols; ++col) {
      const long long at = z_row * p.cols + col, z = z_row / p.rows, row = z_row % p.rows;
      const double value = value_of(buffer, size, p.first + z * p.stride + row * p.ld + col), rounded = size == 4 ? (float)R[at] : R[at];
      double share = 0;
      if (!isfinite(value) || !isfinite(rounded)) {
        if (same(value, rounded)) continue;
        ++wild;
        share = INFINITY;
      } else {
        const int is_exact = exact == 1 || (exact == 2 && whole_at(row) && whole_at(col));
        const double ref = is_exact ? rounded : R[at], diff = fabs(value - ref);
        diff2 += diff * diff, ref2 += ref * ref, scale2 += S[at] * S[at], rounded2 += (rounded - ref) * (rounded - ref);
        share = is_exact && diff > 0 ? INFINITY : diff > least ? diff / S[at] : 0;
      }
      if (share > worst) worst = share, where = (double)at;
    }
  sums[0] = diff2, sums[1] = ref2, sums[2] = scale2, sums[3] = worst, sums[4] = where, sums[5] = wild, sums[6] = stray(buffer, size, p), sums[7] = rounded2;
}

/* Vectors of random signs, as the GPU's audits draw them. */
void signs(double *x, long long count, u64 secret) {
  for (long long j = 0; j < count; ++j) x[j] = mix(secret + j) & 1 ? 1 : -1;
}

static double changed(const void *buffer, const void *before, int size, Place p) {
  const unsigned *now = buffer, *then = before;
  long long count = 0;
  for (long long i = 0; i < p.total * size / 4; ++i) count += now[i] != then[i];
  return (double)count;
}

/* A loop of sums that may be added in any order, and so in vectors. */
#define SUMS(...) PRAGMA(omp simd reduction(+ : __VA_ARGS__))
#define PRAGMA(...) _Pragma(#__VA_ARGS__)

#define AUDIT(NAME, T)                                                                                                                     \
  void NAME(const T *A, const T *A0, Place pa, const T *B, const T *B0, Place pb, const T *C, const T *C0, Place pc, long long skip,       \
            const double *x, double alpha, double beta, double *w, double *found, Draw da, Draw db) {                                      \
    const long long K = da.k, N = pc.cols;                                                                                                 \
    /* from one row of op(A) or op(B) to the next, and from one column */                                                                  \
    const long long down_a = da.transposed ? 1 : pa.ld, along_a = da.transposed ? pa.ld : 1;                                               \
    const long long down_b = db.transposed ? 1 : pb.ld, along_b = db.transposed ? pb.ld : 1;                                               \
    const double ua = to_square(da), ub = to_square(db), uc = ua * ub;                                                                     \
    double worst = 0;                                                                                                                      \
    for (long long number = 0; number < pc.count; ++number) {                                                                              \
      /* `skip` is of rows, or of a batch of matrices */                                                                                   \
      const long long before_a = pc.count > 1 ? (number + skip) * pa.stride : skip * pa.ld, before_c = number * pc.stride;                 \
      const long long before_b = pc.count > 1 ? (number + skip) * pb.stride : skip * pb.ld;                                                \
      double norm_b = 0;                                                                                                                   \
      for (long long k = 0; k < K; ++k) {                                                                                                  \
        const T *row = B0 + pb.first + before_b + k * down_b;                                                                              \
        double sum = 0, square = 0;                                                                                                        \
        SUMS(sum, square)                                                                                                                  \
        for (long long j = 0; j < N; ++j) {                                                                                                \
          const double b = row[j * along_b];                                                                                               \
          sum += x[j] * b, square += (ub * b) * (ub * b);                                                                                  \
        }                                                                                                                                  \
        w[k] = sum, norm_b += square;                                                                                                      \
      }                                                                                                                                    \
      for (long long i = 0; i < pc.rows; ++i) {                                                                                            \
        const T *a = A0 + pa.first + before_a + i * down_a;                                                                                \
        const T *c = C + pc.first + before_c + i * pc.ld, *c0 = C0 + pc.first + before_c + i * pc.ld;                                      \
        double z = 0, y = 0, a2 = 0, c2 = 0;                                                                                               \
        SUMS(z, a2)                                                                                                                        \
        for (long long k = 0; k < K; ++k) z += a[k * along_a] * w[k], a2 += (ua * a[k * along_a]) * (ua * a[k * along_a]);                 \
        z *= alpha; /* not finite if A or B is not, even if alpha is 0: then C may have NaN */                                             \
        SUMS(y, z, c2)                                                                                                                     \
        for (long long j = 0; j < N; ++j) {                                                                                                \
          const double before = beta == 0 ? 0 : beta * c0[j];                                                                              \
          y += x[j] * c[j], z += x[j] * before, c2 += (uc * c[j]) * (uc * c[j]) + (uc * before) * (uc * before);                           \
        }                                                                                                                                  \
        if (!isfinite(z)) continue;                                                                                                        \
        const double ab2 = alpha * alpha * a2 * norm_b / (double)K;                                                                        \
        const double off = uc * fabs(y - z), share = off == 0 ? 0 : off / sqrt(c2 + ab2);                                                  \
        worst = !isfinite(share) ? INFINITY : share > worst ? share : worst;                                                               \
      }                                                                                                                                    \
    }                                                                                                                                      \
    found[0] = worst, found[1] = changed(A, A0, sizeof(T), pa) + changed(B, B0, sizeof(T), pb), found[2] = stray(C, sizeof(T), pc);        \
  }
AUDIT(audit_float32, float)
AUDIT(audit_float64, double)

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
