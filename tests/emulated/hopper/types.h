// The element types of 16 and 8 bits in C++: bits, and conversions, which round to nearest, ties to even.
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
struct __nv_fp8_e4m3 {
  uint8_t bits;
  explicit operator float() const {
    const int exponent = bits >> 3 & 15, fraction = bits & 7;
    const uint32_t normal = (exponent + 120) << 23 | fraction << 20;
    float size = fraction * 0x1p-9f;
    if (exponent) memcpy(&size, &normal, 4);
    if ((bits & 127) == 127) size = NAN;
    return bits & 128 ? -size : size;
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
inline __half __float2half_rn(float x) { return __half(x); }
inline __half2 __float2half2_rn(float x) { return __floats2half2_rn(x, x); }
inline __half __low2half(__half2 x) { return x.x; }
inline __half __high2half(__half2 x) { return x.y; }
inline float __low2float(__half2 x) { return float(x.x); }
inline float __high2float(__half2 x) { return float(x.y); }
inline bool __hlt(__half x, __half y) { return float(x) < float(y); }
inline __half __hmin(__half x, __half y) { return __half(fminf(float(x), float(y))); }
inline __half2 __hmin2(__half2 x, __half2 y) { return {__hmin(x.x, y.x), __hmin(x.y, y.y)}; }
inline __half2 __habs2(__half2 x) { return __floats2half2_rn(fabsf(float(x.x)), fabsf(float(x.y))); }
inline __half2 __hadd2(__half2 x, __half2 y) { return __floats2half2_rn(float(x.x) + float(y.x), float(x.y) + float(y.y)); }
inline __half2 __hge2(__half2 x, __half2 y) { return __floats2half2_rn(float(x.x) >= float(y.x), float(x.y) >= float(y.y)); }
