// How the sums that wgmma leaves in a warpgroup's registers are written, whatever the elements of C are.
#pragma once

// Two neighbours of C <- alpha * (x, y) + beta * C, where the row goes on for `left` elements. With `pairs` they are
// aligned, and both there or none.
__device__ __forceinline__ void store_pair(float* c, int left, float alpha, float x, float y, float beta, bool pairs) {
  if (pairs) {
    if (left <= 0) return;
    const float2 v = beta == 0 ? make_float2(0, 0) : *reinterpret_cast<float2*>(c);
    *reinterpret_cast<float2*>(c) = make_float2(alpha * x + beta * v.x, alpha * y + beta * v.y);
  } else {
    if (left > 0) c[0] = alpha * x + (beta == 0 ? 0 : beta * c[0]);
    if (left > 1) c[1] = alpha * y + (beta == 0 ? 0 : beta * c[1]);
  }
}

// The sums of a warpgroup: thread `thread` of the 128 has in d[4*j + 2*h + q] the element of row 16*(thread/32) + 8*h + thread%32/4 and column
// 8*j + 2*(thread%4) + q. (row, column) is the first element of its part of C. `pairs` is for `store_pair`, above or in half_store.cuh.
template <int N, class Element>
__device__ __forceinline__ void store_sums(const float (&d)[N / 2], Element* C, int ldc, int row, int column, int rows, int columns,
                                           float alpha, float beta, bool pairs, int thread) {
  row += thread / 32 * 16 + thread % 32 / 4, column += thread % 4 * 2;
#pragma unroll
  for (int h = 0; h < 2; ++h, row += 8)
#pragma unroll
    for (int j = 0; j < N / 8; ++j)
      store_pair(C + size_t(row) * ldc + column + 8 * j, row < rows ? columns - column - 8 * j : 0, alpha, d[4 * j + 2 * h],
                 d[4 * j + 2 * h + 1], beta, pairs);
}
