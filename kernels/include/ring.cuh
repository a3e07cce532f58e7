// How a ring of STAGES in shared memory begins, which one warp fills by tensor maps and CONSUMERS threads before it multiply.
#pragma once
#include "tensor_map.cuh"

// The barriers, 8 bytes each: those that say that a stage is full, after `fills` arrivals, and those that say that it is empty, after `reads`.
template <int STAGES, int CONSUMERS>
__device__ __forceinline__ void begin_barriers(uint32_t barriers, int fills, int reads) {
  if (threadIdx.x == CONSUMERS) {
    for (int i = 0; i < STAGES; ++i) barrier_init(barriers + i * 8, fills), barrier_init(barriers + (STAGES + i) * 8, reads);
    barriers_ready();
  }
  __syncwarp();
}
// Who multiplies waits until they have begun. The warp that fills does not wait: its first copies need nobody else.
template <int CONSUMERS>
__device__ __forceinline__ void meet_filler() {
  if (warp_index() == CONSUMERS / 32)
    some_arrive<CONSUMERS + 32>(7);
  else if (threadIdx.x < CONSUMERS)
    some_sync<CONSUMERS + 32>(7);  // not a higher number: the barriers up to it count against those of the SM
}
