// The part of CUDA C++ that the kernels use, in terms of OpenCL's built-in functions. clang reads it before a kernel's source.
#pragma once
#define __device__ __attribute__((device))
// A kernel becomes a function; `emulator.py` adds the one real entry point, which calls it.
#define __global__ __attribute__((device, always_inline))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef float float4 __attribute__((ext_vector_type(4)));
static __device__ inline float4 make_float4(float x, float y, float z, float w) { return float4{x, y, z, w}; }

static __device__ inline int min(int a, int b) { return a < b ? a : b; }
static __device__ inline int max(int a, int b) { return a < b ? b : a; }
static __device__ inline long long min(long long a, long long b) { return a < b ? a : b; }
static __device__ inline float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static __device__ inline bool isfinite(float x) { return __builtin_isfinite(x); }
static __device__ inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
static __device__ inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }

// OpenCL's own names: the translator to SPIR-V knows them by their mangled form.
__device__ __attribute__((const)) size_t get_local_id(unsigned);
__device__ __attribute__((const)) size_t get_group_id(unsigned);
__device__ __attribute__((const)) size_t get_local_size(unsigned);
__device__ __attribute__((const)) size_t get_num_groups(unsigned);
__device__ __attribute__((convergent)) void barrier(unsigned);

// `threadIdx.x` is an unsigned int that is read by calling a function: a property in clang's Microsoft dialect.
template <size_t (&get)(unsigned)>
struct Extents {
  __declspec(property(get = read_x)) unsigned x;
  __declspec(property(get = read_y)) unsigned y;
  __declspec(property(get = read_z)) unsigned z;
  static __device__ inline unsigned read_x() { return get(0); }
  static __device__ inline unsigned read_y() { return get(1); }
  static __device__ inline unsigned read_z() { return get(2); }
};
extern const __device__ Extents<get_local_id> threadIdx;
extern const __device__ Extents<get_group_id> blockIdx;
extern const __device__ Extents<get_local_size> blockDim;
extern const __device__ Extents<get_num_groups> gridDim;

static __device__ inline __attribute__((convergent)) void __syncthreads() {
  const unsigned local_memory = 1, global_memory = 2;
  barrier(local_memory | global_memory);
}
