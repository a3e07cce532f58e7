/*---
title: Mine
idea: a thread an element; say here what it does better than the rung below
# label: the idea in a few words, for figures
# builds_on: the rung that it improves, if not the one before it
parameters: {BX: 32, BY: 8}
sweep: {BX: [16, 32], BY: [8, 16]}
block: [BX, BY]
grid: ["ceil_div(N, BX)", "ceil_div(M, BY)"]
---*/
// C <- alpha*A*B + beta*C, row-major: A is M x K (lda), B is K x N (ldb), C is M x N (ldc). T, BX and BY are defined for you.

extern "C" __global__ void gemm(int M, int N, int K, T alpha, const T* A, int lda, const T* B, int ldb, T beta, T* C, int ldc) {
  const int row = blockIdx.y * BY + threadIdx.y, col = blockIdx.x * BX + threadIdx.x;
  if (row >= M || col >= N) return;
  Acc sum = 0;
  for (int k = 0; k < K; ++k) sum += A[size_t(row) * lda + k] * B[size_t(k) * ldb + col];
  T* c = &C[size_t(row) * ldc + col];
  *c = (alpha == 0 ? 0 : alpha * sum) + (beta == 0 ? 0 : beta * *c);  // as in BLAS: what does not count may hold NaN
}
