// A Hopper GPU as a C++ program sees it, slow and suspicious: what the rungs for Hopper use of CUDA C++ and of the headers that hold assembler
// text. Every thread of a cluster is a fiber, and they run in random order. What is asynchronous on a GPU happens here at a random time
// between its start and the wait for it: boxes arrive late, matrix instructions read shared memory late, and until then their sums are NaN.
// A kernel that waits for the wrong thing gets wrong results or hangs, and a hang is reported.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "types.h"

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __restrict__
#define __align__(bytes) __attribute__((aligned(bytes)))

struct Index {
  unsigned x = 0, y = 0, z = 0;
};
extern Index threadIdx, blockIdx, gridDim, blockDim;

struct float2 {
  float x, y;
};
struct float4 {
  float x, y, z, w;
};
struct uint4 {
  uint32_t x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
struct uint2 {
  uint32_t x, y;
};
inline uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline uint32_t min(uint32_t a, uint32_t b) { return a < b ? a : b; }
inline uint32_t max(uint32_t a, uint32_t b) { return a > b ? a : b; }
inline uint32_t __float_as_uint(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
}
inline float __uint_as_float(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}
inline int __clz(uint32_t x) { return x ? __builtin_clz(x) : 32; }
inline uint32_t __vminu4(uint32_t a, uint32_t b) {
  uint32_t least = 0;
  for (int i = 0; i < 32; i += 8) least |= min(a >> i & 0xff, b >> i & 0xff) << i;
  return least;
}
inline uint32_t __funnelshift_l(uint32_t low, uint32_t high, uint32_t shift) { return uint32_t(((uint64_t(high) << 32 | low) << shift) >> 32); }
inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t shift) { return uint32_t((uint64_t(high) << 32 | low) >> shift % 32); }

// A tensor map as the host of the simulator makes it: 128 bytes, as on a GPU.
struct alignas(64) TensorMap {
  uint8_t* first;
  int64_t width, height, pitch;  // elements, rows, bytes
  int64_t apart;                 // bytes from a matrix of a batch to the next
  int32_t box_width, box_height;
  int32_t size;                  // bytes of an element
  uint8_t rest[128 - 52];
};
static_assert(sizeof(TensorMap) == 128);


// What simulator.cpp does for all kernels alike: it is compiled once.
namespace hopper {

// What a kernel declares as `__shared__`: of the block, by where it is declared.
uint8_t* variable(const void* place, size_t bytes);
void sync(int number, int threads);
void arrive(int number, int threads);
uint8_t* shared_of(const void* shared, int rank);
void copy_part(uint32_t to, const void* from, int bytes, int width);
void wait_for_loads(size_t left);
void wait_for_stores(size_t left);
void wait_for_products(size_t left);
uint32_t moved(uint32_t bits, int from, int across);
// A matrix instruction on 32 bytes of K of both operands.
struct Element {
  int size;
  float (*read)(const uint8_t*);
};
void multiply(float* d, int columns, Element element, uint64_t a, bool a_mn_major, uint64_t b, bool b_mn_major, bool add);
void store_four(uint32_t to, const uint32_t (&given)[4], bool transposed);

// Call the kernel in every thread of the grid. Return what it complains of, or "".
const char* run_threads(void (*call)(const void*), const void* given, unsigned size, const unsigned* grid, unsigned block, int shared, unsigned seed);
template <class Call>
const char* run(const Call& call, unsigned size, const unsigned* grid, unsigned block, int shared, unsigned seed) {
  return run_threads([](const void* given) { (*static_cast<const Call*>(given))(); }, &call, size, grid, block, shared, seed);
}

}  // namespace hopper

uint8_t* dynamic_shared();
// Each place that declares a variable of the block has its own NUMBER.
template <class Variable, int NUMBER>
Variable& shared_variable() {
  static char place;
  return *reinterpret_cast<Variable*>(hopper::variable(&place, sizeof(Variable)));
}
void __syncthreads();
void __syncwarp();

template <class Value>
Value moved(Value x, int from, int across) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  bits = hopper::moved(bits, from, across);
  memcpy(&x, &bits, 4);
  return x;
}
template <class Value>
Value __shfl_sync(uint32_t, Value x, int from) {
  return moved(x, from, 0);
}
template <class Value>
Value __shfl_xor_sync(uint32_t, Value x, int across) {
  return moved(x, 0, across);
}
uint32_t __reduce_max_sync(uint32_t, uint32_t x);
inline bool __any_sync(uint32_t, bool yes) { return __reduce_max_sync(0, yes); }
inline bool __all_sync(uint32_t, bool yes) { return !__reduce_max_sync(0, !yes); }

// async.cuh, bulk.cuh
uint32_t shared_address(const void* shared);
void barrier_init(uint32_t barrier, int arrivals);
void barrier_arrive(uint32_t barrier);
void barrier_wait(uint32_t address, int parity);
template <int WIDTH>
void copy_part(uint32_t to, const void* from, int bytes) {
  hopper::copy_part(to, from, bytes, WIDTH);
}
template <int COUNT>
void copy_or_zero(uint32_t to, const float* from, bool wanted) {
  copy_part<4 * COUNT>(to, from, wanted ? 4 * COUNT : 0);
}
void commit();
template <int LEFT>
void wait() {
  hopper::wait_for_loads(LEFT);
}
inline void barriers_ready() {}
void barrier_expect(uint32_t address, int bytes);
void copy_bulk(uint32_t to, const void* from, int bytes, uint32_t barrier);
inline void async_may_follow() {}
template <int COUNT>
void give_registers_back() {}
template <int COUNT>
void take_registers() {}
template <int THREADS>
void some_sync(int number) {
  hopper::sync(number, THREADS);
}
template <int THREADS>
void some_arrive(int number) {
  hopper::arrive(number, THREADS);
}

// cluster.cuh
void cluster_arrive();
void cluster_wait();
inline void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}
template <class Element>
Element* shared_of(Element* shared, int rank) {
  return reinterpret_cast<Element*>(hopper::shared_of(shared, rank));
}
inline void barrier_arrive_if(uint32_t barrier, bool wanted) {
  if (wanted) barrier_arrive(barrier);
}
void barrier_arrive_at(uint32_t barrier, int rank, bool wanted);
void send_bulk(uint32_t to, uint32_t from, int bytes, uint32_t barrier, int rank);

// half.cuh: all lanes of a warp take part.
inline int warp_index() {
  __syncwarp();
  return threadIdx.x / 32;
}
inline bool is_elected() {
  __syncwarp();
  return threadIdx.x % 32 == 0;
}
inline bool is_storer() { return warp_index() % 4 == 0 && is_elected(); }

// tensor_map.cuh
inline void prefetch(const TensorMap&) {}
void copy_box(uint32_t to, const TensorMap& map, int x, int y, int z, uint32_t barrier);
void copy_box(uint32_t to, const TensorMap& map, int x, int y, int z, uint32_t barrier, uint16_t blocks);
void store_box(const TensorMap& map, int x, int y, int z, uint32_t from);
void stores_commit();
template <int LEFT>
void stores_read() {
  hopper::wait_for_stores(LEFT);
}

// half.cuh
template <class>
constexpr bool IS_BFLOAT = false;
template <>
constexpr bool IS_BFLOAT<__nv_bfloat16> = true;
inline int fresh(int x) { return x; }
template <class Element>
float read(const uint8_t* from) {
  Element value;
  memcpy(static_cast<void*>(&value), from, sizeof value);
  return float(value);
}
template <class Element, int N>
void products_of(float (&d)[N / 2], uint64_t a, bool a_mn_major, uint64_t b, bool b_mn_major, int add) {
  hopper::multiply(d, N, {sizeof(Element), read<Element>}, a, a_mn_major, b, b_mn_major, add);
}
// wgmma.cuh
inline uint64_t descriptor(uint32_t address, uint32_t along_k, uint32_t along_rows) {
  return uint64_t((address & 0x3ffff) >> 4) | uint64_t(along_k >> 4) << 16 | uint64_t(along_rows >> 4) << 32;
}
template <int N>
void wgmma_f16(float (&d)[N / 2], uint64_t a, uint64_t b, int add) {
  products_of<__half, N>(d, a, false, b, false, add);
}
template <int N>
void wgmma_tf32(float (&d)[N / 2], uint64_t a, uint64_t b, int add) {
  products_of<float, N>(d, a, false, b, false, add);
}
inline float to_tf32(float x) {  // to the nearest, ties away from zero
  return std::isfinite(x) ? __uint_as_float((__float_as_uint(x) + 0x1000) & ~0x1FFFu) : x;
}
inline void wgmma_begin() {}
void wgmma_commit();
template <int LEFT>
void wgmma_wait() {
  hopper::wait_for_products(LEFT);
}
template <int COUNT>
void wgmma_done(float (&)[COUNT]) {}
inline void store_matrices(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) { hopper::store_four(to, {a, b, c, d}, false); }
inline void store_transposed(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) { hopper::store_four(to, {a, b, c, d}, true); }
uint32_t transposed(uint32_t pair);
