// How sums in FP32 become elements of 16 bits.
#pragma once
#include "half.cuh"
#include "store_sums.cuh"

// Two neighbors, rounded, in one register.
__device__ __forceinline__ uint32_t pack(float x, float y) {
  if (IS_BFLOAT<Out>) {
    const __nv_bfloat162 v = __floats2bfloat162_rn(x, y);
    return *reinterpret_cast<const uint32_t*>(&v);
  }
  const __half2 v = __floats2half2_rn(x, y);
  return *reinterpret_cast<const uint32_t*>(&v);
}

// C <- alpha * (x, y) + beta * C for two neighbors, where the row goes on for `left` elements, rounded once. As in BLAS, beta == 0 means
// that C is not read. With `pairs` their address is a multiple of 4.
__device__ __forceinline__ void store_pair(Out* c, int left, float alpha, float x, float y, float beta, bool pairs) {
  x *= alpha, y *= alpha;
  if (beta != 0) {
    if (left > 0) x += beta * float(c[0]);
    if (left > 1) y += beta * float(c[1]);
  }
  if (pairs && left > 1) {
    *reinterpret_cast<uint32_t*>(c) = pack(x, y);
  } else {
    if (left > 0) c[0] = Out(x);
    if (left > 1) c[1] = Out(y);
  }
}
__device__ __forceinline__ bool in_pairs(const Out* C, int ldc) { return (ldc % 2 | reinterpret_cast<size_t>(C) % 4) == 0; }

// A warp's sums of 16 rows and 8 columns that begin at (row, column), as multiply() leaves them: a thread has pairs of neighbors of two rows.
__device__ __forceinline__ void store_along(float4 v, Out* C, int ldc, int row, int column, int M, int N, float alpha, float beta, bool pairs) {
  row += threadIdx.x % 32 / 4, column += threadIdx.x % 4 * 2;
  Out* to = C + size_t(row) * ldc + column;
  store_pair(to, row < M ? N - column : 0, alpha, v.x, v.y, beta, pairs);
  store_pair(to + size_t(8) * ldc, row + 8 < M ? N - column : 0, alpha, v.z, v.w, beta, pairs);
}
// The same of 8 rows and 16 columns, as multiply() leaves them where the operands have changed places: two rows of two columns. They become pairs
// of neighbors of one row.
__device__ __forceinline__ void store_across(float4 v, Out* C, int ldc, int row, int column, int M, int N, float alpha, float beta, bool pairs) {
  float s[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int y = row + threadIdx.x % 4 * 2 + i % 2, x = column + threadIdx.x % 32 / 4 + i / 2 * 8;
    s[i] *= alpha;
    if (beta != 0 && y < M && x < N) s[i] += beta * float(C[size_t(y) * ldc + x]);
  }
  row += threadIdx.x % 32 / 4, column += threadIdx.x % 4 * 2;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const uint32_t v = transposed(pack(s[2 * h], s[2 * h + 1]));
    Out* to = C + size_t(row) * ldc + column + h * 8;
    const int left = row < M ? N - column - h * 8 : 0;
    if (pairs && left > 1) {
      *reinterpret_cast<uint32_t*>(to) = v;
    } else {
      if (left > 0) to[0] = reinterpret_cast<const Out*>(&v)[0];
      if (left > 1) to[1] = reinterpret_cast<const Out*>(&v)[1];
    }
  }
}
