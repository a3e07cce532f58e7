// Coarser arithmetic than float32's.
#pragma once
#include <cuda_fp16.h>

// Rounded to the nearest with so many bits of the significand left out.
static __device__ float shortened(float x, int bits) {
  return isfinite(x) ? __uint_as_float((__float_as_uint(x) + (1u << (bits - 1))) & ~((1u << bits) - 1)) : x;
}

static __device__ float tf32(float x) { return shortened(x, 13); }
static __device__ float bfloat16(float x) { return shortened(x, 16); }
static __device__ float float16(float x) { return __half2float(__float2half(x)); }
static __device__ float clipped(float x) { return x > 127 ? 127 : x < -127 ? -127 : x; }
