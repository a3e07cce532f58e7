// Operands that the blocks of a cluster share. CM blocks above each other in C need the same columns of B, and CN blocks beside each other the
// same rows of A. Each copies a part of them to all.
#pragma once
#include "cluster.cuh"
#include "half.cuh"
#include "tensor_map.cuh"

// BLOCKS is the size of the cluster, which may have several such groups of CM x CN blocks, one behind the other.
template <int CM, int CN, int BLOCKS = CM * CN>
struct Sharing {
  static constexpr int PEERS = CM + CN - 1;  // blocks that send to a block, itself among them
  int first, cm, cn;                         // the rank of the group's first block in the cluster; this block's place in the group

  __device__ __forceinline__ Sharing() {
    const int rank = BLOCKS > 1 ? blockIdx.x % BLOCKS : 0;
    cm = rank % CM, cn = rank / CM % CN, first = BLOCKS > CM * CN ? rank / (CM * CN) * (CM * CN) : 0;
  }

  // Starts this block's copies of ROWS rows of A, and of STRIPS strips of 64 columns of B, for a step along K. They are announced at the
  // barrier `full` of every block that they come to.
  template <int ROWS>
  __device__ __forceinline__ void copy_a(uint32_t to, const TensorMap& map, int k, int row, uint32_t full) const {
    if (CN == 1) {
      copy_box(to, map, k, row, full);
    } else {
      constexpr int PART = ROWS / CN;
      uint16_t blocks = 0;
      for (int i = 0; i < CN; ++i) blocks |= 1 << (first + cm + CM * i);
      copy_box(to + cn * PART * 128, map, k, row + cn * PART, full, blocks);
    }
  }
  template <int STRIPS>
  __device__ __forceinline__ void copy_b(uint32_t to, const TensorMap& map, int column, int k, uint32_t full) const {
    if (CM == 1) {
#pragma unroll
      for (int i = 0; i < STRIPS; ++i) copy_box(to + i * STRIP, map, column + i * 64, k, full);
    } else {
      constexpr int PART = DEPTH / CM;
      uint16_t blocks = 0;
      for (int i = 0; i < CM; ++i) blocks |= 1 << (first + i + CM * cn);
#pragma unroll
      for (int i = 0; i < STRIPS; ++i) copy_box(to + i * STRIP + cm * PART * 128, map, column + i * 64, k + cm * PART, full, blocks);
    }
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
