// What Hopper has to move data past the threads: bulk copies, and barriers in shared memory that count the bytes they bring (PTX ISA:
// "cp.async.bulk", "mbarrier").
#pragma once
#include <cstdint>

#include "async.cuh"

// A barrier of THREADS of the block's threads; `number` is from 1 to 15, for 0 is that of __syncthreads.
template <int THREADS>
__device__ __forceinline__ void some_sync(int number) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(THREADS) : "memory");
}

// A barrier's phase ends when `arrivals` have come, and all bytes that were announced.
__device__ __forceinline__ void barrier_init(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void barrier_expect(uint32_t barrier, int bytes) {  // arrives, and announces bytes
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void barrier_wait(uint32_t barrier, int parity) {
  asm volatile(
      "{.reg .pred done;\nAGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra AGAIN;}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// Contiguous bytes, a multiple of 16, from global to shared memory.
__device__ __forceinline__ void copy_bulk(uint32_t to, const void* from, int bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from),
               "r"(bytes), "r"(barrier)
               : "memory");
}
// Threads that wrote to shared memory call this before bulk copies go there, or wgmma reads there.
__device__ __forceinline__ void async_may_follow() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Registers a thread of this warpgroup may have from here on.
template <int COUNT>
__device__ __forceinline__ void give_registers_back() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}
