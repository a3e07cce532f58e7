/*---
title: 128 x 128 block tile, everything together
idea: large tiles, float4 for every global access, double buffers in shared memory and in registers, and the lanes of a warp laid out so that shared reads are merged
label: warp tiles
parameters: {BM: 128, BN: 128, BK: 8, TM: 8, TN: 8}
configurations:
  - {BM: 64, BN: 64, BK: 8, TM: 8, TN: 8}
  - {BM: 128, BN: 128, BK: 8, TM: 8, TN: 8}
  - {BM: 64, BN: 256, BK: 8, TM: 8, TN: 16}
  - {BM: 128, BN: 256, BK: 8, TM: 8, TN: 16}
layouts: [nn, nt, tn, tt]
block: [BM * BN / (TM * TN)]
grid: ["ceil_div(N, BN)", "ceil_div(M, BM)"]
requires: [BM % (4 * TM) == 0, BN % (8 * TN) == 0, BK * TM * TN % (4 * BM) == 0, BK * TM * TN % (4 * BN) == 0, 2 * BK * (BM + 4 + BN + 4 * TRANS_B) <= 12288, BM * BN <= 32768]
global_reads: K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: M * N
accesses:
  - {global_read: thread // (BM // 4) * lda + thread % (BM // 4) * 4 if TRANS_A else thread // (BK // 4) * lda + thread % (BK // 4) * 4, width: 4, per_k: TM * TN / BN}
  - {global_read: thread // (BK // 4) * ldb + thread % (BK // 4) * 4 if TRANS_B else thread // (BN // 4) * ldb + thread % (BN // 4) * 4, width: 4, per_k: TM * TN / BM}
  - {shared_write: thread // (BM // 4) * (BM + 4) + thread % (BM // 4) * 4 if TRANS_A else thread % (BK // 4) * 4 * (BM + 4) + thread // (BK // 4), width: 4 if TRANS_A else 1, per_k: TM * TN / BN}
  - {shared_write: thread % (BK // 4) * 4 * (BN + 4) + thread // (BK // 4) if TRANS_B else 4 * thread, width: 1 if TRANS_B else 4, per_k: TM * TN / BM}
  - {shared_read: (thread % 32 // 16 * 2 + thread % 2) * 4, width: 4, per_k: TM}
  - {shared_read: thread // 2 % 8 * 4, width: 4, per_k: TN}
---*/
// The ideas of the rungs below in one kernel, and two of its own. Between the block's tile and the thread's there is now the
// tile of a warp, (4*TM) x (8*TN): its 32 threads read only 4*TM values of A and 8*TN of B from shared memory for each k. And C,
// too, is written four elements at a time.
//
// The multiply-adds can run at full rate only while nearly every instruction issued is one: here 64 of them need four
// 128-bit shared loads, and all else (global loads, guards, stores to shared memory, the barrier) happens once in BK steps.
//
// What holds it back: those shared loads still take issue slots and bandwidth, and the data go from global to shared memory by way of
// registers. A wider TN lowers the first cost; asynchronous copies would remove the second. In NT and TT, B is stored transposed too, an element at
// a time (docs/ladder/layouts.md).

#include "tile.cuh"

constexpr int THREADS = BM * BN / (TM * TN);
constexpr int WM = 4 * TM, WN = 8 * TN;  // the tile of a warp
constexpr int PAD = 4;                   // as in rung 08
// Half of an SM's 65536 registers hold sums, the other half all else: the compiler shall not use so many that fewer blocks fit.
constexpr int BLOCKS_PER_SM = 32768 / (BM * BN);

// SIZE rows of op(A), or columns of op(B), by BK of K, which runs down in shared memory: K-major ones are transposed on the way.
template <int SIZE, bool MN_MAJOR>
struct OperandTile : Tile<MN_MAJOR ? BK : SIZE, MN_MAJOR ? SIZE : BK, THREADS> {
  using Stored = Tile<MN_MAJOR ? BK : SIZE, MN_MAJOR ? SIZE : BK, THREADS>;
  __device__ __forceinline__ void load(const T* matrix, int ld, int first, int k, int count, int K, int thread, bool vector) {
    Stored::load(matrix, ld, MN_MAJOR ? k : first, MN_MAJOR ? first : k, MN_MAJOR ? K : count, MN_MAJOR ? count : K, thread, vector);
  }
  template <int WIDTH>
  __device__ __forceinline__ void put(T (&shared)[BK][WIDTH], int thread) const {
    if constexpr (MN_MAJOR)
      Stored::put(shared, thread);
    else
      Stored::put_transposed(shared, thread);
  }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    gemm(int M, int N, int K, T alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, T beta,
         T* __restrict__ C, int ldc) {
  alignas(16) __shared__ T sA[2][BK][BM + PAD];
  alignas(16) __shared__ T sB[2][BK][BN + TRANS_B * PAD];
  const bool vector = vectorizable(M, N, K, A, lda, B, ldb, C, ldc);
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  // 4 x 8 lanes, numbered in a zigzag: lanes i and i ^ 1 read the same columns of B, i and i ^ 2 the same rows of A. A 128-bit load
  // returns four registers and so takes four passes; where such pairs of lanes all share an address, two passes are enough
  // (https://forums.developer.nvidia.com/t/unexpected-shared-memory-bank-conflict/77228/2, for compute capability 7.x).
  const int row = warp / (BN / WN) * WM + (lane / 16 * 2 + lane % 2) * 4;
  const int col = warp % (BN / WN) * WN + lane / 2 % 8 * 4;

  OperandTile<BM, TRANS_A> tileA;
  OperandTile<BN, !TRANS_B> tileB;
  tileA.load(A, lda, row0, 0, M, K, thread, vector);
  tileB.load(B, ldb, col0, 0, N, K, thread, vector);
  tileA.put(sA[0], thread);
  tileB.put(sB[0], thread);
  __syncthreads();

  float sum[TM][TN] = {}, a[2][TM], b[2][TN];
  read4<TM, 16>(a[0], &sA[0][0][row]);
  read4<TN, 32>(b[0], &sB[0][0][col]);
  int now = 0;  // the buffer that is computed on; the other one is filled
  for (int k0 = 0; k0 < K && alpha != 0; k0 += BK) {
    tileA.load(A, lda, row0, k0 + BK, M, K, thread, vector);
    tileB.load(B, ldb, col0, k0 + BK, N, K, thread, vector);
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      if (k == BK - 1) {  // every fragment of this tile has been read: on to the next, whose first are loaded below
        now ^= 1;
        tileA.put(sA[now], thread);
        tileB.put(sB[now], thread);
        __syncthreads();
      }
      read4<TM, 16>(a[(k + 1) % 2], &sA[now][(k + 1) % BK][row]);
      read4<TN, 32>(b[(k + 1) % 2], &sB[now][(k + 1) % BK][col]);
#pragma unroll
      for (int m = 0; m < TM; ++m)
#pragma unroll
        for (int n = 0; n < TN; ++n) sum[m][n] += a[k % 2][m] * b[k % 2][n];
    }
  }

#pragma unroll
  for (int m = 0; m < TM; ++m) {
    const int r = row0 + row + m / 4 * 16 + m % 4;
#pragma unroll
    for (int n = 0; n < TN; n += 4) {
      const int c = col0 + col + n / 4 * 32;
      store4(&C[size_t(r) * ldc + c], alpha, &sum[m][n], beta, r < M ? N - c : 0, vector);
    }
  }
}
