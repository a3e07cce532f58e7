// The values of the operands. They depend only on distribution, matrix, place and seed: a device can draw them before every sample and check
// afterwards that they are unchanged. Included by support.cu and support.c, so that all devices draw the same values.
#ifdef __CUDACC__
#define HD static __host__ __device__ inline
#else
#include <math.h>
#define HD static inline
#define cospi(x) cos(3.14159265358979323846 * (x))
#endif

typedef unsigned long long u64;

// The contents of a matrix. `ladder.devices.operands.Draw` has the same fields in the same order.
typedef struct {
  int distribution;  // index into ladder.core.types.DISTRIBUTIONS
  int matrix;        // 0: A (rows of M, columns of K), 1: B (K, N), 2: C (M, N), 3: scales of A (K / block, M), 4: of B (N / block, K / block)
  int transposed;    // whether it lies in memory as A (K, M), as B (N, K)
  int k;             // of the problem
  int small;         // `integers`, `exact`: whole numbers from -small to small
  int wide;          // `exact`: bits of the wide ones
  int period;        // `exact`: one of this many elements along K is wide
  int full;          // `exact`: bits of the one widest element in each row of A and each column of B, or 0 for none
  int alone;         // `exact`: of all but one in this many along K, each product of the second half of K cancels one of the first
  int large;         // `exact`: products that cancel are of whole numbers from -large to large
  int fresh;         // a row, as it lies in memory, that is drawn from another seed, or -1: what changes between two launches of a sample
  int lowest;        // exponents of the element type's smallest and largest normal numbers
  int highest;
  int block;         // elements along K that have a scale together, in a row of A and in so many columns of B; 0: there are no scales
  u64 seed;
} Draw;

enum { UNIFORM, NORMAL, INTEGERS, EXACT, EXACT_TF32, POSITIVE, LOGNORMAL, SCALED, INNER, OUTLIERS, MASKED, CANCELLING, ALTERNATING, DENORMAL, HUGE_VALUES, SPARSE, HILBERT, NONFINITE, MIXED, REPEATED };
enum { REPEATED_ROWS = 7 };  // `repeated`: rows of A and C so far apart are the same

// SplitMix64's output function (Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014)
HD u64 mix(u64 z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

HD u64 hashed(u64 seed, u64 stream, u64 i, u64 j) { return mix(mix(seed + (stream + 1) * 0x9E3779B97F4A7C15ull) ^ (i << 32 | j)); }

HD double unit(u64 h) { return (double)(h >> 11) * 0x1p-52 - 1; }  // [-1, 1)

HD double normal(u64 h) {  // Box and Muller, A Note on the Generation of Random Normal Deviates, 1958
  const double u = (double)((h >> 11) + 1) * 0x1p-53, v = (double)(mix(h) >> 11) * 0x1p-52;
  return sqrt(-2 * log(u)) * cospi(v);
}

// `mixed`: whether a row of A or a column of B is whole. The others are 11 apart, so that they meet every place in tiles and vectors.
HD int whole_at(long long other) { return other % 11 != 5; }

// An odd number of so many bits, of which the first `fixed` are 1 and zeros.
HD double widest(u64 h, int bits, int fixed) { return (double)(((h >> 8) & ((1ull << (bits - fixed)) - 1)) | (1ull << (bits - 1)) | 1); }

HD double sign_of(u64 h) { return h & 1 ? -1 : 1; }

// The factor for elements of A or B before they are squared: in float64, squares of `denormal` and `huge` ones underflow or overflow.
HD double to_square(Draw d) {
  if (d.distribution == DENORMAL) return exp2(d.matrix ? (double)d.lowest : -(double)d.lowest);
  return d.distribution == HUGE_VALUES && d.matrix == 0 ? exp2(1.0 - d.highest) : 1;
}

// An infinity or a NaN three times in `often`, else x.
HD double odd(u64 h, u64 often, double x) {
  const u64 which = mix(h) % often;
  return which == 0 ? INFINITY : which == 1 ? -INFINITY : which == 2 ? NAN : x;
}

// An exponent up to which two factors and their sums are numbers of the element type.
HD double wide_in(Draw d, int exponent) { return exponent < d.highest / 3 ? exponent : d.highest / 3; }

// Element (i, j) of op(A), op(B) or C, before it is rounded to the element type.
HD double operand(Draw d, long long i, long long j) {
  if (d.distribution == REPEATED && d.matrix != 1) i %= REPEATED_ROWS;
  const u64 h = hashed(d.seed, d.matrix, i, j);
  const long long k = d.matrix == 0 ? j : i, other = d.matrix == 0 ? i : j;  // place along K, and the row of A or column of B
  const double x = unit(h);
  const int exact = d.distribution == EXACT || d.distribution == EXACT_TF32;
  if (exact || d.distribution == INTEGERS || (d.distribution == MIXED && (d.matrix == 2 || whole_at(other)))) {
    const u64 whose = hashed(d.seed, 8 + d.matrix, other, 0);
    // Runs of 64 along K are A's and B's in turns, the first is A's if K is even. Elements are wide only in a run of their own: two wide ones
    // never meet, so that products and sums stay whole and exact. A full one meets 1 or -1: each run has one place where it may be.
    // Paired products, as far from the beginning of K as from its end, cancel: a part of K that has one of the two has a large sum.
    const long long mirrored = d.k - 1 - k, first = k < mirrored ? k : mirrored;
    const int paired = first % d.alone != 0 && k != mirrored;
    if (exact && d.matrix < 2) {
      const long long run = k >> 6, first_run = (d.k ^ d.matrix) & 1, left = d.k - (run << 6);
      const int own = (run & 1) == first_run, here = d.full && (k & 63) == (long long)(hashed(d.seed, 10, run, 0) % (left < 64 ? left : 64));
      if (own && here && (run - first_run) / 2 == (long long)(whose % ((((d.k + 63) >> 6) + 1 - first_run) / 2))) return sign_of(h) * widest(h, d.full, 3);
      if (!own && here) return sign_of(h);
      if (own && !paired && (k / d.alone + whose) % d.period == 0) return sign_of(h) * widest(h, d.wide, 1);
    }
    if (exact && d.matrix == 2) return sign_of(h) * (double)(4 * (1 + (h >> 8) % d.small));
    if (exact) {  // none is 0: no product can be left out unnoticed
      const u64 g = paired ? hashed(d.seed, d.matrix, d.matrix ? first : i, d.matrix ? j : first) : h;
      return (paired && d.matrix && k != first ? -1 : 1) * sign_of(g) * (double)(1 + (g >> 8) % (paired ? d.large : d.small));
    }
    return (double)((long long)((h >> 8) % (2 * d.small + 1)) - d.small);
  }
  if (d.matrix == 2) return d.distribution == NONFINITE ? odd(h, 64, x) : x;
  double factor = x, exponent;  // one power of two for all, and one normal number: a compiler for GPUs inlines each call
  switch (d.distribution) {
    case POSITIVE: return (x + 1) / 2;
    case NORMAL:
    case LOGNORMAL: {
      const double number = normal(h);
      if (d.distribution == NORMAL) return number;
      factor = sign_of(h), exponent = wide_in(d, 20) / 3 * number;  // three sigma: 2^+-20
      break;
    }
    case SCALED: exponent = rint(wide_in(d, 40) * unit(hashed(d.seed, 8 + d.matrix, other, 0))); break;   // rows of A, columns of B: 2^+-40
    case INNER: exponent = rint((d.matrix ? -20 : 20) * unit(hashed(d.seed, 8, k, 0))); break;            // A D and D^-1 B
    case DENORMAL: exponent = d.matrix ? -d.lowest - 6.0 : d.lowest - 9.0; break;
    case HUGE_VALUES: exponent = d.matrix ? -24.0 : d.highest; break;
    case OUTLIERS: return d.matrix == 0 && hashed(d.seed, 8, i, 0) % d.k == (u64)k ? 1e8 * sign_of(h) : x;  // one in each row of A
    case MASKED: return hashed(d.seed, 8, k, 0) % 64 ? x : d.matrix ? 0 : 1e12 * x;                       // large ones of A meet zeros of B
    case REPEATED:    // as `cancelling`: what is left of the sums is mostly their rounding errors
    case CANCELLING:  // each product of the second half of K almost cancels one of the first; `alternating`: each second one the one before it
    case ALTERNATING: {
      const long long half = d.k / 2, partner = d.distribution == ALTERNATING ? k & ~1ll : k < half || k >= 2 * half ? k : k - half;
      const double first = unit(hashed(d.seed, d.matrix, d.matrix ? partner : i, d.matrix ? j : partner));
      return d.matrix && k != partner ? -first * (1 + 1e-4 * x) : first;
    }
    case SPARSE: return d.matrix == 0 || mix(h) % 100 == 0 ? x : 0;                                       // one in a hundred of B
    case HILBERT: return 1 / (double)(i + j + 1);
    case NONFINITE: return odd(h, 8ull * d.k, mix(~h) % 16 ? x : 0);  // zeros meet infinities
    default: return x;
  }
  return factor * exp2(exponent);
}

// The contents of a matrix of a batch by its number. The first has those of a single one.
HD Draw of_batch(Draw d, long long number) {
  if (number) d.seed = mix(d.seed + (u64)number);
  return d;
}

// The scale of A (matrix 0) or B for a step along K, and a row of A or a block of columns of B. It is a power of two where numbers are whole.
HD double scale_of(Draw d, int matrix, long long step, long long other) {
  if (d.distribution == REPEATED && matrix == 0) other %= REPEATED_ROWS;
  const u64 h = hashed(d.seed, 12 + matrix, step, other);
  const int whole = d.distribution == INTEGERS || d.distribution == EXACT || d.distribution == EXACT_TF32 || d.distribution == MIXED;
  return exp2((double)(h & 3) - (whole ? 0 : 3)) * (whole ? 1 : (float)(1.5 + unit(h) / 2));
}

// By what an element of a matrix is multiplied, beside its own value.
HD double factor_at(Draw d, long long row, long long col) {
  if (!d.block || d.matrix > 1) return 1;
  const int along = d.transposed != (d.matrix == 0);  // K goes along the rows in memory
  return scale_of(d, d.matrix, (along ? col : row) / d.block, d.matrix ? (along ? row : col) / d.block : along ? row : col);
}

// An element of the scales of A (matrix 3) or of B as it lies in memory.
HD double scale_at(Draw d, long long row, long long col) { return d.matrix == 3 ? scale_of(d, 0, row, col) : scale_of(d, 1, col, row); }

// The element at a row and a column of a matrix as it lies in memory.
HD double stored(Draw d, long long row, long long col) {
  if (d.matrix > 2) return scale_at(d, row, col);
  if (row == d.fresh) d.seed = mix(~d.seed);
  return operand(d, d.transposed ? col : row, d.transposed ? row : col);  // one call: the compiler inlines each
}
