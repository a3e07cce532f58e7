// Tensor maps: descriptions of matrices in global memory, made on the host. With one, a single thread moves a whole box of a matrix to
// shared memory, or back (PTX ISA, "cp.async.bulk.tensor"). Elements outside the matrix are read as zeros. The rows of
// a box lie one below the other in shared memory, 128 bytes each. In row r, the pieces of 16 bytes change places: piece p is at p ^ r % 8
// ("128-byte swizzle"). So the same piece of eight rows is in eight different groups of banks.
#pragma once
#include "bulk.cuh"
#include "layout.h"

struct alignas(64) TensorMap {
  uint64_t words[16];
};

// Of a batch, a map has a third dimension: z is the number of a matrix.
#if BATCH
#define TENSOR "tensor.3d"
#define AT(x, y, z) "{%" #x ", %" #y ", %" #z "}"
#define Z , "r"(z)
#else
#define TENSOR "tensor.2d"
#define AT(x, y, z) "{%" #x ", %" #y "}"
#define Z
#endif

__device__ __forceinline__ void prefetch(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<uint64_t>(&map)) : "memory");
}

// Copies the box whose first element is in column x and row y. The bytes are announced at `barrier` when they have come.
__device__ __forceinline__ void copy_box(uint32_t to, const TensorMap& map, int x, int y, int z, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk." TENSOR ".shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, " AT(2, 3, 5) "], [%4];" ::"r"(to),
      "l"(reinterpret_cast<uint64_t>(&map)), "r"(x), "r"(y), "r"(barrier) Z
      : "memory");
}
// Copies it to every block of the cluster whose rank has a bit in `blocks`: to the same place, and announced at the same barrier, of each.
__device__ __forceinline__ void copy_box(uint32_t to, const TensorMap& map, int x, int y, int z, uint32_t barrier, uint16_t blocks) {
  asm volatile(
      "cp.async.bulk." TENSOR ".shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, " AT(2, 3, 6) "], [%4], %5;" ::"r"(
          to),
      "l"(reinterpret_cast<uint64_t>(&map)), "r"(x), "r"(y), "r"(barrier), "h"(blocks) Z
      : "memory");
}

// Stores a box from shared memory, by whole pieces of 16 bytes: at the right edge of the matrix a piece that is not whole overwrites what lies
// behind it (seen on an H100). Threads that wrote there have called async_may_follow() and met this one.
__device__ __forceinline__ void store_box(const TensorMap& map, int x, int y, int z, uint32_t from) {
  asm volatile("cp.async.bulk." TENSOR ".global.shared::cta.bulk_group [%0, " AT(1, 2, 4) "], [%3];" ::"l"(reinterpret_cast<uint64_t>(&map)),
               "r"(x), "r"(y), "r"(from) Z
               : "memory");
}
// Closes the group of boxes that this thread stores.
__device__ __forceinline__ void stores_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until all but its last LEFT groups have been read from shared memory.
template <int LEFT>
__device__ __forceinline__ void stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEFT) : "memory");
}

// Arrives at a hardware barrier where others wait (some_sync), and goes on.
template <int THREADS>
__device__ __forceinline__ void some_arrive(int number) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "n"(THREADS) : "memory");
}
// Arrives where `wanted`. A predicate in place of a branch: the compiler would wait for matrix instructions before a branch.
__device__ __forceinline__ void barrier_arrive_if(uint32_t barrier, bool wanted) {
  asm volatile("{.reg .pred p;\nsetp.ne.b32 p, %1, 0;\n@p mbarrier.arrive.shared.b64 _, [%0];}" ::"r"(barrier), "r"(int(wanted)) : "memory");
}
// The same at the barrier of block `rank` of the cluster. It orders no other accesses: a release at the scope of a cluster costs a fence
// that waits for all of this thread's.
__device__ __forceinline__ void barrier_arrive_at(uint32_t barrier, int rank, bool wanted) {
  asm volatile(
      "{.reg .pred p;\n.reg .b32 there;\nsetp.ne.b32 p, %2, 0;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "@p mbarrier.arrive.shared::cluster.b64 _, [there];}" ::"r"(barrier),
      "r"(rank), "r"(int(wanted))
      : "memory");
}

// Copies contiguous bytes from this block's shared memory to that of block `rank` of the cluster, announced at a barrier there.
__device__ __forceinline__ void send_bulk(uint32_t to, uint32_t from, int bytes, uint32_t barrier, int rank) {
  asm volatile(
      "{.reg .b32 there, bar;\nmapa.shared::cluster.u32 there, %0, %4;\nmapa.shared::cluster.u32 bar, %3, %4;\n"
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [there], [%1], %2, [bar];}" ::"r"(to),
      "r"(from), "r"(bytes), "r"(barrier), "r"(rank)
      : "memory");
}
