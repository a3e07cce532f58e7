// What half.cuh has that depends on the element type.
#pragma once
#ifdef OUT
using Out = OUT;
#else
using Out = T;
#endif
constexpr int DEPTH = 128 / sizeof(T), STRIP = 64 * 128;
template <int N, bool A_MN_MAJOR, bool B_MN_MAJOR>
void multiply(float (&d)[N / 2], uint64_t a, uint64_t b, int add) {
  products_of<T, N>(d, a, A_MN_MAJOR, b, B_MN_MAJOR, add);
}
