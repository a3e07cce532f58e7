// Operands that the blocks of a cluster share. CM blocks above each other in C need the same columns of B, and CN blocks beside each other the
// same rows of A. Each copies a part of them to all.
#pragma once
#include "cluster.cuh"
#include "half_operand.cuh"

// BLOCKS is the size of the cluster, which may have several such groups of CM x CN blocks, one behind the other.
template <int CM, int CN, int BLOCKS = CM * CN>
struct Sharing {
  static constexpr int PEERS = CM + CN - 1;  // blocks that send to a block, itself among them
  int first, cm, cn;                         // the rank of the group's first block in the cluster; this block's place in the group

  __device__ __forceinline__ Sharing() {
    const int rank = BLOCKS > 1 ? blockIdx.x % BLOCKS : 0;
    cm = rank % CM, cn = rank / CM % CN, first = BLOCKS > CM * CN ? rank / (CM * CN) * (CM * CN) : 0;
  }

  // Starts this block's copies for a step along K: of what CN blocks share of A, or CM blocks of B. They are announced at the barrier `full` of
  // every block that they come to.
  template <class OfA>
  __device__ __forceinline__ void copy_a(uint32_t to, const TensorMap& map, int row, int k, int z, uint32_t full) const {
    uint16_t blocks = 0;
    for (int i = 0; i < CN; ++i) blocks |= 1 << (first + cm + CM * i);
    OfA::template copy<CN>(to, map, row, k, z, full, cn, blocks);
  }
  template <class OfB>
  __device__ __forceinline__ void copy_b(uint32_t to, const TensorMap& map, int column, int k, int z, uint32_t full) const {
    uint16_t blocks = 0;
    for (int i = 0; i < CM; ++i) blocks |= 1 << (first + i + CM * cn);
    OfB::template copy<CM>(to, map, column, k, z, full, cm, blocks);
  }

  // A warp that has read a stage: one lane each tells the blocks that send to this one.
  __device__ __forceinline__ void give_back(uint32_t empty, bool wanted) const {
    const int lane = threadIdx.x % 32;
    if (PEERS == 1) {
      barrier_arrive_if(empty, wanted && lane == 0);
    } else {
      const int peer = lane < CM ? lane + CM * cn : cm + CM * (lane - CM < cn ? lane - CM : lane - CM + 1);
      barrier_arrive_at(empty, first + peer, wanted && lane < PEERS);
    }
  }
};
