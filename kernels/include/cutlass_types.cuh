// The name that CUTLASS has for a 16-bit element.
#pragma once

#include <cutlass/numeric_types.h>

template <class Element>
struct Name;
template <>
struct Name<__nv_bfloat16> {
  using Type = cutlass::bfloat16_t;
};
template <>
struct Name<__half> {
  using Type = cutlass::half_t;
};
using Half = Name<T>::Type;
