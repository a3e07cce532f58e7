// The element types of 16 bits in C++: bits, and conversions that round to nearest, ties to even.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

struct __nv_bfloat16 {
  uint16_t bits;
  __nv_bfloat16() = default;
  explicit __nv_bfloat16(float x) {
    uint32_t u;
    memcpy(&u, &x, 4);
    bits = std::isnan(x) ? 0x7FFF : uint16_t((u + 0x7FFF + (u >> 16 & 1)) >> 16);
  }
  explicit operator float() const {
    const uint32_t u = uint32_t(bits) << 16;
    float x;
    memcpy(&x, &u, 4);
    return x;
  }
};
struct __half {
  _Float16 value;
  __half() = default;
  explicit __half(float x) : value(_Float16(x)) {}
  explicit operator float() const { return float(value); }
};
struct __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
struct __half2 {
  __half x, y;
};
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__nv_bfloat16(x), __nv_bfloat16(y)}; }
inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
