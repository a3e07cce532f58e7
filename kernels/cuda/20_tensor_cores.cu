/*---
title: Tensor cores, TF32
idea: the tensor cores multiply tiles of operands rounded to TF32, one product instead of FFMAs, fed by bulk copies; fast, and accurate to three digits
precision: tf32
parameters: {BM: 128, BN: 256, STAGES: 4}
configurations:
  - {BN: 64, STAGES: 8}
  - {BN: 128, STAGES: 6}
  - {BN: 256, STAGES: 4}
block: [128]
grid: ["ceil_div(K, 32) * (ceil_div(M, BM) * (BM // 32) + ceil_div(N, BN) * (BN // 32))"]
then:
  - function: product
    block: [384]
    grid: ["ceil_div(M, BM) * ceil_div(N, BN)"]
    dynamic_shared: STAGES * ((BM + BN) * 128 + 16)
workspace: ceil_div(K, 32) * (ceil_div(M, BM) * BM + ceil_div(N, BN) * BN) * 128
requires:
  - BM == 128
  - BN == 64 or BN == 128 or BN == 192 or BN == 256
  - STAGES >= 2
architecture: sm_90a
global_reads: M * K + K * N + K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: M * K + K * N + M * N
---*/
// A tensor core multiplies small matrices in one instruction. Hopper's reads both operands from shared memory: 64 rows of A and up to 256
// columns of B by 32 bytes along K, and adds the product to sums in the registers of 128 threads (wgmma.cuh). For FP32 operands it
// rounds: of TF32's 32 bits, 10 of the fraction count, so that one product in place of many FFMAs has three digits in place of seven.
//
// What feeds it has to be as fast. The instruction wants tiles in an order of its own, and of B the transpose. So there are two launches:
// `gemm` rounds A and B and writes them to a workspace in that order (units.cuh); `product` multiplies. There, one thread of a warpgroup of
// its own moves the tiles, whole pieces of memory, by bulk copies, and two warpgroups multiply. They meet at two barriers for each stage of
// a ring in shared memory: at `full` the copies report their bytes, at `empty` the multiplying warps that they are done.
//
// What holds it back: accuracy. As a float32 GEMM it is wrong from the fourth digit on. It stands beside cuBLAS's TF32 mode.

#include "units.cuh"
#include "vector.cuh"

constexpr int A_BYTES = BM / 8 * UNIT, B_BYTES = BN / 8 * UNIT, STAGE = A_BYTES + B_BYTES;
constexpr int CONSUMERS = 256;  // threads: two warpgroups, of 64 rows each

__device__ __forceinline__ void partition(int M, int N, int K, uint8_t* workspace, Units& a, Units& b) {
  a = {workspace, (M + BM - 1) / BM * (BM / 8)};
  b = {a.at((K + DEPTH - 1) / DEPTH, 0), (N + BN - 1) / BN * (BN / 8)};
}

// Four units a block: 32 rows of A, or columns of B, by 32 of K. What fills up the last tile is zeros.
extern "C" __global__ void __launch_bounds__(128)
    gemm(int M, int N, int K, T alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, T beta, T* __restrict__ C,
         int ldc, uint8_t* __restrict__ workspace) {
  Units a, b;
  partition(M, N, K, workspace, a, b);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, blocks_a = a.count / 4 * ((K + DEPTH - 1) / DEPTH);
  const bool of_a = int(blockIdx.x) < blocks_a;
  const int block = of_a ? blockIdx.x : blockIdx.x - blocks_a, groups = (of_a ? a.count : b.count) / 4;
  const int group = block % groups * 4, step = block / groups;
  const bool vector = (lda % 4 | K % 4 | reinterpret_cast<size_t>(A) % 16) == 0;
#pragma unroll
  for (int i = 0; i < 2; ++i) {  // four neighbours along K; a warp has 8 rows of A, or 8 of K for each of 32 columns of B
    const int part = of_a ? i * 4 + lane / 8 : warp * 2 + i, k = step * DEPTH + part * 4;
    float4 v;
    if (of_a) {
      const int row = (group + warp) * 8 + lane % 8;
      v = load4(A + size_t(row) * lda + k, row < M ? K - k : 0, vector);
    } else {
      const int column = group * 8 + lane;
      const T* from = B + size_t(k) * ldb + column;
      const auto get = [&](int j) { return column < N && k + j < K ? from[size_t(j) * ldb] : 0; };
      v = make_float4(get(0), get(1), get(2), get(3));
    }
    uint8_t* unit = of_a ? a.at(step, group + warp) : b.at(step, group + lane / 8);
    *reinterpret_cast<float4*>(unit + part * 128 + lane % 8 * 16) = make_float4(to_tf32(v.x), to_tf32(v.y), to_tf32(v.z), to_tf32(v.w));
  }
}

extern "C" __global__ void __launch_bounds__(CONSUMERS + 128, 1)
    product(int M, int N, int K, T alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, T beta, T* __restrict__ C,
            int ldc, uint8_t* __restrict__ workspace) {
  extern __shared__ __align__(1024) uint8_t shared[];
  const uint32_t memory = shared_address(shared), full = memory + STAGES * STAGE, empty = full + STAGES * 8;
  const Position tile(blockIdx.x, (M + BM - 1) / BM, (N + BN - 1) / BN);
  const int steps = alpha == 0 ? 0 : (K + DEPTH - 1) / DEPTH;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) barrier_init(full + i * 8, 1), barrier_init(empty + i * 8, CONSUMERS / 32);
    barriers_ready();
  }
  __syncthreads();

  if (threadIdx.x >= CONSUMERS) {
    give_registers_back<40>();
    if (threadIdx.x == CONSUMERS) {
      Units a, b;
      partition(M, N, K, workspace, a, b);
      for (int step = 0; step < steps; ++step) {
        const int stage = step % STAGES, to = memory + stage * STAGE;
        barrier_wait(empty + stage * 8, step / STAGES % 2 ^ 1);  // the first time round, nothing is to be waited for
        barrier_expect(full + stage * 8, STAGE);
        copy_bulk(to, a.at(step, tile.row * (BM / 8)), A_BYTES, full + stage * 8);
        copy_bulk(to + A_BYTES, b.at(step, tile.column * (BN / 8)), B_BYTES, full + stage * 8);
      }
    }
  } else {
    take_registers<232>();
    const int thread = threadIdx.x % 128, row = threadIdx.x / 128 * 64;  // of the tile
    float sum[BN / 2] = {};
    for (int step = 0; step < steps; ++step) {
      const int stage = step % STAGES;
      barrier_wait(full + stage * 8, step / STAGES % 2);
      const uint64_t a = descriptor(memory + stage * STAGE + row * (UNIT / 8), 128, UNIT);
      const uint64_t b = descriptor(memory + stage * STAGE + A_BYTES, 128, UNIT);
      wgmma_begin();
#pragma unroll
      for (int i = 0; i < DEPTH / 8; ++i)  // 8 of K are 256 bytes, 16 of a descriptor's units
        wgmma_tf32<BN>(sum, a + i * 16, b + i * 16, step > 0 || i > 0);
      wgmma_commit();
      wgmma_wait<0>();
      if (thread % 32 == 0) barrier_arrive(empty + stage * 8);
    }
    const bool pairs = (ldc % 2 | N % 2 | reinterpret_cast<size_t>(C) % 8) == 0;
    store_sums<BN>(sum, C, ldc, tile.row * BM + row, tile.column * BN, M, N, alpha, beta, pairs, thread);
  }
}
