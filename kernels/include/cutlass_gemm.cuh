// CUTLASS's GEMM for devices of compute capability 8.0, run by the blocks of a launch of ours. What CUTLASS's host code would prepare are numbers
// alone, so each thread prepares them. Of "serial split-K" no more is used than that it leaves the loop out where K is 0.
#pragma once

#include <cutlass/gemm/kernel/default_gemm.h>
#include <cutlass/epilogue/thread/linear_combination.h>

template <int M, int N, int K>
using Shape = cutlass::gemm::GemmShape<M, N, K>;
using Order = cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<8>;

// ALIGNED is the number of elements that a copy of A and B takes, WIDE that of a store of C.
template <class E, class Unit, class Arch, class Tile, class Warp, class Instruction, int STAGES, int ALIGNED, int WIDE, class Operator>
using Cutlass = typename cutlass::gemm::kernel::DefaultGemm<
    E, cutlass::layout::RowMajor, ALIGNED, E, cutlass::layout::RowMajor, ALIGNED, E, cutlass::layout::RowMajor, float, Unit, Arch, Tile, Warp,
    Instruction, cutlass::epilogue::thread::LinearCombination<E, WIDE, float, float>, Order, STAGES, true, Operator>::GemmKernel;

template <class Kernel, int BYTES, class E>
__device__ __forceinline__ void cutlass_gemm(int M, int N, int K, float alpha, const E* A, int lda, const E* B, int ldb, float beta, E* C,
                                             int ldc) {
  static_assert(sizeof(typename Kernel::SharedStorage) <= BYTES, "more than the header's dynamic_shared");
  extern __shared__ __align__(128) char shared[];
  using Tile = typename Kernel::Mma::Shape;
  const cutlass::gemm::GemmCoord problem(M, N, alpha == 0 ? 0 : K);  // what is in A and B may be NaN where alpha is 0
  const auto tiles = Order::get_tiled_shape(problem, {Tile::kM, Tile::kN, Tile::kK}, 1);
  const typename Kernel::Params params(problem, tiles, {const_cast<E*>(A), lda}, {const_cast<E*>(B), ldb}, {C, ldc}, {C, ldc},
                                       {alpha, beta});
  Kernel()(params, *reinterpret_cast<typename Kernel::SharedStorage*>(shared));
}
