// In place of kernels/include/cluster.cuh: a cluster of one block. Blocks that run at the same time and read each other's shared memory
// cannot be emulated.
#pragma once
static __device__ inline void cluster_sync() { __syncthreads(); }
template <class Element>
static __device__ inline Element* shared_of(Element* shared, int) {
  return shared;
}
