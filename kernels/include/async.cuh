// Asynchronous copies from global to shared memory (compute capability 8.0): they pass by the registers, and the thread that starts
// one goes on at once (CUDA C++ Programming Guide, "Asynchronous Data Copies").
#pragma once

__device__ __forceinline__ unsigned shared_address(const void* shared) { return unsigned(__cvta_generic_to_shared(shared)); }

// COUNT (1 or 4) elements where `wanted`, else nothing. A predicate in place of a branch: the multiply-adds around it go on.
template <int COUNT>
__device__ __forceinline__ void copy_if(unsigned to, const float* from, bool wanted) {
  if (COUNT == 4)
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16; }" ::"r"(to), "l"(from),
                 "r"(int(wanted))
                 : "memory");
  else
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.ca.shared.global [%0], [%1], 4; }" ::"r"(to), "l"(from),
                 "r"(int(wanted))
                 : "memory");
}

// COUNT elements where `wanted`, else zeros.
template <int COUNT>
__device__ __forceinline__ void copy_or_zero(unsigned to, const float* from, bool wanted) {
  if (COUNT == 4)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(wanted ? 16 : 0) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(wanted ? 4 : 0) : "memory");
}

// Closes the group of copies begun since the last call.
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until all but the last LEFT groups of this thread have arrived.
template <int LEFT>
__device__ __forceinline__ void wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

// A barrier in two halves, in shared memory: a thread says that it has arrived, and waits only where all others must have arrived too
// (PTX ISA, "mbarrier"). One thread begins it before a __syncthreads(), and ends it after one.
struct Barrier {
  unsigned address, phase = 0;
  __device__ __forceinline__ void begin(int threads) const {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address), "r"(threads) : "memory");
  }
  __device__ __forceinline__ void end() const { asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(address) : "memory"); }
  __device__ __forceinline__ void arrive() const {
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(address) : "memory");
  }
  __device__ __forceinline__ void wait() {
#if __CUDA_ARCH__ >= 900  // sleeps meanwhile
    asm volatile("{ .reg .pred p; WAIT%=: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra WAIT%=; }" ::"r"(address), "r"(phase)
                 : "memory");
#else
    asm volatile("{ .reg .pred p; WAIT%=: mbarrier.test_wait.parity.shared.b64 p, [%0], %1; @!p bra WAIT%=; }" ::"r"(address), "r"(phase)
                 : "memory");
#endif
    phase ^= 1;
  }
};
