/*---
title: CuTe, asynchronous copies
idea: the ring of rung 12 written with CuTe's layouts, which say once how tiles, copies and sums are spread over the threads
rival: true
uses: [cutlass]
parameters: {BM: 128, BN: 128, BK: 8, STAGES: 4}
configurations: [{STAGES: 4}, {BK: 16, STAGES: 3}, {BM: 64}]
layouts: [nn, nt, tn, tt]
block: [256]
grid: ["ceil_div(N, BN)", "ceil_div(M, BM)"]
dynamic_shared: STAGES * BK * (BM + 4 + BN) * element_size
requires: [STAGES >= 2, BM % 64 == 0, BN % 64 == 0, BK % 8 == 0, 1024 % BN == 0, 256 % BK == 0, BM * BK % 256 == 0, BN * BK % 1024 == 0]
compute_capability: 8.0
global_reads: K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: M * N
---*/
// Rung 12 computes each address by hand. Here a matrix, a tile and the part of a thread are tensors: a pointer and a layout. A layout is a
// shape with strides, and CuTe (CUTLASS's headers) computes the addresses from it.
//
//   local_tile       cuts a matrix into tiles and returns those of this block
//   local_partition  deals a tile out over a layout of threads and returns the elements of one thread
//   TiledMMA         the same for multiply-adds: which rows of A, columns of B and elements of C belong to a thread
//
// A tensor of coordinates is cut and dealt out in the same way, so each element knows its place, and `elem_less` finds the edges.

#include <cute/tensor.hpp>

#include "async.cuh"
#include "vector.cuh"

using namespace cute;

// Of a matrix whose neighbors lie along K, or across it.
template <bool ALONG>
__device__ __forceinline__ auto strides(int ld) {
  if constexpr (ALONG)
    return make_stride(int64_t(ld), _1{});
  else
    return make_stride(_1{}, int64_t(ld));
}
// Threads in the order in which their elements lie: HIGH of them, and DEEP along K.
template <bool ALONG, int HIGH, int DEEP>
using Threads = Layout<Shape<Int<HIGH>, Int<DEEP>>, conditional_t<ALONG, Stride<Int<DEEP>, _1>, Stride<_1, Int<HIGH>>>>;

extern "C" __global__ void __launch_bounds__(256)
    gemm(int M, int N, int K, T alpha, const T* A, int lda, const T* B, int ldb, T beta, T* C, int ldc) {
  extern __shared__ __align__(16) T ring[];
  const bool vector = vectorizable(M, N, K, A, lda, B, ldb, C, ldc);

  // CuTe has B as N x K. Row-major: neighbors lie along K in A, along N in B and C. What lies transposed has the strides in the other order.
  const Tensor whole_a = make_tensor(make_gmem_ptr(A), make_shape(M, K), strides<!TRANS_A>(lda));
  const Tensor whole_b = make_tensor(make_gmem_ptr(B), make_shape(N, K), strides<TRANS_B>(ldb));
  const Tensor whole_c = make_tensor(make_gmem_ptr(C), make_shape(M, N), make_stride(int64_t(ldc), _1{}));

  // The tiles of this block: BM x BK x steps, BN x BK x steps, BM x BN.
  const auto tiles = make_shape(Int<BM>{}, Int<BN>{}, Int<BK>{});
  const auto here = make_coord(blockIdx.y, blockIdx.x, _);
  const auto tile_a = [&](const auto& whole) { return local_tile(whole, tiles, here, Step<_1, X, _1>{}); };
  const auto tile_b = [&](const auto& whole) {  // of four neighbors along N the first, as one copy takes all four
    return tiled_divide(local_tile(whole, tiles, here, Step<X, _1, _1>{}), Shape<_4, _1>{})(_0{}, _, _, _);
  };
  const auto tile_c = [&](const auto& whole) { return local_tile(whole, tiles, here, Step<_1, _1, X>{}); };

  // The ring: STAGES tiles of A, transposed and padded as in rung 08, and STAGES tiles of B.
  constexpr int WIDTH_A = BM + 4;
  const Tensor ring_a = make_tensor(make_smem_ptr(ring), Shape<Int<BM>, Int<BK>, Int<STAGES>>{},
                                    Stride<_1, Int<WIDTH_A>, Int<BK * WIDTH_A>>{});
  const Tensor ring_b = make_tensor(make_smem_ptr(ring + STAGES * BK * WIDTH_A), Shape<Int<BN>, Int<BK>, Int<STAGES>>{});
  const Tensor fours_b = tiled_divide(ring_b, Shape<_4, _1>{})(_0{}, _, _, _);

  // What the thread copies: neighboring threads take neighbors in memory.
  const auto threads_a = Threads<!TRANS_A, 256 / BK, BK>{};
  const auto threads_b = Threads<TRANS_B, BN / 4, 1024 / BN>{};
  const auto mine_a = [&](const auto& tile) { return local_partition(tile, threads_a, threadIdx.x); };
  const auto mine_b = [&](const auto& tile) { return local_partition(tile, threads_b, threadIdx.x); };
  const Tensor from_a = mine_a(tile_a(whole_a));
  const Tensor from_b = mine_b(tile_b(whole_b));
  const Tensor at_a = mine_a(tile_a(make_identity_tensor(shape(whole_a))));
  const Tensor at_b = mine_b(tile_b(make_identity_tensor(shape(whole_b))));
  const Tensor to_a = mine_a(ring_a);
  const Tensor to_b = mine_b(fours_b);

  // Begins the copies of a step's tiles, zeros where the matrices end.
  const auto copy = [&](int step) {
    const int stage = step % STAGES;
    CUTE_UNROLL
    for (int i = 0; i < size<0>(to_a) * size<1>(to_a); ++i)
      copy_or_zero<1>(shared_address(&to_a(_, _, stage)(i)), &from_a(_, _, step)(i),
                      elem_less(at_a(_, _, step)(i), shape(whole_a)));
    CUTE_UNROLL
    for (int i = 0; i < size<0>(to_b) * size<1>(to_b); ++i) {
      T* to = &to_b(_, _, stage)(i);
      const T* from = &from_b(_, _, step)(i);
      const auto at = at_b(_, _, step)(i);
      const int cols = get<1>(at) < K ? N - get<0>(at) : 0;
      if (vector && !TRANS_B)
        copy_or_zero<4>(shared_address(to), from, cols > 0);
      else
        for (int j = 0; j < 4; ++j) copy_or_zero<1>(shared_address(to + j), from + (TRANS_B ? int64_t(j) * ldb : j), cols > j);
    }
    commit();
  };

  // 16 x 16 threads. Each computes four neighbors along M and along N in every 64 x 64, so that it reads shared memory by fours.
  using Four = Layout<Shape<_16, _4>, Stride<_4, _1>>;
  const auto mma = make_tiled_mma(UniversalFMA<Acc, T, T, Acc>{}, Layout<Shape<_16, _16, _1>>{}, Tile<Four, Four, Underscore>{});
  const auto mine = mma.get_slice(threadIdx.x);
  const Tensor part_a = mine.partition_A(ring_a);
  const Tensor part_b = mine.partition_B(ring_b);
  const Tensor part_c = mine.partition_C(tile_c(whole_c));
  const Tensor at_c = mine.partition_C(tile_c(make_identity_tensor(shape(whole_c))));
  Tensor sums = mine.make_fragment_C(part_c);
  clear(sums);

  const int steps = alpha == 0 ? 0 : (K + BK - 1) / BK;
  for (int step = 0; step < STAGES - 1; ++step) copy(step);
  for (int step = 0; step < steps; ++step) {
    wait<STAGES - 2>();  // the thread's own copies of this step are there,
    __syncthreads();     // and now everyone's; and everyone has left the stage that is filled next
    copy(step + STAGES - 1);
    gemm(mma, part_a(_, _, _, step % STAGES), part_b(_, _, _, step % STAGES), sums);
  }

  CUTE_UNROLL
  for (int i = 0; i < size(sums); ++i)
    if (elem_less(at_c(i), shape(whole_c))) store(&part_c(i), alpha, sums(i), beta);
}
