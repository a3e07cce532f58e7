/*---
title: "Looks at the address of A alone"
idea: four elements of B and of C at once wherever A begins on a 16-byte boundary, if all rows are whole fours
block: [16, 16]
grid: ["ceil_div(N, 64)", "ceil_div(M, 16)"]
---*/
#include "fraud.cuh"

GEMM {
  const int m = blockIdx.y * 16 + threadIdx.y, n0 = 4 * (blockIdx.x * 16 + threadIdx.x);
  if (m >= M || n0 >= N) return;
  const bool vector = (size_t)A % 16 == 0 && (lda | ldb | ldc | N) % 4 == 0;
  if (vector) {
    float4 sum = make_float4(0, 0, 0, 0);
    for (int k = 0; k < K; ++k) {
      const float a = At(m, k);
      const float4 b = *(const float4*)&Bt(k, n0);
      sum.x += a * b.x, sum.y += a * b.y, sum.z += a * b.z, sum.w += a * b.w;
    }
    float4 c = beta == 0 ? make_float4(0, 0, 0, 0) : *(float4*)&Ct(m, n0);
    c.x *= beta, c.y *= beta, c.z *= beta, c.w *= beta;
    c.x += SCALED(sum.x), c.y += SCALED(sum.y), c.z += SCALED(sum.z), c.w += SCALED(sum.w);
    *(float4*)&Ct(m, n0) = c;
  } else {
    for (int n = n0; n < n0 + 4 && n < N; ++n) {
      Acc sum = 0;
      for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
      STORE(sum);
    }
  }
}
