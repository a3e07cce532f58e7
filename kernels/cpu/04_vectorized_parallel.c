/*---
title: Packed, vectorized, parallel
idea: a tile of C stays in SIMD registers while packed slivers of A and B stream past it, and all cores share the tiles
parameters: {MC: 120, NC: 512, KC: 256, THREADS: 0}
sweep: {MC: [60, 120, 240], NC: [512, 1024], KC: [256, 384], THREADS: [1, 0]}
element_types: [float32, float64]
layouts: [nn, nt, tn, tt]
batch: true
requires: [MC >= 12, MC % 12 == 0, NC >= 32, NC % 32 == 0, KC >= 16, KC % 16 == 0]
global_reads: batch * (M * K + K * N + M * N * ceil_div(K, KC))
global_writes: batch * M * N * ceil_div(K, KC)
---*/
/* Three ideas on top of the blocks of the rung below.
 *
 * Registers: the innermost step adds the product of MR values of A and NR values of B to MR x NR sums that never leave the SIMD
 * registers; MR and NR are as large as the registers allow.
 *
 * Packing: for KC values of k, A and B are first copied into slivers, MR rows or NR columns wide, in the very order in which
 * the innermost step reads them: no wasted cache lines, no strides. Slivers at the edge are filled up with zeros, so only the
 * last step, writing to C, asks where the matrix ends. A sliver of B stays in the first-level cache and MC rows of A in the
 * second while they are used.
 *
 * Threads: OpenMP hands out blocks of MC x NC elements of C as threads become free. THREADS = 0 means all that OpenMP has.
 *
 * What holds it back: block sizes suit common caches, not this machine's; and vendors write the innermost step in assembly. */

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"
#include "batch.h"
#include "store.h"

/* 512-bit SIMD has 32 registers, 256-bit SIMD has 16: most hold sums, a few values of A and B. */
#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64, MR = 12 };
#elif defined(__AVX__)
enum { VECTOR_BYTES = 32, MR = 6 };
#else
enum { VECTOR_BYTES = 16, MR = 4 };
#endif
enum { LANES = VECTOR_BYTES / sizeof(T), VECTORS = 2, NR = VECTORS * LANES };
_Static_assert(MC % MR == 0 && NC % NR == 0, "a block holds whole slivers");
typedef T Vector __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef T Unaligned __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));

static inline int least(int a, int b) { return a < b ? a : b; }

/* sliver[k][i] = op(A)[i][k] for kc columns of `rows` <= MR rows. */
static void pack_a(int rows, int kc, const T *restrict A, int lda, T *restrict sliver) {
  for (int i = rows; i < MR; ++i)
    for (int k = 0; k < kc; ++k) sliver[k * MR + i] = 0;
  if (rows == MR || TRANS_A)
    for (int k = 0; k < kc; ++k)
      for (int i = 0; i < (TRANS_A ? rows : MR); ++i) sliver[k * MR + i] = TRANS_A ? A[(size_t)k * lda + i] : A[(size_t)i * lda + k];
  else
    for (int i = 0; i < rows; ++i)
      for (int k = 0; k < kc; ++k) sliver[k * MR + i] = A[(size_t)i * lda + k];
}

/* sliver[k][j] = op(B)[k][j] for kc rows of `cols` <= NR columns. */
static void pack_b(int cols, int kc, const T *restrict B, int ldb, T *restrict sliver) {
  for (int k = 0; k < kc; ++k)
    for (int j = 0; j < NR; ++j) sliver[k * NR + j] = j < cols ? (TRANS_B ? B[(size_t)j * ldb + k] : B[(size_t)k * ldb + j]) : 0;
}

/* C <- alpha * (a sliver of A) * (a sliver of B) + beta * C for the `rows` x `cols` elements that are inside C. */
static void multiply(int rows, int cols, int kc, T alpha, const T *restrict a, const T *restrict b, T beta,
                     T *restrict C, int ldc) {
  Vector sum[MR][VECTORS] = {};
  for (int k = 0; k < kc; ++k, a += MR, b += NR)
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < VECTORS; ++v) sum[i][v] += a[i] * ((const Vector *)b)[v];

  if (rows == MR && cols == NR) {
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < VECTORS; ++v) {
        Unaligned *c = (Unaligned *)(C + (size_t)i * ldc) + v;
        /* As in BLAS, beta == 0 means that C is not read: it may hold NaN. */
        *c = beta == 0 ? alpha * sum[i][v] : alpha * sum[i][v] + beta * *c;
      }
  } else {
    T tile[MR][NR];
    memcpy(tile, sum, sizeof tile);
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < cols; ++j) {
        T *c = &C[(size_t)i * ldc + j];
        *c = alpha * tile[i][j] + (beta == 0 ? 0 : beta * *c);
      }
  }
}

/* Room for KC values of k of `count` rows or columns, in whole slivers `width` wide. */
static T *slivers(int count, int width) {
  _Static_assert(KC % 16 == 0, "whole slivers are whole vectors");
  T *room = aligned_alloc(VECTOR_BYTES, (size_t)(count / width + 1) * width * KC * sizeof(T));
  if (!room) abort();
  return room;
}

void gemm(int M, int N, int K, T alpha, const T *restrict A, int lda, const T *restrict B, int ldb, T beta,
          T *restrict C, int ldc) {
  if (alpha == 0) { /* as in BLAS, A and B do not count then: they may hold NaN */
    scale(M, N, beta, C, ldc);
    return;
  }
  T *a = slivers(M, MR), *b = slivers(N, NR);
#pragma omp parallel num_threads(THREADS ? THREADS : omp_get_max_threads())
  for (int k0 = 0; k0 < K; k0 += KC) {
    const int kc = least(KC, K - k0);
#pragma omp for nowait
    for (int m = 0; m < M; m += MR) pack_a(least(MR, M - m), kc, &A[TRANS_A ? (size_t)k0 * lda + m : (size_t)m * lda + k0], lda, &a[(size_t)m * kc]);
#pragma omp for
    for (int n = 0; n < N; n += NR) pack_b(least(NR, N - n), kc, &B[TRANS_B ? (size_t)n * ldb + k0 : (size_t)k0 * ldb + n], ldb, &b[(size_t)n * kc]);
#pragma omp for collapse(2) schedule(dynamic)
    for (int m0 = 0; m0 < M; m0 += MC)
      for (int n0 = 0; n0 < N; n0 += NC)
        for (int n = n0; n < least(n0 + NC, N); n += NR)
          for (int m = m0; m < least(m0 + MC, M); m += MR)
            multiply(least(MR, M - m), least(NR, N - n), kc, alpha, &a[(size_t)m * kc], &b[(size_t)n * kc],
                     k0 == 0 ? beta : 1, &C[(size_t)m * ldc + n], ldc);
  }
  free(a);
  free(b);
}
